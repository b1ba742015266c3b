# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sets of fields that options of the gate have inside."""

from __future__ import annotations

from typing import Optional, Tuple

from ...core.options import option, options

_UNTIL = "The last day on which it holds, V(2026-12-31), or a time, V(2026-12-31T18:00Z), in UTC without a zone."


@options
class Silence:
    """A known fault that does not count for a while."""

    finding: str = option(
        ...,
        "Name of a finding, C(check/code/key), or a pattern that begins with the id of a check, as "
        "C(gpu_xid/xid_63/*).",
    )
    until: str = option(..., _UNTIL)
    owner: str = option(..., "Who answers for it.")
    reason: str = option(..., "Why it may be so.")
    nodes: Optional[Tuple[str, ...]] = option(
        None,
        "Host names, or patterns of them, where it holds. By default on each node that this is set for.",
        kind="list",
        elements="str",
    )


@options
class Overrule:
    """A person who lets nodes back without their proof."""

    until: str = option(..., _UNTIL)
    owner: str = option(..., "Who answers for it.")
    reason: str = option(..., "Why it may be so.")
    nodes: Optional[Tuple[str, ...]] = option(
        None,
        "Host names, or patterns of them, where it holds. By default on each node that this is set for.",
        kind="list",
        elements="str",
    )


@options
class Acknowledged:
    """An Xid that somebody has looked at."""

    code: int = option(..., "The number of the Xid.")
    before: str = option(
        ...,
        "Until when, V(2026-11-21T20:00:00Z), UTC unless it says otherwise, or seconds since 1970.",
        whole=(10**9, 10**10),
    )
    pci_address: Optional[str] = option(None, "The GPU that is meant, V(0000:0b:00.0). By default each of them.")


@options
class Tools:
    """Where tools are."""

    nvbandwidth: Optional[str] = option(None, "NVIDIA's nvbandwidth.")
    all_reduce_perf: Optional[str] = option(None, "The all-reduce test of nccl-tests.")
    ib_write_bw: Optional[str] = option(None, "The write test of perftest.")
    dcgmi: Optional[str] = option(None, "The command of NVIDIA's DCGM.")
    fio: Optional[str] = option(None, "The tester of disks.")


@options
class Checks:
    """Settings of single checks, which :mod:`..settings` checks."""

    acknowledged: Optional[Tuple[Acknowledged, ...]] = option(
        None, "Xids that somebody has looked at. They are told no more; those that come later are.", inner=Acknowledged
    )
    partition_keys: Optional[Tuple[str, ...]] = option(
        None,
        "Partition keys that each InfiniBand port must have in its table, V(0x8012). The highest bit asks for full "
        "membership.",
        kind="list",
        elements="str",
    )
    tools: Optional[Tools] = option(
        None,
        "Whole paths of tools that active checks run, where they are not found by themselves.",
        inner=Tools,
    )
    compute_seconds: Optional[float] = option(
        None, "Seconds of load in the check C(gpu_compute), on all GPUs at once, V(1) to V(150), V(10) by default."
    )
    memory_test_seconds: Optional[float] = option(
        None, "Seconds of the memory test, which tests all GPUs at the same time, V(1) to V(120), V(4) by default."
    )
    scratch_probe_gibibytes: Optional[float] = option(
        None, "Size of the file that is written to the scratch and read back, V(0.125) to V(64), V(8) by default."
    )
    dcgm_level: Optional[int] = option(None, "Level of C(dcgmi diag), V(1) to V(3), V(1) by default.")
    hpl_output: Optional[str] = option(
        None, "The file that a job of HPL wrote. Without it the check C(hpl_result) does not run."
    )
