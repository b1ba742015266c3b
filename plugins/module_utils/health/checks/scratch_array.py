# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks under the scratch: all of those that it was built of, and an array that works."""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

from ...core import mounts
from ...core.frozen import frozen, replaced
from ...core.host import Host
from ...facts.sysfs import parse_int
from .. import scratch
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy

# Documentation/admin-guide/md.rst, array_state: data can be read and written.
_WORKING = ("clean", "active", "active-idle", "write-pending", "read-auto")
_LOST = "data on it are lost with a disk: redeploy the machine or replace the disk, then run 'gpunode converge'"
_WAIT = "wait until the reshape or recovery of its array has ended (cat /proc/mdstat), then look again"


@frozen
class Array:
    """``members`` are (device, its state in the words of the kernel). ``moving``: a reshape or recovery runs."""

    name: str
    state: str
    disks: int
    members: Tuple[Tuple[str, str], ...]
    moving: bool = False


@frozen
class Seen:
    """``missing``: serial numbers of disks that it was built of and that are not there. ``array`` None: it lies on a
    single disk, or is not mounted."""

    built_of: int
    missing: Tuple[str, ...]
    array: Optional[Array]


def look(evidence: Evidence) -> Optional[Seen]:
    candidates = scratch.places(evidence.declared)
    if not candidates:
        return None
    from ...core.machine import identity
    from ...facts.scratch.disks import disk_names, serial_of
    from ...facts.scratch.record import of_machine, read

    host = evidence.host
    # That of another machine came with an image and tells nothing of this one's disks.
    record, dummy = of_machine(read(host)[0], identity(host))
    serials = record.builds[-1].serials if record is not None and record.builds else ()
    there = {serial_of(host, name) for name in disk_names(host)}
    table = mounts.read(host)
    mount = mounts.scratch_in(table, candidates)
    array = None if mount is None else _array(host, mount.device)
    if mount is not None and _adopted(host, mount, serials):
        serials = ()
    return Seen(len(serials), tuple(sorted(one for one in serials if one not in there)), array)


def _adopted(host: Host, mount: mounts.Mount, serials: Tuple[str, ...]) -> bool:
    """Whether the scratch is another one than we built last: our record stays when one is adopted."""
    from ...facts.scratch.disks import disks_under, serial_of

    place = "/sys/dev/block/" + mount.device
    name = host.real_path(place).rsplit("/", 1)[-1] if host.exists(place) else ""
    under = {serial_of(host, one) for one in (disks_under(host, name) if name else ())} - {""}
    # Where no disk is told, it may be gone.
    return bool(under) and not under & set(serials)


def _array(host: Host, device: str) -> Optional[Array]:
    place = "/sys/dev/block/" + device
    if not re.fullmatch(r"\d+:\d+", device) or not host.exists(place + "/md"):
        return None
    members = [name[4:] for name in host.names(place + "/md") if name.startswith("dev-")]
    return Array(
        name=host.real_path(place).rsplit("/", 1)[-1],
        state=host.read_line(place + "/md/array_state") or "unknown",
        disks=parse_int((host.read_line(place + "/md/raid_disks") or "").split(" ")[0]) or 0,
        moving=host.read_line(place + "/md/reshape_position") not in (None, "none")
        or host.read_line(place + "/md/sync_action") in ("reshape", "recover", "resync"),
        members=tuple((one, host.read_line("{0}/md/dev-{1}/state".format(place, one)) or "") for one in members),
    )


def judge(seen: Optional[Seen], expected: Expected) -> Judgement:
    if seen is None:
        return Judgement(not_applicable=scratch.NOT_DECLARED)
    if seen.array is None and not seen.missing:
        return Judgement(not_applicable="the scratch lies on no array that is mounted")
    findings = [
        _finding("disk " + one, "the scratch was built of it, and it is not there", one, "member_missing")
        for one in seen.missing
    ]
    if seen.array is not None:
        findings += _array_findings(seen.array, bool(seen.missing))
    if seen.array is not None and seen.array.moving:
        # Data were moved to each of its disks. Meanwhile md runs a RAID0 as a RAID4 without its parity disk.
        findings = [replaced(one, remedy=_WAIT, action=Remedy.LOOK) for one in findings if one.code != "degraded"]
    count = seen.built_of if seen.array is None else len(seen.array.members)
    return Judgement("{0} disks".format(count), tuple(findings))


def _array_findings(array: Array, told: bool) -> List[Finding]:
    thing = "array " + array.name
    found = [
        _finding("disk " + name, "{0} says that it is {1}".format(thing, state), name, "member_faulty")
        for name, state in array.members
        if "faulty" in state.split(",")
    ]
    if array.state not in _WORKING:
        found.append(_finding(thing, "its state is {0}".format(array.state), array.name, "state"))
    elif len(array.members) != array.disks and not told:
        reason = "it has {0} disks instead of {1}".format(len(array.members), array.disks)
        found.append(_finding(thing, reason, array.name, "degraded"))
    return found


def _finding(thing: str, reason: str, key: str, code: str) -> Finding:
    return Finding(Outcome.FAIL, thing, reason, _LOST, Remedy.REPLACE, Certainty.CERTAIN, key, code)


CHECKS = (Check("scratch_array", "Every disk of the scratch is there", Cost.PASSIVE, judge, look, lane="storage"),)
