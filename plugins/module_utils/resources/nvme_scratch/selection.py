# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which disks are scratch material, and are they the expected ones? Pure."""

from __future__ import annotations

from typing import List, Tuple

from ...core.resource import Refusal
from . import listing
from .classify import system
from .options import REBUILD, Desired
from .types import Disk, State


def select(state: State, desired: Desired) -> Tuple[Disk, ...]:
    """The disks that fit at least one criterion, ordered by serial so that kernel names do not matter."""
    chosen = [
        disk
        for disk in state.disks
        if (desired.matches_model(disk.model) and system(disk, state) is None)
        or disk.serial in desired.serials
        or set(disk.aliases) & set(desired.devices)
    ]
    return tuple(sorted(chosen, key=lambda disk: (disk.serial, disk.name)))


def left_out(state: State, desired: Desired) -> Tuple[str, ...]:
    """Notes on disks of a named model that belong to the operating system."""
    chosen = select(state, desired)
    found = [system(disk, state) for disk in state.disks if desired.matches_model(disk.model) and disk not in chosen]
    return tuple("Left out: {0}: {1}.".format(one.thing, one.reason) for one in found if one is not None)


def refusals(state: State, desired: Desired) -> Tuple[Refusal, ...]:
    """What is wrong with the choice itself: disks named that are not there, or that cannot be told apart."""
    found: List[Refusal] = []
    for serial in desired.serials:
        if not any(disk.serial == serial for disk in state.disks):
            found.append(
                Refusal(
                    "disk {0}".format(serial),
                    "it is named in serials but this node has no NVMe disk with that serial number" + _here(state),
                    "correct serials, or have the disk brought back",
                )
            )
    for device in desired.devices:
        if not any(device in disk.aliases for disk in state.disks):
            found.append(
                Refusal(
                    device,
                    "it is not a whole NVMe disk of this node" + _here(state),
                    "name a disk like /dev/disk/by-id/nvme-…",
                )
            )
    chosen = select(state, desired)
    for serial in sorted({disk.serial for disk in chosen}):
        same = [disk for disk in state.disks if disk.serial == serial]
        if serial and len(same) > 1:
            found.append(
                Refusal(
                    "serial number {0}".format(serial),
                    "{0} disks bear it: {1}".format(len(same), ", ".join(disk.name for disk in same)),
                    "have the disks replaced, or leave both out; they cannot be told apart",
                )
            )
    return tuple(found)


def serials(state: State, desired: Desired) -> Tuple[str, ...]:
    """The serials to declare: those given, and those that the given device paths stand for today."""
    named = [disk.serial for disk in state.disks if set(disk.aliases) & set(desired.devices)]
    return tuple(sorted(set(desired.serials) | set(named)))


def _here(state: State) -> str:
    return "; it has {0}".format(listing.words(state, state.disks)) if state.disks else ""


def wrong_count(state: State, desired: Desired, expected: int) -> Refusal:
    chosen = select(state, desired)
    reason = "expected {0}, found {1}: {2}".format(
        expected, len(chosen), ", ".join("{0} ({1})".format(disk.serial, disk.name) for disk in chosen) or "none"
    )
    if len(chosen) >= expected:
        remedy = "narrow down models, serials or devices, or set count: {0}, which takes them all".format(len(chosen))
        return Refusal("local NVMe disks", reason, remedy)
    other = "set count: {0} if that is all there is".format(len(chosen))
    if not chosen:
        other = "correct models, serials or devices"
    remedy = (
        "look for the missing disk (nvme list, kernel log), or {0}; to erase a scratch that was built of more, {1}"
    ).format(other, REBUILD)
    rest = listing.others(state, chosen)
    if rest:
        reason += "; not named as scratch material: " + listing.words(state, rest)
    line = listing.offered(state, desired, chosen)
    if line:
        remedy = "if the others are scratch material, set {0}; otherwise {1}".format(line, remedy)
    return Refusal("local NVMe disks", reason, remedy)
