# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The only client of systemd: names and files of units, their state, and the calls of systemctl.

Without a running systemd (an image that is being built, most containers, a captured tree) units are still written and
enabled, as both are files; nothing is asked, and :func:`daemon_reload` does nothing.
"""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, List, Sequence, Tuple

from ..host import Completed, Host
from ..resource import NodeError

#: Where the administrator's unit files are, and ours.
DIRECTORY = "/etc/systemd/system"
#: In the order of precedence: systemd.unit(5).
_DIRECTORIES = (
    DIRECTORY,
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
# systemd's own test for being the init of a machine: sd_booted(3).
_RUNS = "/run/systemd/system"
MULTI_USER, TIMERS = "multi-user.target", "timers.target"
#: As systemd.unit(5) has names; what goes into a unit file is never more than a word.
UNIT = (
    r"[A-Za-z0-9:_.\\@-]+\.(service|socket|target|mount|path|slice|timer)",
    "name of a unit",
    "give one such as slurmd.service",
)
_OURS = r"gpu-node-[\w@.-]+\.(service|timer)"
# A machine that is short of CPU time or memory answers late.
_ASK_SECONDS = 15.0
_RELOAD_SECONDS = 90.0
# A job of systemd; the slowest that is waited for starts NVIDIA's persistence daemon, one GPU after the other.
_JOB_SECONDS = 300.0


# Names and files ------------------------------------------------------------------------------------------


def path(unit: str) -> str:
    """The file of a unit that the administrator or we have; also of what is below :data:`DIRECTORY`."""
    return "{0}/{1}".format(DIRECTORY, unit)


def drop_in(unit: str, name: str) -> str:
    return "{0}/{1}.d/{2}".format(DIRECTORY, unit, name)


def mount_unit(place: str, kind: str = "mount") -> str:
    """As ``systemd-escape --path`` does it. ``kind``: mount or automount. The path is absolute, without ``..``."""
    plain = os.fsencode(re.sub(r"/+", "/", place).strip("/"))
    if not plain:
        return "-." + kind

    def escaped(number: int, first: bool) -> str:
        char = chr(number)
        if char == "/":
            return "-"
        if re.match(r"[A-Za-z0-9:_.]", char) and not (first and char == "."):
            return char
        return "\\x{0:02x}".format(number)

    return "".join(escaped(number, index == 0) for index, number in enumerate(plain)) + "." + kind


def ours(host: Host) -> Tuple[str, ...]:
    """Our services and timers, by their names."""
    return tuple(name for name in host.names(DIRECTORY) if re.fullmatch(_OURS, name))


def link(host: Host, unit: str) -> str:
    """What the unit's file points to where it is a symbolic link (``/dev/null``: it is masked), or ""."""
    try:
        return os.readlink(host.path(path(unit)))
    except OSError:
        return ""


def files(host: Host, unit: str) -> Iterator[str]:
    """The unit's files; systemd reads the first."""
    return (one for one in ("{0}/{1}".format(folder, unit) for folder in _DIRECTORIES) if host.exists(one))


def settings(host: Host, unit: str) -> Iterator[Tuple[str, str]]:
    """Names and values in the unit's file and its drop-ins, in the order in which systemd takes them."""
    main = next(files(host, unit), None)
    if main is None:
        return
    drop_ins: Dict[str, str] = {}
    for folder in reversed(_DIRECTORIES):
        drop_ins.update(
            {one: "{0}/{1}.d/{2}".format(folder, unit, one) for one in host.names(folder + "/" + unit + ".d")}
        )
    for file in (main, *(drop_ins[one] for one in sorted(drop_ins) if one.endswith(".conf"))):
        text = re.sub(r"\\\n", " ", host.read(file) or "")
        for line in text.splitlines():
            key, equals, value = line.strip().partition("=")
            if equals and not key.startswith(("#", ";")):
                yield key.strip(), value.strip()


# WantedBy=: links, so that it works in an image too ----------------------------------------------------------


def _wants(unit: str, target: str) -> str:
    return "{0}/{1}.wants/{2}".format(DIRECTORY, target, unit)


def is_enabled(host: Host, unit: str, target: str = MULTI_USER) -> bool:
    """Whether the administrator's directory has ``target`` start it."""
    return os.path.lexists(host.path(_wants(unit, target)))


def enable(host: Host, unit: str, target: str = MULTI_USER) -> None:
    """A unit of ours, as `systemctl enable` does it for ``WantedBy=target``.

    :raises NodeError: it cannot be made.
    """
    made = _wants(unit, target)
    try:
        os.makedirs(host.path(os.path.dirname(made)), exist_ok=True)
        os.symlink(path(unit), host.path(made))
    except OSError as error:
        raise NodeError(made, "it could not be made ({0})".format(error.strerror), "run it as root") from error


def disable(host: Host, unit: str, target: str = MULTI_USER) -> None:
    """:raises NodeError: the link cannot be removed."""
    host.remove(_wants(unit, target))


# systemctl ------------------------------------------------------------------------------------------------


def running(host: Host) -> bool:
    """Whether systemd manages this machine. A captured tree or an image has no files of a running system."""
    return host.exists(_RUNS)


def show(host: Host, units: Sequence[str], properties: Sequence[str]) -> Tuple[Dict[str, str], ...]:
    """The properties of each unit, in the order of ``units``, by one call. Of a unit that is not there too.

    :raises NodeError: systemd gives no answer.
    """
    done = _systemctl(host, ["show", "--property=" + ",".join(properties), "--", *units], _ASK_SECONDS)
    found = parse(done.stdout)
    return (*found, *({} for dummy in units[len(found) :]))


def parse(text: str) -> Tuple[Dict[str, str], ...]:
    """A block of NAME=value lines for each unit, with empty lines between them. Pure."""
    blocks = (block.strip().splitlines() for block in re.split(r"\n[ \t]*\n", text))
    return tuple(dict(line.partition("=")[::2] for line in lines) for lines in blocks if lines)


def start(host: Host, units: Sequence[str], wait: bool = True) -> None:
    """``wait``: for the end of its start. A hook does not, and nobody at boot, where a unit may wait for the caller.

    :raises NodeError: systemd refuses it, or one does not start.
    """
    _job(host, "start", units, wait)


def restart(host: Host, unit: str) -> None:
    """:raises NodeError: it does not start."""
    _job(host, "restart", (unit,))


def stop(host: Host, units: Sequence[str]) -> None:
    """:raises NodeError: one does not stop."""
    _job(host, "stop", units)


def enable_installed(host: Host, unit: str) -> None:
    """A unit of a package, which knows itself what wants it.

    :raises NodeError: systemd refuses it.
    """
    _job(host, "enable", (unit,))


def daemon_reload(host: Host) -> None:
    """Have systemd read its unit files and fstab again, if it runs. A container with the /run of its host may have no
    systemctl.

    :raises NodeError: systemd refuses it.
    """
    if running(host) and host.which(_program(host)):
        _systemctl(host, ["daemon-reload"], _RELOAD_SECONDS)


def _job(host: Host, verb: str, units: Sequence[str], wait: bool = True) -> None:
    words: List[str] = [verb, *([] if wait else ["--no-block"]), "--", *units]
    try:
        _systemctl(host, words, _JOB_SECONDS if wait else _ASK_SECONDS)
    except NodeError as error:
        reason = "'systemctl {0}' failed ({1})".format(verb, error.reason)
        remedy = "see 'systemctl status {0}' and 'journalctl -b -u {0}'".format(units[0])
        raise NodeError(" ".join(units), reason, remedy) from error


def _systemctl(host: Host, words: Sequence[str], seconds: float) -> Completed:
    return host.run([_program(host), *words], seconds)


def _program(host: Host) -> str:
    """A tree with programs of its own runs those, as Slurm's."""
    beside = host.path("/usr/bin/systemctl")
    return beside if host.root != "/" and os.access(beside, os.X_OK) else "systemctl"
