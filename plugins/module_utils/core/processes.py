# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes and the boot, as /proc shows them. With :mod:`.open_files` the only module that opens the files of a
process.

A process that ends while it is read is None, or empty. Its name, its command line and its environment are what it
claims (:mod:`.system_processes` decides what to believe); its user, its cgroup and its files come from the kernel.

Cheap to import.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Dict, Iterable, List, Optional, Tuple, Union

from .frozen import frozen
from .host import Host

Pid = Union[int, str]
# PID, and start in clock ticks after boot: another process may have the same PID later.
Started = Tuple[int, int]

# Fields of /proc/PID/stat (proc_pid_stat(5)).
PPID, FLAGS, UTIME, STIME, STARTTIME, STARTSTACK, PROCESSOR = 4, 9, 14, 15, 22, 28, 39
_STATE = 3
# PROC_PID_INIT_INO (include/linux/proc_ns.h), since Linux 3.8.
_FIRST_PID_NAMESPACE = "pid:[4026531836]"
_PAUSE_SECONDS = 0.05
# kubepods-burstable-podUID.slice, and pod/UID of the cgroupfs driver.
_POD = re.compile(r"/(?:[^/\n]*-)?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?:\.slice)?(?:/|$)", re.M)
# docker-ID.scope, cri-containerd-ID.scope, crio-ID.scope, libpod-ID.scope; version 1 has the number alone.
_CONTAINER = re.compile(r"/(?:[a-z-]+-)?([0-9a-f]{64})(?:\.scope)?(?:/|$)", re.M)


# The boot ----------------------------------------------------------------------------------------------


def boot_id(host: Host) -> str:
    """A random ID of this boot; "" if it cannot be read."""
    return host.read_line("/proc/sys/kernel/random/boot_id") or ""


def boot_time(host: Host) -> Optional[float]:
    """When the kernel started, in seconds since 1970; None: unknown."""
    found = re.search(r"^btime (\d+)$", host.read("/proc/stat") or "", re.MULTILINE)
    return None if found is None else float(found.group(1))


def uptime(host: Host) -> Optional[float]:
    """Seconds since the boot; None: unknown."""
    found = re.match(r"(\d+(?:\.\d+)?)(?:\s|$)", host.read("/proc/uptime") or "")
    return None if found is None else float(found.group(1))


# One process -------------------------------------------------------------------------------------------


def pids(host: Host) -> List[int]:
    """All processes, in the order of their numbers."""
    return _numbers(host, "/proc")


def tids(host: Host, pid: Pid) -> List[int]:
    return _numbers(host, "/proc/{0}/task".format(pid))


def _numbers(host: Host, folder: str) -> List[int]:
    return sorted(int(one) for one in host.names(folder) if one.isdecimal())


def _read(host: Host, pid: Pid, name: str, tid: Optional[int] = None, limit: Optional[int] = None) -> Optional[str]:
    return host.read("/proc/{0}/{1}{2}".format(pid, "" if tid is None else "task/{0}/".format(tid), name), limit)


@frozen
class Stat:
    """A line of /proc/PID/stat: the name, and the fields from the state on."""

    name: str
    fields: Tuple[str, ...]

    @property
    def state(self) -> str:
        return self.fields[0]

    @property
    def ended(self) -> bool:
        """A zombie has ended and holds nothing any more; its parent has not noticed yet."""
        return self.state in ("Z", "X")

    def number(self, field: int) -> Optional[int]:
        try:
            return int(self.fields[field - _STATE])
        except (IndexError, ValueError):
            return None


def parse_stat(text: str) -> Optional[Stat]:
    """The name is in parentheses and may contain any character, parentheses and newlines too."""
    head, closing, rest = text.rpartition(")")
    fields = tuple(rest.split())
    return Stat(head.partition("(")[2], fields) if closing and fields else None


def stat(host: Host, pid: Pid, tid: Optional[int] = None) -> Optional[Stat]:
    return parse_stat(_read(host, pid, "stat", tid) or "")


def start_time(host: Host, pid: Pid) -> Optional[int]:
    """None for a process that has ended."""
    found = stat(host, pid)
    return None if found is None or found.ended else found.number(STARTTIME)


def alive(host: Host, one: Started) -> bool:
    return start_time(host, one[0]) == one[1]


def this(host: Host) -> Optional[Started]:
    """The calling process."""
    pid = os.getpid()
    start = start_time(host, pid)
    return None if start is None else (pid, start)


def name(host: Host, pid: Pid) -> str:
    """For messages; empty for a process that has ended."""
    return host.read_line("/proc/{0}/comm".format(pid)) or ""


def status(host: Host, pid: Pid, key: str, tid: Optional[int] = None) -> str:
    """The value of one line of /proc/PID/status; the kernel escapes the newlines of the name in it."""
    text = "\n" + (_read(host, pid, "status", tid) or "")
    value = text.partition("\n{0}:".format(key))[2].partition("\n")[0]
    return value[1:] if value.startswith(("\t", " ")) else value


def uids(host: Host, pid: Pid) -> Tuple[int, ...]:
    """Real, effective, saved and file system user."""
    return tuple(int(one) for one in status(host, pid, "Uid").split() if one.isdecimal())


def real_uid(host: Host, pid: Pid) -> Optional[int]:
    """None for a process that has ended."""
    return next(iter(uids(host, pid)), None)


def owner_of(host: Host, pid: Pid) -> Optional[int]:
    """The owner of its directory: the user, or root if it may not be traced. None for a process that has ended."""
    with contextlib.suppress(OSError):
        return os.stat(host.path("/proc/{0}".format(pid))).st_uid
    return None


def ancestors(host: Host, pid: int) -> List[int]:
    """A process and its parents up to init."""
    chain: List[int] = []
    while pid > 0 and pid not in chain:
        chain.append(pid)
        found = stat(host, pid)
        pid = (found and found.number(PPID)) or 0
    return chain


def cmdline(host: Host, pid: Pid, limit: Optional[int] = None) -> List[str]:
    """The words of the command line; none for a thread of the kernel. ``limit``: in bytes, it may have megabytes."""
    text = (_read(host, pid, "cmdline", limit=limit) or "").rstrip("\0")
    return text.split("\0") if text else []


def environ(host: Host, pid: Pid) -> Dict[str, str]:
    """The variables that it was started with."""
    return parse_environ(_read(host, pid, "environ") or "")


def parse_environ(text: str) -> Dict[str, str]:
    """Of two variables with one name the first counts, as in getenv(3)."""
    found: Dict[str, str] = {}
    for word in text.split("\0"):
        variable, equals, value = word.partition("=")
        if equals:
            found.setdefault(variable, value)
    return found


def limits(host: Host, pid: Pid) -> Optional[Dict[str, str]]:
    """The soft limits by their names in /proc/PID/limits: a number, or ``unlimited``."""
    text = _read(host, pid, "limits")
    return None if text is None else parse_limits(text)


def parse_limits(text: str) -> Dict[str, str]:
    return dict(re.findall(r"^(Max [a-z ]+?)  +(unlimited|\d+) ", text, re.MULTILINE))


def waits_in(host: Host, pid: Pid) -> str:
    """The function of the kernel that it waits in."""
    return host.read_line("/proc/{0}/wchan".format(pid)) or ""


def hidden(host: Host, pid: int) -> bool:
    """Whether a process exists and may not be read (hidepid= of /proc, another user's process)."""
    path = "/proc/{0}/stat".format(pid)
    if host.exists(path):
        return not os.access(host.path(path), os.R_OK)
    if host.root != "/":
        return host.exists("/proc/{0}".format(pid))
    try:
        os.kill(pid, 0)  # no signal, only the question
    except PermissionError:
        return True
    except OSError:
        return False
    return stat(host, pid) is None and os.path.exists("/proc/{0}".format(pid))


# Cgroups and namespaces --------------------------------------------------------------------------------


def cgroup(host: Host, pid: Pid) -> str:
    """/proc/PID/cgroup. Split it at newlines only: a user may use other line ends in the name of a cgroup."""
    return _read(host, pid, "cgroup") or ""


def pod(cgroup_text: str) -> str:
    """The UID of the Kubernetes pod. Pure."""
    found = _POD.search(cgroup_text)
    return found.group(1).replace("_", "-") if found else ""


def container(cgroup_text: str) -> str:
    """The short ID of the container. Pure."""
    found = _CONTAINER.search(cgroup_text)
    return found.group(1)[:12] if found else ""


def namespace(host: Host, pid: Pid, kind: str) -> str:
    """Such as ``mnt:[4026531841]``; "" if it cannot be read."""
    try:
        return os.readlink(host.path("/proc/{0}/ns/{1}".format(pid, kind)))
    except OSError:
        return ""


def in_container(host: Host) -> bool:
    """Whether this is another PID namespace than the node's: /proc does not list the processes outside of it."""
    return namespace(host, "self", "pid") not in ("", _FIRST_PID_NAMESPACE)


# Signals -----------------------------------------------------------------------------------------------


def send(host: Host, one: Started, number: int) -> bool:
    """Send a signal to this process, never to another one that got its number meanwhile."""
    import signal  # a hook that ends nothing does not pay for it

    handle = None
    with contextlib.suppress(OSError, AttributeError):  # Linux 5.3, Python 3.9
        handle = os.pidfd_open(one[0])
    try:
        if not alive(host, one):
            return False
        if handle is None:
            os.kill(one[0], number)
        else:
            signal.pidfd_send_signal(handle, number)
        return True
    except OSError:
        return False
    finally:
        if handle is not None:
            os.close(handle)


def left_after(host: Host, processes: Iterable[Started], seconds: float) -> List[Started]:
    """Wait until they have ended, at most so long; return those that have not."""
    left = list(processes)
    deadline = time.monotonic() + seconds
    while True:
        left = [one for one in left if alive(host, one)]
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(_PAUSE_SECONDS)
