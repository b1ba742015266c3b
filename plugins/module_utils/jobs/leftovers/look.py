# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look for leftovers, and for what is to be known to judge them. Changes nothing."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Tuple

from ...core import declaration, mounts, processes, shares
from ...core.host import Host
from ...core.resource import NodeError
from ...core.system_processes import least_uid
from ...slurm import on_node, scratch
from . import devices
from .in_use import with_mounts, with_openers
from .places import AREAS, within
from .types import CLOCKS, GPU_PROCESSES, STOPPED_CONTAINERS, Leftover, Seen, Settings

_MOST = 2000


def look(host: Host, settings: Settings) -> Seen:
    """:raises NodeError: the declaration cannot be read."""
    declared, of = declaration.read(host), shares.owner(host)
    found: List[Leftover] = []
    notes: List[str] = []
    for kind, area in AREAS:
        if kind in settings.kinds:
            some, unread = area(host, declared)
            chosen = shares.in_turn(some, lambda one: None if one.identity is None else of(one.identity.uid))[:_MOST]
            found += sorted(chosen, key=lambda one: one.what)
            notes += unread
            if len(some) > _MOST:
                notes.append("{0}: {1} were found, and {2} are looked at".format(kind, len(some), _MOST))
    slurm = on_node.slurm_of(host, declared)
    uptime = processes.uptime(host)
    # What is of an earlier boot needs nobody's word.
    asked = [one.job for one in found if one.job is not None and (uptime is None or one.idle_seconds <= uptime)]
    here, told = on_node.look(host, slurm, asked)
    notes += told
    found = with_mounts(host, with_openers(host, found))
    free, size = _space(host, declared)
    if CLOCKS in settings.kinds:
        some, unread = devices.clocks(host, declared)
        found += some
        notes += unread
    if GPU_PROCESSES in settings.kinds and on_node.has_slurm(host, slurm):
        some, unread = devices.processes(host, here)
        found += some
        notes += unread
    if STOPPED_CONTAINERS in settings.kinds:
        found += devices.stopped(host)
    return Seen(tuple(found), here, uptime, least_uid(host), free, size, tuple(dict.fromkeys(notes)))


def _space(host: Host, declared: Mapping[str, Any]) -> Tuple[Optional[float], int]:
    try:
        point = scratch.usable(host, declared.get(scratch.SECTION))
    except NodeError:
        return None, 0
    if point is None:
        return None, 0
    some, dummy = within(point, lambda: iter([mounts.space(host, point)]))
    return (100.0 * some[0].free_bytes / max(1, some[0].total_bytes), some[0].total_bytes) if some else (None, 0)
