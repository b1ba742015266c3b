# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The system calls that Python lacks before 3.12."""

from __future__ import annotations

import ctypes
import os
import platform

NEW_MOUNTS, NEW_UTS, NEW_USER, NEW_PROCESSES = 0x00020000, 0x04000000, 0x10000000, 0x20000000
READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE = 0x1, 0x20, 0x1000, 0x4000, 0x40000
NO_SUID, NO_DEVICES, NO_EXECUTE = 0x2, 0x4, 0x8
_DETACH = 2
_DEATH_SIGNAL = 1
# There is no function of the C library for it.
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, "{0}: {1}".format(what, os.strerror(number)))


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def enter(handle: int, kind: int) -> None:
    _check(_libc.setns(handle, kind), "setns")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    words = [os.fsencode(word) or None for word in (source, target, kind)]
    data = os.fsencode(options) or None
    _check(_libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), data), "mount " + target)


def bind(source: str, target: str, read_only: bool = False) -> None:
    mount(source, target, flags=BIND)
    if read_only:
        # A mount that came from outside keeps the limits it had there.
        kept = os.statvfs(target).f_flag & (NO_SUID | NO_DEVICES | NO_EXECUTE)
        mount("", target, flags=BIND | REMOUNT | READ_ONLY | kept)


def make_root(folder: str) -> None:
    """The folder becomes the root of this mount namespace, and nothing else of it is left."""
    os.chdir(folder)
    _check(_libc.syscall(_PIVOT_ROOT[platform.machine()], b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _DETACH), "umount")
    os.chdir("/")


def die_with_parent(number: int) -> None:
    _check(_libc.prctl(_DEATH_SIGNAL, number, 0, 0, 0), "prctl")
