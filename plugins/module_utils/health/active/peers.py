# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU to GPU, each pair in both directions: NVLink where there is one.

A sick GPU shows in all of its pairs, a sick link in one; the finding names the one or the other. What is between all of
them (NVSwitches, the fabric manager) shows in all pairs, and then no GPU is named.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import statistics
from typing import Dict, List, Optional, Sequence, Set, Tuple

from ..evidence import Evidence
from ..parse import ParseError, nvbandwidth
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Machine, Measured, Outcome, Remedy, Span
from . import apart, survey, tools
from .cuda import Cuda, rates
from .readings import Reading, of_silent, untold

FIGURE = "gpu_to_gpu_gigabytes_per_second"
_TEST = "device_to_device_memcpy_read_ce"
_SECONDS = 240.0
_SIZE, _SAMPLES, _COPIES = 256 * 2**20, 5, 4
_LINK = "look at the NVLink errors and the fabric manager, reset both GPUs together; replace what stays slow"
_ONE = "look at its NVLink errors and the fabric manager, then reset it; replace it if it stays slow"
# Of PCIe: docs.nvidia.com/deeplearning/nccl, Troubleshooting, "PCI Access Control Services (ACS)".
_ALL = "look at the fabric manager, NVSwitches and Xids in the kernel log (without NVLink: ACS of PCIe), then reboot"
Pair = Tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Peers:
    """``things`` are the GPUs (name, key); a rate is None where one cannot reach the other."""

    means: str = ""
    things: Tuple[Tuple[str, str], ...] = ()
    pairs: Tuple[Tuple[Pair, Optional[float]], ...] = ()
    silent: Tuple[Reading, ...] = ()
    not_applicable: Optional[str] = None


def look(evidence: Evidence) -> Peers:
    found = survey.gpus(evidence)
    if found is None or len(found.gpus) + len(found.silent) < 2:
        return Peers(not_applicable="there are no two GPUs here that are whole")
    if len(found.gpus) < 2:
        return Peers(silent=of_silent(found))
    program = tools.find(evidence.host, evidence.settings, "nvbandwidth")
    uuids = tuple(gpu.uuid for gpu in found.gpus)
    task = functools.partial(_own, uuids) if program is None else functools.partial(_nvbandwidth, program, uuids)
    measured = apart.measure("GPU to GPU", _SECONDS, task, None, ())
    things = tuple((gpu.label, gpu.pci_address) for gpu in found.gpus)
    return Peers("our own copies" if program is None else "nvbandwidth", things, measured, of_silent(found))


def _nvbandwidth(program: str, uuids: Sequence[str]) -> Tuple[Tuple[Pair, Optional[float]], ...]:
    argv, environment = [program, "-t", _TEST], apart.environment(uuids)
    ended = apart.run([*argv, "-j"], _SECONDS / 2, environment)
    if ended.returncode and "Invalid Arguments" in ended.stdout + ended.stderr:
        ended = apart.run(argv, _SECONDS / 2, environment)
    return of_output(ended.stdout if ended.stdout.strip() else ended.stderr, len(uuids))


def of_output(text: str, count: int) -> Tuple[Tuple[Pair, Optional[float]], ...]:
    """Pure. A test that was waived found no two GPUs that reach each other; in the text of 0.5 and later it bears no
    name, and is the one that was asked for.

    :raises ParseError: when it did not see that many GPUs, or the table is not one of them.
    """
    tests, seen = nvbandwidth.parse(text), nvbandwidth.devices(text)
    if seen is not None and seen != count:
        raise ParseError("nvbandwidth", "it saw {0} of {1} GPUs".format(seen, count))
    test = next((one for one in tests if one.name in (_TEST, nvbandwidth.NAMELESS)), None)
    wanted = [(one, other) for one in range(count) for other in range(count) if one != other]
    if test is not None and test.status == nvbandwidth.WAIVED:
        return tuple((pair, None) for pair in wanted)
    if test is None or test.status != nvbandwidth.PASSED:
        raise ParseError("nvbandwidth", "it did not measure ({0})".format(test.status if test else "no such test"))
    if len(test.rows) != count or any(len(row) != count for row in test.rows):
        raise ParseError("nvbandwidth", "its table is not one of {0} GPUs".format(count))
    return tuple((pair, test.rows[pair[0]][pair[1]]) for pair in wanted)


def _own(uuids: Sequence[str]) -> Tuple[Tuple[Pair, Optional[float]], ...]:
    apart.become(uuids)
    cuda = Cuda()
    cuda.shows(len(uuids))
    return own_rates(cuda)


def own_rates(cuda: Cuda, size: int = _SIZE) -> Tuple[Tuple[Pair, Optional[float]], ...]:
    devices = [cuda.open(index) for index in range(cuda.count())]
    buffers = [device.memory(size) for device in devices]
    answer: List[Tuple[Pair, Optional[float]]] = []
    for one, source in enumerate(devices):
        for other, target in enumerate(devices):
            if one == other:
                continue
            rate: Optional[float] = None
            if target.reaches(source):
                copy = (buffers[other], target.context, buffers[one], source.context, size)
                rate, dummy = rates(target, size, _SAMPLES, _COPIES, "cuMemcpyPeerAsync", *copy)
            answer.append(((one, other), rate))
    return tuple(answer)


def judge(seen: Peers, expected: Expected) -> Judgement:
    """Pure."""
    if seen.not_applicable is not None:
        return Judgement(not_applicable=seen.not_applicable)
    reached = [(pair, rate) for pair, rate in seen.pairs if rate is not None]
    threshold = expected.thresholds.get(FIGURE)
    if not reached and threshold is None and not seen.silent:
        return Judgement(not_applicable="these GPUs do not reach each other, and nothing says that they should")
    findings = [untold(reading) for reading in seen.silent]
    if threshold is not None:
        worst = {pair: rate for pair, rate in reached if threshold.outcome(rate) is Outcome.FAIL}
        slow = {pair: rate for pair, rate in reached if threshold.outcome(rate) is Outcome.WARN}
        apart_from = {pair: 0.0 for pair, rate in seen.pairs if rate is None}
        source = threshold.source
        told = "below the {0:g} GB/s of {1}"
        findings += _named(seen, apart_from, Outcome.FAIL, _NO_ACCESS, "no_peer_access")
        findings += _named(seen, worst, Outcome.FAIL, _TO + told.format(threshold.fail or 0, source), "low_gpu_to_gpu")
        findings += _named(seen, slow, Outcome.WARN, _TO + told.format(threshold.warn or 0, source), "low_gpu_to_gpu")
    else:
        findings += _of_siblings(seen, dict(reached))
    measured = tuple(Measured(FIGURE, rate, _key(seen, pair), better="higher") for pair, rate in reached)
    return Judgement(_summary(seen, [rate for dummy, rate in reached]), tuple(findings), measured)


_SHARE = 0.6
_LEAST_GPUS = 3


def _of_siblings(seen: Peers, rates_of: Dict[Pair, float]) -> List[Finding]:
    """Where nobody knows what these GPUs reach: the best that a GPU reaches with any other is that of its siblings,
    however they are linked, unless its links are down and it goes by PCIe; and both ways are alike."""
    count = len(seen.things)
    best = [max([rate for pair, rate in rates_of.items() if one in pair], default=0.0) for one in range(count)]
    findings = []
    for one, (name, key) in enumerate(seen.things if count >= _LEAST_GPUS else ()):
        usual = statistics.median(best[:one] + best[one + 1 :])
        if best[one] < _SHARE * usual:
            reason = "{0:.4g} GB/s at the most with any other GPU, where its siblings reach {1:.4g}".format(
                best[one], usual
            )
            findings.append(
                Finding(Outcome.FAIL, name, reason, _ONE, Remedy.RESET_GPU, Certainty.LIKELY, key, "low_gpu_to_gpu")
            )
    for pair, rate in rates_of.items():
        back = rates_of.get((pair[1], pair[0]), 0.0)
        if rate < _SHARE * back:
            name, other = seen.things[pair[0]][0], seen.things[pair[1]][0]
            reason = "{0:.4g} GB/s to {1}, and {2:.4g} from it".format(rate, other, back)
            key = _key(seen, pair)
            findings.append(
                Finding(Outcome.WARN, name, reason, _LINK, Remedy.WATCH, Certainty.POSSIBLE, key, "low_gpu_to_gpu")
            )
    return findings


_TO = "{1:.4g} GB/s at the least with {0}, "
_NO_ACCESS = "no peer access with {0}, though there should be"


def _named(seen: Peers, bad: Dict[Pair, float], outcome: Outcome, reason: str, code: str) -> List[Finding]:
    certainty = Certainty.LIKELY if outcome is Outcome.FAIL else Certainty.POSSIBLE
    action = Remedy.RESET_GPU if outcome is Outcome.FAIL else Remedy.WATCH
    findings = []
    guilty, links = culprits(set(bad), len(seen.things))
    if of_all(guilty, links, len(seen.things)):
        count, every = len({frozenset(pair) for pair in bad}), len(seen.things) * (len(seen.things) - 1) // 2
        thing, text = "{0} of {1} pairs of GPUs".format(count, every), reason.format("each other", min(bad.values()))
        action = Remedy.REBOOT if outcome is Outcome.FAIL else Remedy.WATCH
        return [Finding(outcome, thing, text, _ALL, action, certainty, code=code)]
    for one in guilty:
        partners = sorted({a + b - one for a, b in bad if one in (a, b)})
        least = min(rate for pair, rate in bad.items() if one in pair)
        others = "{0} other GPUs".format(len(partners)) if len(partners) > 1 else seen.things[partners[0]][0]
        name, key = seen.things[one]
        findings.append(Finding(outcome, name, reason.format(others, least), _ONE, action, certainty, key, code))
    for one, other in links:
        least = min(rate for pair, rate in bad.items() if set(pair) == {one, other})
        name, key = seen.things[one][0], _key(seen, (one, other))
        text = reason.format(seen.things[other][0], least)
        findings.append(Finding(outcome, name, text, _LINK, action, certainty, key, code))
    return findings


def culprits(bad: Set[Pair], count: int) -> Tuple[List[int], List[Pair]]:
    """The GPUs that explain most of the bad pairs, and the pairs that no GPU explains. Pure.

    A GPU is to blame when more than half of its partners, and two at least, are slow with it.
    """
    left = {(min(pair), max(pair)) for pair in bad}
    guilty: List[int] = []
    while True:
        counts = collections.Counter(one for pair in left for one in pair)
        most = min(counts, key=lambda one: (-counts[one], one), default=None)
        if most is None or counts[most] < max(2, (count - 1) // 2 + 1):
            return sorted(guilty), sorted(left)
        guilty.append(most)
        left = {pair for pair in left if most not in pair}


def of_all(guilty: Sequence[int], links: Sequence[Pair], count: int) -> bool:
    """Whether those that no GPU is to blame for are bad with each other, too: most of their pairs. Pure."""
    left = count - len(guilty)
    return count > 2 and len(links) > left * (left - 1) // 4


def _key(seen: Peers, pair: Pair) -> str:
    return "{0}>{1}".format(seen.things[pair[0]][1], seen.things[pair[1]][1])


def _summary(seen: Peers, reached: List[float]) -> str:
    if not reached:
        return "no two GPUs reach each other"
    text = "{0} pairs, {1:.4g} to {2:.4g} GB/s, median {3:.4g} ({4})"
    return text.format(len(reached), min(reached), max(reached), statistics.median(reached), seen.means)


def span(machine: Machine) -> Optional[Span]:
    """Each ordered pair is copied alone."""
    pairs = machine.gpus * (machine.gpus - 1)
    return Span(3.0, 3.0 + 0.5 * pairs) if pairs else None


CHECK = Check(
    id="gpu_peer_bandwidth",
    title="GPUs exchange data with each other at full rate",
    cost=Cost.ACTIVE,
    judge=judge,
    look=look,
    lane="active",
    seconds=300.0,
    span=span,
)
