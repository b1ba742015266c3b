# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory that jobs do not get: pages put out to swap, and huge pages that nobody uses."""

from __future__ import annotations

import re
from typing import Any, List, Mapping, Tuple

from ...core.frozen import frozen
from ...core.mounts import Swap, swaps
from ...facts.sysfs import parse_int
from ...facts.sysfs_numa import memory_bytes
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy

SWAP = "swap_used_bytes"
IDLE_HUGE_PAGES = "huge_pages_idle_percent"
_HUGE_PAGES = "/sys/kernel/mm/hugepages"
_FILES = ("nr_hugepages", "free_hugepages")
_MIB = 1024.0**2


@frozen
class Pool:
    """Huge pages of one size that are reserved."""

    page_bytes: int
    reserved: int
    free: int


@frozen
class Pools:
    memory_bytes: int
    pools: Tuple[Pool, ...]


def look_at_swap(evidence: Evidence) -> Tuple[Swap, ...]:
    # zram is memory itself, only compressed.
    return tuple(one for one in swaps(evidence.host) if "/zram" not in one.path)


def judge_swap(seen: Tuple[Swap, ...], expected: Expected) -> Judgement:
    used = sum(one.used_bytes for one in seen)
    measured = (Measured(SWAP, float(used), better="lower"),)
    limit = expected.thresholds.get(SWAP)
    # A workstation may swap; on a machine for training it is a fault of the job's memory or of the image.
    if not expected.profile or limit is None or limit.outcome(used) is Outcome.PASS:
        return Judgement("{0:.0f} MiB used".format(used / _MIB) if seen else "there is none", (), measured)
    reason = "{0:.0f} MiB of memory are put out to {1}".format(used / _MIB, ", ".join(one.path for one in seen))
    remedy = "find what used the memory up, then run 'swapoff -a' and take swap out of /etc/fstab"
    finding = Finding(limit.outcome(used), "swap", reason, remedy, Remedy.CONFIGURE, code="used")
    return Judgement("{0:.0f} MiB used".format(used / _MIB), (finding,), measured)


def look_at_huge_pages(evidence: Evidence) -> Pools:
    host = evidence.host
    found: List[Pool] = []
    for name in host.names(_HUGE_PAGES):
        size = re.fullmatch(r"hugepages-(\d+)kB", name)
        numbers = [parse_int(host.read_line("{0}/{1}/{2}".format(_HUGE_PAGES, name, one))) for one in _FILES]
        if size and numbers[0] is not None and numbers[1] is not None:
            found.append(Pool(int(size.group(1)) * 1024, numbers[0], numbers[1]))
    return Pools(memory_bytes(host) or 0, tuple(found))


def judge_huge_pages(seen: Pools, expected: Expected) -> Judgement:
    idle = sum(one.page_bytes * max(0, one.free) for one in seen.pools if one.reserved == one.free)
    share = 100.0 * idle / seen.memory_bytes if seen.memory_bytes > 0 else 0.0
    measured = (Measured(IDLE_HUGE_PAGES, share, better="lower"),)
    limit = expected.thresholds.get(IDLE_HUGE_PAGES)
    if limit is None or limit.outcome(share) is Outcome.PASS or _wanted(expected.declared):
        return Judgement("{0:.1f} % of the memory lies idle in huge pages".format(share), (), measured)
    reason = "{0:.1f} % of the memory is reserved for them, and none is in use".format(share)
    remedy = "set vm.nr_hugepages to 0, and take hugepages= off the kernel's command line unless a program wants them"
    finding = Finding(
        limit.outcome(share), "huge pages", reason, remedy, Remedy.CONFIGURE, Certainty.LIKELY, code="idle"
    )
    return Judgement("{0:.1f} %".format(share), (finding,), measured)


def _wanted(declared: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a role was told to reserve them (variable nccl_sysctl)."""
    settings = (section.get("sysctl") for section in declared.values())
    return any(str(name).startswith("vm.nr_hugepages") for one in settings if isinstance(one, dict) for name in one)


CHECKS = (
    Check("memory_swap", "No memory is put out to swap", Cost.PASSIVE, judge_swap, look_at_swap),
    Check("memory_huge_pages", "No memory lies idle in huge pages", Cost.PASSIVE, judge_huge_pages, look_at_huge_pages),
)
