# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which processes belong to the system. The only module that compares the name of a process.

A process chooses its own name and environment. So a name identifies a daemon only if the real user of the process is
root or a system user. A user cannot change the real user without privileges: a set-user-id program that a user starts
keeps the user's number, and so does a container in a user namespace.

Cheap to import.
"""

from __future__ import annotations

import os
import posixpath
import re
from typing import Container, List

from .host import Host
from .processes import Pid, cmdline, name, owner_of, pids, real_uid, status

_FIRST_USER = 1000
# DynamicUser= of systemd (dynamic-user.c): the numbers in use have a file here. The range alone proves nothing, since
# a directory service may assign the same numbers to people.
_DYNAMIC_USERS = "/run/systemd/dynamic-uid"
_DYNAMIC = range(61184, 65520)
# A control daemon of root starts its server with the number of the user who connects.
_OF_PARENT = frozenset(("nvidia-cuda-mps",))


def least_uid(host: Host) -> int:
    """The first number of people (login.defs(5))."""
    given = re.search(r"^\s*UID_MIN\s+(\d+)", host.read("/etc/login.defs") or "", re.MULTILINE)
    return max(1, int(given.group(1))) if given else _FIRST_USER


def of_root(host: Host, pid: Pid) -> bool:
    """Whether root started it. In a captured tree, root is the owner of the tree."""
    uid, owner = real_uid(host, pid), os.stat(host.path("/")).st_uid
    return owner_of(host, pid) == owner and (uid in (0, owner) or (uid is None and host.root != "/"))


def of_system(host: Host, pid: Pid) -> bool:
    """Whether root or a system user started it."""
    uid = real_uid(host, pid)
    if of_root(host, pid) or uid is None:
        return of_root(host, pid)
    return uid < least_uid(host) or (uid in _DYNAMIC and host.exists("{0}/{1}".format(_DYNAMIC_USERS, uid)))


def contained(host: Host, pid: Pid) -> bool:
    """Whether it runs in a PID namespace below the one of /proc. Root of such a container need not be root of the node,
    and without a user namespace it has number 0 here too. Linux 4.1 and later (proc_pid_status(5))."""
    return len(status(host, pid, "NSpid").split()) > 1


def is_daemon(host: Host, pid: Pid, names: Container[str], root: bool = False) -> bool:
    """Whether it has one of these names and belongs to the system; ``root``: to root of the node, so not to root of a
    container."""
    own = name(host, pid)
    if own not in names and not _executed_again(host, pid, own, names):
        return False
    if root:
        return of_root(host, pid) and not contained(host, pid)
    if of_system(host, pid):
        return True
    return own in _OF_PARENT and _server_of_system(host, pid)


def daemons(host: Host, names: Container[str], root: bool = False) -> List[int]:
    """The processes of which :func:`is_daemon` is true."""
    return [pid for pid in pids(host) if is_daemon(host, pid, names, root)]


def _executed_again(host: Host, pid: Pid, own: str, names: Container[str]) -> bool:
    """A daemon that executes its own file again gets the name of the file behind all links, and keeps its arguments:
    slurmd from Slurm 23.11 on does so at each ``scontrol reconfigure`` (slurmd.c, _try_to_reconfig), and Debian's
    /usr/sbin/slurmd is a link to slurmd-wlm."""
    called = posixpath.basename("".join(cmdline(host, pid)[:1])) if "-" in own else ""
    return called in names and own.startswith(called + "-")


def _server_of_system(host: Host, pid: Pid) -> bool:
    parent = status(host, pid, "PPid")
    # A user process whose parent exited is a child of process 1, whose name differs.
    return parent.isdecimal() and name(host, parent) in _OF_PARENT and of_system(host, parent)
