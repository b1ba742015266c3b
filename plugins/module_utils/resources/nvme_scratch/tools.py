# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tools that a plan needs, and whether it takes files of jobs away. Pure."""

from __future__ import annotations

from typing import Set, Tuple

from ...core.node_packages.distribution import InstallDistribution
from ...core.resource import Plan, Refusal
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
from .types import Disk, Node

# Debian, Ubuntu and EL have the same names. The other tools are those of util-linux, which every node has.
PACKAGES = {"mdadm": "mdadm", "mkfs.xfs": "xfsprogs", "mkfs.ext4": "e2fsprogs"}


def with_tools(node: Node, planned: Plan) -> Plan:
    """A plan needs its programs: they are installed first, or their lack is a refusal. To take the scratch away nothing
    is installed."""
    desired, missing = node.desired, node.state.missing_tools
    installs = desired.present and desired.manage_packages
    unread: Tuple[Disk, ...] = ()
    if "mdadm" in missing and (planned.refusals or planned.skipped or not desired.present):
        unread = _members(node)
    if unread:
        disks = ", ".join(str(disk) for disk in unread)
        if not installs:
            remedy = "install mdadm, then run again; without it nobody can say what the array of {0} is".format(disks)
            return Plan(refusals=(Refusal("mdadm", "not installed on this node", remedy),))
        text = "mdadm was not installed; what the array of {0} is shows only with it.".format(disks)
        planned = Plan(notes=(*planned.notes, text))
    if planned.refusals:
        return planned
    needed: Set[str] = {"mount", "umount", "wipefs", "blkid"} if planned.actions else set()
    for action in planned.actions:
        if isinstance(action, (CreateArray, AssembleArray, StopArray, CheckDisks)):
            needed.add("mdadm")
        if isinstance(action, MakeFilesystem):
            needed.add("mkfs." + action.filesystem)
    lacking = [tool for tool in missing if tool in needed and not (installs and tool in PACKAGES)]
    if lacking:
        remedy = "install mdadm, xfsprogs or e2fsprogs, then run again"
        return Plan(refusals=(Refusal(", ".join(lacking), "not installed on this node", remedy),))
    names = tuple(PACKAGES[tool] for tool in missing if tool in PACKAGES)
    if not (installs and names and (unread or desired.ahead or not node.nothing)):
        return planned
    notes = (*planned.notes, planned.skipped) if planned.skipped else planned.notes
    return Plan((InstallDistribution(names), *planned.actions), notes=notes)


def _members(node: Node) -> Tuple[Disk, ...]:
    """Disks that are members of an array by libblkid, and are on record as ours or, unless the scratch is to go, named
    as scratch material."""
    uuids = {build.array_uuid for build in node.record.builds} - {None}
    chosen = {one.disk.name for one in node.chosen} if node.desired.present else set()
    return tuple(
        one.disk
        for one in node.disks
        if any(
            found.type == "linux_raid_member" and (one.disk.name in chosen or found.uuid in uuids)
            for found in one.disk.signatures
        )
    )


def takes_away(planned: Plan, desired: Desired) -> bool:
    """Whether files of a job may be lost, or vanish from their path. A job needs no open file for that: it may be
    between two steps, or compute. Marks of a build that never ended prove nothing of a job."""
    given_up = not desired.present or desired.rebuild
    kinds = (Unmount, EraseFilesystem, EraseMark) if given_up else (Unmount, EraseFilesystem)
    return any(isinstance(one, kinds) for one in planned.actions)
