# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The local NVMe scratch of a node: RAID0 of its local disks, a file system on it, mounted now and after each boot.

For front ends:

- ``Desired.from_options(options)`` checks the options; every wrong one is a :class:`NodeError` of one sentence.
- ``run(host, desired, check_mode)`` brings the node there and returns the Outcome.
- ``converge_declared(host, check_mode)`` does so with what /etc/gpu_node/node.json declares; None when nothing is.
- ``status(host)`` tells what there is, as a JSON-able dict.
- ``view.facts(state, desired)`` and ``view.text(state, desired)`` render an observed state.

The parts: ``observe`` looks; ``classify`` decides what a disk is (blank, ours, somebody's) and ``remains`` whether
what is ours may go; ``selection``, ``standing``, ``building`` and ``mounting`` answer one question each for ``plan``,
which is pure; ``apply`` acts, and ``writer`` does what writes to a device.
"""

from __future__ import annotations

import dataclasses
import os
import time
import uuid
from typing import Any, Dict, Optional, Tuple

from ...core import declaration
from ...core.host import Host
from ...core.resource import NodeError, Outcome, Plan, Refusal, converge
from . import selection, view
from .actions import AssembleArray, CheckDisks, CreateArray, MakeFilesystem, StopArray
from .apply import Applier
from .desired import FOR_ONE_RUN, Desired
from .devices import settle
from .observe import disk_names, read_record, visible_disks
from .observe import observe as _observe
from .plan import plan as _plan
from .types import RECORD_PATH, SECTION, Disk, Identity, State

__all__ = ["Desired", "State", "converge_declared", "run", "status", "view"]

# So long after a boot a controller may still appear (hv_pci brings them one by one).
BOOT_SECONDS = 600.0


def _need_root() -> None:
    if os.geteuid() != 0:
        raise NodeError("nvme_scratch", "it needs root to look at disks and to mount", "run it as root (become: true)")


def run(host: Host, desired: Desired, check_mode: bool = False) -> Outcome[State]:
    """Bring the scratch to what is wanted. Two runs at once take turns.

    :raises NodeError: one sentence; a refusal of the plan changed nothing.
    """
    _need_root()
    identity = Identity(uuid.uuid4().hex, uuid.uuid4().hex)

    def converged() -> Outcome[State]:
        return converge(
            lambda: _observe(host, desired),
            lambda state: with_tools(state, desired, _plan(state, desired, identity), check_mode),
            Applier(host, desired),
            check_mode,
        )

    if check_mode:
        return converged()
    with host.lock(SECTION, float(desired.lock_timeout_seconds)):
        wait_for_disks(host, desired)
        return converged()


def with_tools(state: State, desired: Desired, planned: Plan, check_mode: bool) -> Plan:
    """A plan needs its programs; in check mode on a blank node they may be installed by then."""
    absent = desired.state == "absent"
    if "mdadm" in state.missing_tools and (planned.refusals or planned.skipped or absent):
        unread = members(state, desired)
        # The role installs it after a look; to take the scratch away it installs nothing.
        if unread and check_mode and not absent:
            text = "Not installed yet: mdadm; what the array of {0} is shows once it is."
            return Plan(notes=planned.notes + (text.format(", ".join(str(disk) for disk in unread)),))
        if unread:
            remedy = "install mdadm, then run again; without it nobody can say what the array of {0} is"
            text = remedy.format(", ".join(str(disk) for disk in unread))
            return Plan(refusals=(Refusal("mdadm", "not installed on this node", text),))
    needed = {"mount", "umount", "wipefs", "blkid"} if planned.actions else set()
    for action in planned.actions:
        if isinstance(action, (CreateArray, AssembleArray, StopArray, CheckDisks)):
            needed.add("mdadm")
        if isinstance(action, MakeFilesystem):
            needed.add("mkfs." + action.filesystem)
    lacking = [tool for tool in state.missing_tools if tool in needed]
    if not lacking:
        return planned
    names = ", ".join(lacking)
    if check_mode:
        return dataclasses.replace(planned, notes=planned.notes + ("Not installed yet: {0}.".format(names),))
    return Plan(
        refusals=(Refusal(names, "not installed on this node", "install mdadm, xfsprogs or e2fsprogs, then run again"),)
    )


def members(state: State, desired: Desired) -> Tuple[Disk, ...]:
    """Disks that are members of an array by libblkid, and are on record as ours or, unless the scratch is to go, named
    as scratch material."""
    chosen = {disk.name for disk in selection.select(state, desired)} if desired.state == "present" else set()
    builds = state.record.builds if state.record is not None else ()
    uuids = {build.array_uuid for build in builds} - {None}
    return tuple(
        disk
        for disk in state.disks
        if any(
            one.type == "linux_raid_member" and (disk.name in chosen or one.uuid in uuids) for one in disk.signatures
        )
    )


def wait_for_disks(host: Host, desired: Desired) -> None:
    """Give late controllers a moment, but only just after a boot and only while disks are missing."""
    uptime = float((host.read_line("/proc/uptime") or "0").split(" ")[0])
    if uptime > BOOT_SECONDS or desired.state != "present":
        return
    settle(host)
    if desired.count is None and not host.exists(RECORD_PATH):
        return
    record, dummy = read_record(host)
    built_of = set(record.builds[-1].serials) if record is not None and record.builds else set()
    deadline = time.monotonic() + desired.wait_seconds
    while time.monotonic() < deadline:
        chosen = selection.select(State(disks=visible_disks(host, desired)), desired)
        here = built_of & {disk.serial for disk in chosen}
        # Other disks may make up the number while one of ours is late. After a deallocation none of them comes back.
        if len(chosen) >= (desired.count or len(built_of)) and here in (set(), built_of):
            return
        before = disk_names(host)
        while time.monotonic() < deadline and disk_names(host) == before:
            time.sleep(0.5)
        settle(host)


def _declared(host: Host) -> Optional[Desired]:
    section = declaration.read(host).get(SECTION)
    if section is None:
        return None
    try:
        return Desired.from_options({name: value for name, value in section.items() if name not in FOR_ONE_RUN})
    except NodeError as error:
        raise NodeError(
            "{0}, section {1}".format(declaration.PATH, SECTION),
            "{0}: {1}".format(error.thing, error.reason),
            error.remedy,
        ) from error


def converge_declared(host: Host, check_mode: bool = False) -> Optional[Outcome[State]]:
    """What the boot unit runs."""
    desired = _declared(host)
    return None if desired is None else run(host, desired, check_mode)


def status(host: Host) -> Dict[str, Any]:
    """What stands, what is declared, and what a run would do or why it would refuse."""
    desired = _declared(host)
    if desired is None:
        return {
            "declared": False,
            "scratch": None,
            "in_order": None,
            "actions": [],
            "refusals": [],
            "notes": [],
            "skipped": None,
        }
    _need_root()
    state = _observe(host, desired)
    planned = with_tools(state, desired, _plan(state, desired, Identity(uuid.uuid4().hex, uuid.uuid4().hex)), False)
    return {
        "declared": True,
        "scratch": view.facts(state, desired),
        "in_order": not planned.actions and not planned.refusals and not planned.skipped,
        "actions": [action.describe() for action in planned.actions],
        "refusals": [str(refusal) for refusal in planned.refusals],
        "notes": list(planned.notes),
        "skipped": planned.skipped,
    }
