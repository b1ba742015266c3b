# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What it takes to call a disk blank beyond the silence of libblkid: who has it open, and what is on it."""

from __future__ import annotations

import os
from typing import Dict, Iterator, List, Optional, Sequence, Tuple, Union

from ...core import child
from ...core.frozen import replaced
from ...core.host import Host
from ...core.resource import NodeError
from . import openers, samples
from .types import Content, Disk

# As long as one program that probes a disk may take.
LIMIT_SECONDS = 30.0


def _numbers(host: Host, names: Sequence[str]) -> Dict[str, openers.Number]:
    found = {}
    for name in names:
        major, dummy, minor = (host.read_line("/sys/class/block/{0}/dev".format(name)) or "").partition(":")
        if major.isdigit() and minor.isdigit():
            found[name] = (int(major), int(minor))
    return found


def who(host: Host, disks: Sequence[Tuple[str, Tuple[str, ...]]]) -> Dict[str, Optional[Tuple[str, ...]]]:
    """Who holds each disk or its partitions open, in words; None, or left out: not known."""
    numbers = _numbers(host, [name for disk, partitions in disks for name in (disk, *partitions)])
    seen = openers.look(host, numbers) if numbers else None
    if seen is None:
        return {}
    return {
        disk: tuple(sorted({text for name in (disk, *partitions) for text in seen.get(name, ())}))
        for disk, partitions in disks
        if disk in numbers
    }


def contents(host: Host, sizes: Dict[str, int]) -> Dict[str, Union[Content, str]]:
    """What is on these disks, or why that is not known. A disk that does not answer costs only itself and time."""

    def task(report: child.Report) -> Iterator[Tuple[str, Union[Content, str]]]:
        for name, size_bytes in left.items():
            report(name)
            try:
                yield name, samples.look(host.path("/dev/" + name), size_bytes)
            except OSError as error:
                yield name, "reading it failed: {0}".format(error.strerror or error)

    found: Dict[str, Union[Content, str]] = {}
    left = dict(sizes)
    while left:
        try:
            collected = child.collect(task, LIMIT_SECONDS)
            found.update(collected.items)
            hung = collected.hung_at
            reason = "reading it did not end within {0:g} s".format(LIMIT_SECONDS)
        except child.ChildDied as error:
            found.update(error.items)
            hung, reason = error.thing, "the process that read it ended"
        left = {name: size for name, size in left.items() if name not in found}
        # One that hangs is told and passed over; when that is none of them, none is asked again.
        for name in [hung] if hung in left else list(left):
            found[str(name)] = reason
            left.pop(str(name))
    return found


def complete(host: Host, disks: Sequence[Disk], mounted: Sequence[str]) -> Tuple[Disk, ...]:
    """The disks with openers and content, where these matter: one beneath a mount is in use anyhow."""
    asked = [disk for disk in disks if disk.name not in mounted and disk.size_bytes > 0]
    if not asked:
        return tuple(disks)
    held = who(host, [(disk.name, disk.partitions) for disk in asked])
    silent = [
        disk
        for disk in asked
        if not (disk.signatures or disk.partitions or disk.holders or disk.swap or disk.busy or disk.read_error)
    ]
    seen = contents(host, {disk.name: disk.size_bytes for disk in silent})
    found: List[Disk] = []
    for disk in disks:
        content = seen.get(disk.name)
        found.append(
            replaced(
                disk,
                openers=held.get(disk.name),
                content=content if isinstance(content, Content) else None,
                read_error=content if isinstance(content, str) else disk.read_error,
            )
        )
    return tuple(found)


def demand(host: Host, devices: Sequence[Tuple[str, int, str]]) -> None:
    """Right before blank devices are written: (path, bytes, what to call it) of each. Their use is looked at last.

    :raises NodeError: one is open somewhere, or not blank any more.
    """
    found = contents(host, {os.path.basename(path): size_bytes for path, size_bytes, dummy in devices})
    things = [(path, thing) for path, dummy, thing in devices]
    for path, thing in things:
        content = found[os.path.basename(path)]
        if not isinstance(content, Content):
            raise NodeError(thing, content, "look at the kernel log, then run it again")
        if content.other_at is not None:
            raise NodeError(thing, "it is not blank any more (byte {0})".format(content.other_at), "run it again")
    nobody(host, things)


def nobody(host: Host, devices: Sequence[Tuple[str, str]]) -> None:
    """Of each device (path, what to call it).

    :raises NodeError: somebody holds one of them open, or that is not known.
    """
    names = {os.path.basename(path): thing for path, thing in devices}
    held = who(host, [(name, ()) for name in names])
    for name, thing in names.items():
        holding = held.get(name)
        if holding is None:
            raise NodeError(thing, "it could not be found out whether a process holds it open", "run it again")
        if holding:
            raise NodeError(thing, "{0} holds it open".format(", ".join(holding)), "end that use, then run it again")
