# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where Slurm's files and programs are: by slurmd's own rules. Reads only.

This is the only place that answers the question; a test fails if another one appears.

The configuration (slurmd.c: ``_establish_configuration``): a reconfigured slurmd keeps its cache
(SLURMD_RECONF_CONF_CACHE, which 22.05 does not have), then come ``--conf-server``, then ``-f``, SLURM_CONF and the
built-in path, then a server named by SLURM_CONF_SERVER or DNS. With a server slurmd is configless: every file in the
directory of slurm.conf comes from slurmctld and is in a cache that each start and each ``scontrol reconfigure``
rewrites.
"""

from __future__ import annotations

import functools
import os
import posixpath
import re
from typing import List, Optional, Sequence, Tuple

from ..core import declaration, processes
from ..core.frozen import frozen
from ..core.host import Host
from ..core.resource import NodeError
from ..core.system_processes import daemons
from . import PROGRAM_FOLDERS, unit_file
from .types import SECTION

# The built-in path of the packages, and the cache of a configless slurmd: first the link that slurmd makes to it.
LOCAL = "/etc/slurm/slurm.conf"
CACHES = (
    "/run/slurm/conf/slurm.conf",
    "/var/spool/slurmd/conf-cache/slurm.conf",
    "/var/spool/slurm/conf-cache/slurm.conf",
    "/var/lib/slurm/slurmd/conf-cache/slurm.conf",
)
# Paths of the library that contains the built-in path as text: in a prefix, and in the packages.
_LIBRARY = "libslurmfull.so"
_LIBRARY_LETTERS = re.compile(rb"\0(/[\x21-\x7e]{1,200}/slurm\.conf)(?=\0)")
_LIBRARY_MOST_BYTES = 64 << 20
_LONG_WITH_VALUE = ("authinfo", "ca-cert-file", "conf", "conf-server", "extra", "instance-id", "instance-type")


@frozen
class Place:
    """``path`` None: there is no slurm.conf. ``node_name`` None: slurmd takes it from the host's name; ``dynamic``:
    from the whole one, whatever slurm.conf says; ``future``: slurmctld chooses it."""

    path: Optional[str] = None
    configless: bool = False
    node_name: Optional[str] = None
    dynamic: bool = False
    future: bool = False

    def beside(self, name: str) -> Optional[str]:
        """Where slurmd reads another of its files, such as gres.conf."""
        return None if self.path is None else "{0}/{1}".format(posixpath.dirname(self.path), name)


def find(host: Host, given: Optional[str] = None, start: Optional[unit_file.Start] = None) -> Place:
    """``given`` is the caller's path, which need not exist yet; None: use the declared path. ``start``: how slurmd was
    started, for a caller that knows it: to find that out takes a look at each process."""
    if given is None:
        given = _declared(host)
    start = start or _slurmd(host)
    given_here = options(start.arguments)
    server = given_here.server

    def place(path: Optional[str], configless: bool) -> Place:
        return Place(path, configless, given_here.name, given_here.dynamic, given_here.future)

    if given:
        return place(given if host.exists(given) else None, posixpath.dirname(given) in _cache_folders())
    cache = start.environment.get("SLURMD_RECONF_CONF_CACHE")
    if cache:
        return place(cache + "/slurm.conf" if host.exists(cache + "/slurm.conf") else None, True)
    if not server:
        told = given_here.file or start.environment.get("SLURM_CONF")
        for path in (told, built_in(host, start)):
            if path and host.exists(path):
                return place(path, posixpath.dirname(path) in _cache_folders())
        server = bool(start.environment.get("SLURM_CONF_SERVER"))
    path = next((path for path in CACHES if host.exists(path)), None)
    return place(path, server or path is not None)


def _declared(host: Host) -> str:
    try:
        return str((declaration.read(host).get(SECTION) or {}).get("slurm_conf") or "")
    except NodeError:  # others report it, and a gate still needs its node name
        return ""


def command(host: Host, argv: Sequence[str]) -> List[str]:
    """``argv``, a Slurm command, changed so that it reads slurmd's slurm.conf: the file that ``-f``, SLURM_CONF or the
    declaration names, or the cache if an old local file exists too. Slurm's commands search the built-in path and
    /run/slurm/conf without help (read_config.c: ``_establish_config_source``)."""
    if os.environ.get("SLURM_CONF"):
        return list(argv)
    start = _slurmd(host)
    path = find(host, start=start).path
    usual = next((one for one in (built_in(host, start), CACHES[0]) if host.exists(one)), None)
    return list(argv) if path in (None, usual) else ["env", "SLURM_CONF={0}".format(path), *argv]


def built_in(host: Host, start: Optional[unit_file.Start] = None) -> str:
    """The slurm.conf that this Slurm reads by default: ``--sysconfdir`` of its build, which its library contains as
    text; without a library ``PREFIX/etc``, if it exists."""
    start = start or _slurmd(host)
    slurmd = start.program or program(host, "slurmd", start) or program(host, "scontrol", start)
    prefix = posixpath.dirname(posixpath.dirname(slurmd)) if slurmd else "/usr"
    compiled = _compiled(host, prefix)
    if compiled is not None:
        return compiled
    own = prefix + "/etc/slurm.conf"
    return own if prefix not in ("", "/", "/usr") and host.exists(own) else LOCAL


def _compiled(host: Host, prefix: str) -> Optional[str]:
    tops = [prefix + "/lib", prefix + "/lib64"]
    folders = [top + end for top in tops for end in ("/slurm", "")]
    if prefix in ("", "/", "/usr"):
        machines = [one for one in host.names("/usr/lib") if one.endswith("-linux-gnu")]
        folders = ["/usr/lib/" + one + end for one in machines for end in ("/slurm-wlm", "/slurm")]
        folders += ["/usr/lib64/slurm", "/usr/lib/slurm"]
    for folder in folders:
        path = host.path("{0}/{1}".format(folder, _LIBRARY))
        try:
            found = os.stat(path)
            named = _text_in(path, found.st_ino, found.st_size, found.st_mtime_ns)
        except OSError:
            continue
        if named is not None:
            return named
    return None


@functools.lru_cache(maxsize=8)
def _text_in(library: str, *dummy: int) -> Optional[str]:
    """The slurm.conf that this library names. The library has megabytes, and each call of a Slurm command needs the
    answer: a process reads it once, and again when the file changes (``dummy``: inode, size, time).

    :raises OSError: it cannot be read.
    """
    with open(library, "rb") as stream:
        letters = stream.read(_LIBRARY_MOST_BYTES)
    for found in _LIBRARY_LETTERS.finditer(letters):
        path = str(found.group(1), "ascii")
        if path not in CACHES:
            return path
    return None


@frozen
class Options:
    """``-f``, ``--conf-server``, ``-N``, ``-Z`` and ``-F`` of slurmd."""

    file: Optional[str] = None
    server: bool = False
    name: Optional[str] = None
    dynamic: bool = False
    future: bool = False


def options(arguments: Sequence[str]) -> Options:
    """The options of slurmd's command line. Pure."""
    values = {"f": "", "N": ""}
    server = dynamic = future = False
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            name, equals, dummy = word[2:].partition("=")
            server = server or name == "conf-server"
            if name in _LONG_WITH_VALUE and not equals and rest:
                rest.pop(0)
            continue
        for place, letter in enumerate(word[1:], 2) if word.startswith("-") else ():
            dynamic = dynamic or letter == "Z"
            if letter == "F":
                future = True
                break  # the rest of the word is its value
            if letter in "dfLnN":
                value = word[place:] or (rest.pop(0) if rest else "")
                values[letter] = value
                break
    return Options(values["f"] or None, server, values["N"] or None, dynamic, future)


def _cache_folders() -> Tuple[str, ...]:
    return tuple(posixpath.dirname(path) for path in CACHES)


def _slurmd(host: Host) -> unit_file.Start:
    """How the running slurmd was started; without one, how its unit would start it."""
    for pid in running(host):
        words = processes.cmdline(host, pid) or [""]
        program_file = words[0] if words[0].startswith("/") else None
        return unit_file.Start(program_file, tuple(words[1:]), processes.environ(host, pid))
    return unit_file.read(host, "slurmd.service")


def running(host: Host) -> List[int]:
    """The processes that are slurmd."""
    return daemons(host, ("slurmd",), root=True)


def program(host: Host, name: str, start: Optional[unit_file.Start] = None) -> Optional[str]:
    """The path of one of Slurm's programs on the node."""
    for folder in (*_beside_slurmd(start or _slurmd(host)), *PROGRAM_FOLDERS):
        path = "{0}/{1}".format(folder, name)
        if os.access(host.path(path), os.X_OK):
            return path
    return host.which(name) if host.root == "/" else None


def _beside_slurmd(start: unit_file.Start) -> Tuple[str, ...]:
    """A Slurm in a place of the site's choice: its slurmd runs from there, or its unit names it."""
    if start.program is None:
        return ()
    prefix = posixpath.dirname(posixpath.dirname(start.program))
    return (prefix + "/bin", prefix + "/sbin")
