# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All-reduce over all GPUs of the node with nccl-tests, one process, with the NCCL settings of the node.

NCCL reads /etc/nccl.conf by itself, so what is measured is what a job gets.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, Optional

from ..evidence import Evidence
from ..parse import ParseError, nccl_tests
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy
from . import apart, survey, tools
from .readings import Figure, Reading, Readings, of_silent
from .readings import judge as judge_readings

FIGURE = "nccl_allreduce_busbw_gigabytes_per_second"
_SECONDS = 300.0
_LARGEST, _LEAST = 16 * 2**30, 2**26
_REMEDY = "look at the checks of single GPUs and links first, then at NCCL_DEBUG=INFO of all_reduce_perf"
FIGURES: Dict[str, Figure] = {FIGURE: Figure("all-reduce bus bandwidth", "GB/s", _REMEDY, Remedy.LOOK)}
_NODE = "this node"


@dataclasses.dataclass(frozen=True)
class Seen:
    readings: Readings
    run: Optional[nccl_tests.Run] = None


def look(evidence: Evidence) -> Seen:
    found = survey.gpus(evidence)
    if found is None or len(found.gpus) + len(found.silent) < 2:
        return Seen(Readings(not_applicable="there are no two GPUs here that are whole"))
    if len(found.gpus) < 2:
        return Seen(Readings(readings=of_silent(found)))
    program = tools.need(evidence.host, evidence.settings, "all_reduce_perf")
    size = message_bytes(min(gpu.memory_bytes for gpu in found.gpus))
    count = len(found.gpus)
    argv = [program, "-b", str(size), "-e", str(size), "-g", str(count), "-n", "10", "-w", "3", "-c", "1"]
    environment = apart.environment([gpu.uuid for gpu in found.gpus])
    libraries = tools.mpi_libraries(evidence.host)
    if libraries:  # after those that are set: they are only for one that finds none
        known = environment.get("LD_LIBRARY_PATH", "")
        environment["LD_LIBRARY_PATH"] = ":".join(([known] if known else []) + libraries)
    ended = apart.run(argv, _SECONDS, environment)
    run = of_output(ended, count)
    reading = Reading(_NODE, "", ((FIGURE, run.average_busbw_gigabytes_per_second),))
    means = "{0} GPUs, {1} MiB".format(count, size >> 20)
    return Seen(Readings(means, (reading,) + of_silent(found)), run)


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
        raise ParseError(nccl_tests.TOOL, "{0}: {1}".format(error.reason, ended.words)) from error
    if run.ranks != count:
        raise ParseError(nccl_tests.TOOL, "it ran on {0} GPUs, not on {1}".format(run.ranks, count))
    return run


def judge(seen: Seen, expected: Expected) -> Judgement:
    """Pure."""
    judgement = judge_readings(seen.readings, expected, FIGURES)
    if seen.run is None or not seen.run.wrong:
        return judgement
    finding = Finding(
        Outcome.FAIL,
        _NODE,
        "the sum over all GPUs came out wrong in {0:g} places".format(seen.run.wrong),
        "let no job on it; find the GPU with the memory test, and halve the set with all_reduce_perf -g",
        Remedy.REPLACE,
        Certainty.LIKELY,
        code="wrong_result",
    )
    return dataclasses.replace(judgement, findings=(finding, *judgement.findings))


CHECK = Check(
    id="nccl_all_reduce",
    title="All GPUs together sum up fast and right",
    cost=Cost.ACTIVE,
    judge=judge,
    look=look,
    lane="active",
    seconds=360.0,
)
