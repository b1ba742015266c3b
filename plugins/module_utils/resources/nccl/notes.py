# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the reader is told beside the steps. Pure."""

from __future__ import annotations

from typing import List, Sequence

from ...core.resource import Action
from ...core.systemd.units import ReloadSystemd
from . import sysctl, texts
from .options import Desired
from .types import CONF, SLURMD, State

_REWRITTEN = "{0} of this image writes {1} anew at each boot; take that part out of it, or run this play after a boot"
_NO_PEERMEM = (
    "this kernel has no module nvidia-peermem, so GPUDirect RDMA needs DMA-BUF "
    "(the driver's open kernel modules, and Linux 5.12 or newer)"
)
_NOT_LOADED = "nvidia-peermem is not loaded: it will be at the next boot, or now with 'modprobe nvidia-peermem'"
_OTHERS = (
    "slurmd runs with other limits than {0} has, although it was started after that was written: "
    "look at 'systemctl cat slurmd'"
)


def notes(state: State, desired: Desired) -> List[str]:
    found: List[str] = []
    if state.rewriter is not None and state.files.seen(CONF).kind != "missing":
        found.append(_REWRITTEN.format(state.rewriter, CONF))
    if wants_peermem(state, desired) and not state.peermem.installed:
        found.append(_NO_PEERMEM)
    elif wants_peermem(state, desired) and not state.peermem.loaded:
        found.append(_NOT_LOADED)
    if _others(state, desired) and not state.slurmd.older and not state.slurmd.stale and _written(state, desired):
        found.append(_OTHERS.format(SLURMD))
    found += sysctl.notes(state, desired.sysctl)
    return found


def wants_peermem(state: State, desired: Desired) -> bool:
    """It joins GPUs with RDMA devices, so it needs both."""
    return desired.peermem and bool(state.machine.gpus) and bool(state.machine.nics)


def restart_pending(state: State, desired: Desired, actions: Sequence[Action]) -> bool:
    """Whether slurmd will have other limits after a restart. ``state``: as it is after the actions."""
    read_anew = any(isinstance(one, ReloadSystemd) for one in actions)
    return _others(state, desired) and (read_anew or state.slurmd.older or state.slurmd.stale)


def _written(state: State, desired: Desired) -> bool:
    return state.files.seen(SLURMD).text == texts.slurmd(desired.limits)


def _others(state: State, desired: Desired) -> bool:
    """Whether the running slurmd has other limits than its drop-in says."""
    if not desired.present or not desired.slurmd_limits or state.slurmd.running is None:
        return False
    running = dict(state.slurmd.running)
    return any(running.get(name) != in_bytes(name, value) for name, value in desired.limits.items() if name in running)


def in_bytes(name: str, value: str) -> str:
    """As /proc/PID/limits counts; limits.conf(5) counts some in KiB."""
    return str(int(value) * 1024) if value.isdigit() and name in ("memlock", "stack", "core") else value
