# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which slurm.conf the slurmd of this node reads, and under which NodeName it runs. Reads only.

slurmd takes ``--conf-server`` first, then ``-f`` or SLURM_CONF, then its built-in path, then a server named by DNS
(slurmd.c: ``_establish_configuration``). With a server it is configless: every file beside slurm.conf comes from
slurmctld and lies in a cache that is written anew at each start and ``scontrol reconfigure``.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from typing import List, Optional, Sequence, Tuple

from ..core.frozen import frozen
from ..core.host import Host
from ..core.system_processes import is_daemon
from . import PROGRAM_FOLDERS, slurm_conf, syntax

# The usual path (CycleCloud has a link to a shared file there), and the cache of a configless slurmd.
LOCAL = "/etc/slurm/slurm.conf"
CACHES = (
    "/run/slurm/conf/slurm.conf",
    "/var/spool/slurmd/conf-cache/slurm.conf",
    "/var/spool/slurm/conf-cache/slurm.conf",
)
# Where units take SLURMD_OPTIONS from.
_OPTIONS = ("/etc/default/slurmd", "/etc/sysconfig/slurmd")


@frozen
class Place:
    """``path`` None: there is no slurm.conf. ``node_name`` None: slurmd takes it from the host's name."""

    path: Optional[str] = None
    configless: bool = False
    node_name: Optional[str] = None

    def beside(self, name: str) -> Optional[str]:
        """Where slurmd reads another of its files, such as gres.conf."""
        return None if self.path is None else "{0}/{1}".format(posixpath.dirname(self.path), name)


def node_name(place: Place, text: Optional[syntax.Text]) -> str:
    """The NodeName of this node: as slurmd was told (``-N``), else as ``text``, its slurm.conf, has it for the host."""
    short = os.uname().nodename.split(".")[0]
    return place.node_name or (slurm_conf.node_name(text, short) if text else None) or short


def find(host: Host, given: str = "") -> Place:
    """``given`` is a path that the caller was told, which need not be there yet."""
    arguments, environment_path = _slurmd(host)
    file, server, name = options(arguments)
    if given:
        return Place(given if host.exists(given) else None, posixpath.dirname(given) in _cache_folders(), name)
    if not server:
        for path in (file, environment_path, LOCAL):
            if path and host.exists(path):
                return Place(path, posixpath.dirname(path) in _cache_folders(), name)
    cache = next((path for path in CACHES if host.exists(path)), None)
    return Place(cache, server or cache is not None, name)


def options(arguments: Sequence[str]) -> Tuple[Optional[str], bool, Optional[str]]:
    """(``-f``, whether there is ``--conf-server``, ``-N``) of slurmd's command line. Pure."""
    file: Optional[str] = None
    name: Optional[str] = None
    server = False
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word.startswith("--conf-server"):
            server = True
        elif re.match(r"-[fN]", word):
            value = word[2:] or (rest.pop(0) if rest else "")
            if word[1] == "f":
                file = value or None
            else:
                name = value or None
        elif word in ("--conf", "-L", "-d", "-n") and rest:
            rest.pop(0)
    return file, server, name


def _cache_folders() -> Tuple[str, ...]:
    return tuple(posixpath.dirname(path) for path in CACHES)


def _slurmd(host: Host) -> Tuple[List[str], Optional[str]]:
    """(arguments, SLURM_CONF) of the slurmd that runs, else as its unit would start it."""
    for pid in running(host):
        folder = "/proc/" + pid
        environment = (host.read(folder + "/environ") or "").split("\0")
        path = next((one[len("SLURM_CONF=") :] for one in environment if one.startswith("SLURM_CONF=")), None)
        return (host.read(folder + "/cmdline") or "").split("\0")[1:], path
    for file in _OPTIONS:
        found = re.findall(r"^\s*(?:export\s+)?SLURMD_OPTIONS=(.*)$", host.read(file) or "", re.MULTILINE)
        if found:
            try:
                words = shlex.split(found[-1])
                # A value in quotes is one word of the shell and many of slurmd; CycleCloud writes it without any.
                return shlex.split(words[0]) if len(words) == 1 else words, None
            except ValueError:
                return found[-1].split(), None
    return [], None


def running(host: Host) -> List[str]:
    """The processes that are slurmd."""
    pids = [one for one in host.names("/proc") if one.isdigit()]
    return [one for one in pids if is_daemon(host, one, ("slurmd",), root=True)]


def program(host: Host, name: str) -> Optional[str]:
    """The path of one of Slurm's programs on the node."""
    for folder in PROGRAM_FOLDERS:
        path = "{0}/{1}".format(folder, name)
        if os.access(host.path(path), os.X_OK):
            return path
    return host.which(name) if host.root == "/" else None
