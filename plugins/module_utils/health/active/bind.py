# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep a process and its memory on one NUMA node; both are inherited by what it starts.

A GPU or a port reaches its rate only from the memory that is near to it, so a measurement from anywhere else tells
more of the luck of the scheduler than of the hardware.
"""

from __future__ import annotations

import ctypes
import os
from typing import Optional, Sequence

from ...core.resource import NodeError

# Numbers of set_mempolicy(2): Linux, arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
_MPOL_BIND = 2  # include/uapi/linux/mempolicy.h
_MAX_NODES = 1024


def to_node(node: Optional[int], cpus: Sequence[int]) -> None:
    """Bind this process to the CPUs and the memory of a node. None: the machine has but one, or tells none.

    :raises NodeError: when the kernel refuses, as it does in a container that has other CPUs.
    """
    if node is None or not cpus:
        return
    remedy = "run it as root on the node, outside of containers and jobs that have other CPUs"
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        reason = "this process cannot be bound to its CPUs ({0})".format(error.strerror)
        raise NodeError("NUMA node {0}".format(node), reason, remedy) from error
    number = _SET_MEMPOLICY.get(os.uname().machine)
    if number is None or not 0 <= node < _MAX_NODES:
        return  # memory comes from the node of the CPU that touches it first
    mask = (ctypes.c_ulong * (_MAX_NODES // 64))()
    mask[node // 64] = 1 << (node % 64)
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.syscall(ctypes.c_long(number), ctypes.c_long(_MPOL_BIND), mask, ctypes.c_ulong(_MAX_NODES + 1))
    if failed and ctypes.get_errno() not in _FIRST_TOUCH:
        reason = "this process cannot have its memory there ({0})".format(os.strerror(ctypes.get_errno()))
        raise NodeError("NUMA node {0}".format(node), reason, remedy)


# EPERM: seccomp of a container; ENOSYS: a kernel without NUMA; EINVAL: a node without memory, as on a board with empty
# slots. First touch from the bound CPUs does the same there.
_FIRST_TOUCH = (1, 22, 38)
