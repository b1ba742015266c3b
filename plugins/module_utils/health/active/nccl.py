# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All-reduce over all GPUs of the node with nccl-tests, one process, with the NCCL settings of the node.

NCCL reads /etc/nccl.conf by itself, so what is measured is what a job gets.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Mapping, Optional, Tuple

from ...core.resource import NodeError
from ..evidence import Evidence
from ..parse import ParseError, nccl_tests
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Machine, Outcome, Remedy, Span
from . import apart, survey, tools
from .readings import Figure, Reading, Readings, of_silent, unmeasured
from .readings import judge as judge_readings

FIGURE = "nccl_allreduce_busbw_gigabytes_per_second"
LOOPBACK = "nccl_infiniband_loopback_gigabytes_per_second"
# So that all data between GPUs of this node take the way over InfiniBand; as github.com/Azure/azurehpc-health-checks
# sets them in check_nccl_allreduce_ib_loopback.
_OVER_INFINIBAND = {"NCCL_SHM_DISABLE": "1", "NCCL_P2P_DISABLE": "1", "NCCL_NET_GDR_LEVEL": "5"}
_SECONDS = 300.0
_LARGEST, _LEAST = 16 * 2**30, 2**26
_REMEDY = "look at the checks of single GPUs and links first, then at NCCL_DEBUG=INFO of all_reduce_perf"
FIGURES: Dict[str, Figure] = {
    FIGURE: Figure("all-reduce bus bandwidth", "GB/s", _REMEDY, Remedy.LOOK),
    LOOPBACK: Figure(
        "all-reduce over InfiniBand", "GB/s", "look at the bandwidth of each port, then at nvidia_peermem", Remedy.LOOK
    ),
}
_NODE = "this node"


@dataclasses.dataclass(frozen=True)
class Seen:
    """``wrong``: how many elements came out wrong."""

    readings: Readings
    wrong: float = 0


def look(evidence: Evidence) -> Seen:
    found = survey.gpus(evidence)
    if found is None or len(found.gpus) + len(found.silent) < 2:
        return Seen(Readings(not_applicable="there are no two GPUs here that are whole"))
    if len(found.gpus) < 2:
        return Seen(Readings(readings=of_silent(found)))
    # An additional check: the copies between the GPUs need no tool.
    program = tools.find(evidence.host, evidence.settings, "all_reduce_perf")
    if program is None:
        return Seen(Readings(not_applicable="all_reduce_perf is not installed"))
    size = message_bytes(min(gpu.memory_bytes for gpu in found.gpus))
    count = len(found.gpus)
    argv = [program, "-b", str(size), "-e", str(size), "-g", str(count), "-n", "10", "-w", "3", "-c", "1"]
    environment = apart.environment([gpu.uuid for gpu in found.gpus])
    libraries = tools.mpi_libraries(evidence.host)
    if libraries:  # after those that are set: they are only for one that finds none
        known = environment.get("LD_LIBRARY_PATH", "")
        environment["LD_LIBRARY_PATH"] = ":".join(([known] if known else []) + libraries)
    means = "{0} GPUs, {1} MiB".format(count, size >> 20)
    figures: List[Tuple[str, float]] = []
    readings = list(of_silent(found))
    wrong = 0.0
    ways: Tuple[Tuple[str, Mapping[str, str]], ...] = ((FIGURE, {}), (LOOPBACK, _OVER_INFINIBAND))
    for name, more in ways:
        if name == LOOPBACK and not _has_limit(evidence, LOOPBACK):
            continue  # where ports cannot reach each other on the node, it would only measure that
        try:
            run = of_output(apart.run(argv, _SECONDS, dict(environment, **more)), count)
        except NodeError as error:
            readings.append(unmeasured(_NODE, name, error))
            continue
        figures.append((name, run.average_busbw_gigabytes_per_second))
        wrong += run.wrong
    return Seen(Readings(means, (Reading(_NODE, "", tuple(figures)), *readings)), wrong)


def _has_limit(evidence: Evidence, name: str) -> bool:
    data = evidence.declared.get("profile", {}).get("data", {})
    return any(name in (place.get("thresholds") or {}) for place in (data, evidence.settings))


def message_bytes(memory_bytes: int) -> int:
    """The largest power of two of which GPU memory holds four: to send, to receive, and to compare."""
    size = _LARGEST
    while size > _LEAST and size * 4 > memory_bytes:
        size //= 2
    return size


def of_output(ended: apart.Ended, count: int) -> nccl_tests.Run:
    """:raises ParseError: when it did not measure all GPUs."""
    try:
        run = nccl_tests.parse(ended.stdout)
    except ParseError as error:
        raise error.beside(ended.words) from None
    if run.ranks != count:
        raise ParseError(nccl_tests.TOOL, "it ran on {0} GPUs, not on {1}".format(run.ranks, count))
    if run.hosts > 1:
        raise ParseError(nccl_tests.TOOL, "it ran on {0} hosts, not on this node alone".format(run.hosts))
    return run


def judge(seen: Seen, expected: Expected) -> Judgement:
    """Pure."""
    judgement = judge_readings(seen.readings, expected, FIGURES)
    if not seen.wrong:
        return judgement
    finding = Finding(
        Outcome.FAIL,
        _NODE,
        "the sum over all GPUs came out wrong in {0:g} places".format(seen.wrong),
        "keep jobs off it; find the GPU with the memory test, and halve the set with all_reduce_perf -g",
        Remedy.REPLACE,
        Certainty.LIKELY,
        code="wrong_result",
    )
    return dataclasses.replace(judgement, findings=(finding, *judgement.findings))


def span(machine: Machine) -> Optional[Span]:
    """Once over the links between GPUs and, if there is a limit for it, once over InfiniBand."""
    if machine.gpus < 2 or "all_reduce_perf" not in machine.tools:
        return None
    return Span(20.0, 20.0)


CHECK = Check(
    id="nccl_all_reduce",
    title="All GPUs together sum up fast and right",
    cost=Cost.ACTIVE,
    judge=judge,
    look=look,
    lane="active",
    seconds=660.0,
    span=span,
)
