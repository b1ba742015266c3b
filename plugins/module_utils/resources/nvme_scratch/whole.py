# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scratch with what it needs around it: the tools before it, the boot unit after it. Pure."""

from __future__ import annotations

from typing import Tuple

from ...core import boot_unit
from ...core.boot_unit import BootUnit
from ...core.node_packages.distribution import InstallDistribution
from ...core.resource import Plan, Refusal
from . import selection
from .actions import (
    AssembleArray,
    CheckDisks,
    CreateArray,
    EraseFilesystem,
    EraseMark,
    MakeFilesystem,
    StopArray,
    Unmount,
)
from .options import Desired
from .plan import nothing
from .plan import plan as plan_scratch
from .types import SECTION, Disk, Found, State

# Debian, Ubuntu and EL have the same names. The other tools are those of util-linux, which every node has.
PACKAGES = {"mdadm": "mdadm", "mkfs.xfs": "xfsprogs", "mkfs.ext4": "e2fsprogs"}


def unit_of(desired: Desired) -> BootUnit:
    return BootUnit(
        SECTION,
        "Local NVMe scratch of this GPU node",
        # Azure's /mnt, above the scratch, is a mount that cloud-init makes (both names of its network stage).
        after=("local-fs.target", "systemd-udev-settle.service", "cloud-init.service", "cloud-init-network.service"),
        before=desired.before_units,
        timeout_seconds=desired.boot_timeout_seconds,
        after_mounts=(*desired.mount_points, *_above(desired.mount_points)),
    )


def _above(places: Tuple[str, ...]) -> Tuple[str, ...]:
    """The parent directories of these mount points: a later mount there would hide our mount."""
    parts = [place.strip("/").split("/") for place in places]
    found = ("/" + "/".join(names[:depth]) for names in parts for depth in range(1, len(names)))
    return tuple(one for one in dict.fromkeys(found) if one not in places)


def plan(found: Found, desired: Desired) -> Plan:
    """The unit is made and removed after the scratch: if the scratch is in use, nothing of it is removed."""
    scratch = plan_without_unit(found, desired)
    wanted = desired.present and desired.boot_unit
    if wanted and nothing(found.scratch, desired) and not desired.ahead:
        return scratch
    unit = boot_unit.plan(found.unit, unit_of(desired), wanted)
    refusals, notes = scratch.refusals + unit.refusals, scratch.notes + unit.notes
    if refusals:
        return Plan(refusals=refusals, notes=notes)
    if scratch.skipped and unit.actions:
        return Plan(unit.actions, notes=(*notes, scratch.skipped))
    return Plan(scratch.actions + unit.actions, notes=notes, skipped=scratch.skipped)


def plan_without_unit(found: Found, desired: Desired) -> Plan:
    """What the unit itself runs."""
    planned = with_tools(found.scratch, desired, plan_scratch(found.scratch, desired, found.identity))
    if not found.jobs or not takes_away(planned, desired):
        return planned
    reason = "{0} is on this node, and its files may be on the scratch".format(found.jobs[0])
    remedy = "drain the node, wait until it is empty, then run again"
    return Plan(refusals=(Refusal("our scratch", reason, remedy),), notes=planned.notes)


def takes_away(planned: Plan, desired: Desired) -> bool:
    """Whether files of a job may be lost, or vanish from their path. A job needs no open file for that: it may be
    between two steps, or compute. Marks of a build that never ended prove nothing of a job."""
    given_up = not desired.present or desired.rebuild
    kinds = (Unmount, EraseFilesystem, EraseMark) if given_up else (Unmount, EraseFilesystem)
    return any(isinstance(one, kinds) for one in planned.actions)


def with_tools(state: State, desired: Desired, planned: Plan) -> Plan:
    """A plan needs its programs: they are installed first, or their lack is a refusal. To take the scratch away nothing
    is installed."""
    installs = desired.present and desired.manage_packages
    unread: Tuple[Disk, ...] = ()
    if "mdadm" in state.missing_tools and (planned.refusals or planned.skipped or not desired.present):
        unread = members(state, desired)
    if unread:
        disks = ", ".join(str(disk) for disk in unread)
        if not installs:
            remedy = "install mdadm, then run again; without it nobody can say what the array of {0} is".format(disks)
            return Plan(refusals=(Refusal("mdadm", "not installed on this node", remedy),))
        text = "mdadm was not installed; what the array of {0} is shows only with it.".format(disks)
        planned = Plan(notes=(*planned.notes, text))
    if planned.refusals:
        return planned
    lacking = [tool for tool in state.missing_tools if tool in _needed(planned)]
    if installs:
        lacking = [tool for tool in lacking if tool not in PACKAGES]
    if lacking:
        remedy = "install mdadm, xfsprogs or e2fsprogs, then run again"
        return Plan(refusals=(Refusal(", ".join(lacking), "not installed on this node", remedy),))
    names = tuple(PACKAGES[tool] for tool in state.missing_tools if tool in PACKAGES)
    if not (installs and names and (unread or desired.ahead or not nothing(state, desired))):
        return planned
    notes = (*planned.notes, planned.skipped) if planned.skipped else planned.notes
    return Plan((InstallDistribution(names), *planned.actions), notes=notes)


def _needed(planned: Plan) -> Tuple[str, ...]:
    needed = {"mount", "umount", "wipefs", "blkid"} if planned.actions else set()
    for action in planned.actions:
        if isinstance(action, (CreateArray, AssembleArray, StopArray, CheckDisks)):
            needed.add("mdadm")
        if isinstance(action, MakeFilesystem):
            needed.add("mkfs." + action.filesystem)
    return tuple(needed)


def members(state: State, desired: Desired) -> Tuple[Disk, ...]:
    """Disks that are members of an array by libblkid, and are on record as ours or, unless the scratch is to go, named
    as scratch material."""
    chosen = {disk.name for disk in selection.select(state, desired)} if desired.present else set()
    builds = state.record.builds if state.record is not None else ()
    uuids = {build.array_uuid for build in builds} - {None}
    return tuple(
        disk
        for disk in state.disks
        if any(
            one.type == "linux_raid_member" and (disk.name in chosen or one.uuid in uuids) for one in disk.signatures
        )
    )
