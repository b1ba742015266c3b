# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU to GPU, each pair in both directions, alone and then with all GPUs at once: NVLink where there is one.

A sick GPU shows in all of its pairs, a sick link in one; the finding names the one or the other. What is between all of
them (NVSwitches, the fabric manager) shows in all pairs, and then no GPU is named.

Pairs that share no path are copied at the same time, in the rounds of a tournament.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import statistics
from typing import FrozenSet, List, Mapping, Optional, Sequence, Set, Tuple

from ...core.host import Host
from ...facts import gpu_info
from ..data.product_limits import limit_of
from ..evidence import Evidence
from ..parse import ParseError, nvbandwidth
from ..types import (
    Certainty,
    Check,
    Cost,
    Expected,
    Finding,
    Judgement,
    Machine,
    Measured,
    Outcome,
    Remedy,
    Span,
    Threshold,
)
from . import apart, paths, survey, tools
from .peer_copies import Pair, Things, copy_all, key_of
from .readings import FEWEST_SIBLINGS, Reading, of_silent, untold, without_limits

FIGURE = "gpu_to_gpu_gigabytes_per_second"
TOGETHER = "gpu_to_gpu_together_gigabytes_per_second"
_TOGETHER_SHARE = "gpu_to_gpu_together_share"
_TEST = "device_to_device_memcpy_read_ce"
_SECONDS = 240.0
_LINK = "look at the NVLink errors and the fabric manager, reset both GPUs together; replace what stays slow"
_ONE = "look at its NVLink errors and the fabric manager, then reset it; replace it if it stays slow"
# Of PCIe: docs.nvidia.com/deeplearning/nccl, Troubleshooting, "PCI Access Control Services (ACS)".
_ALL = "look at the fabric manager, NVSwitches and Xids in the kernel log (without NVLink: ACS of PCIe), then reboot"


@dataclasses.dataclass(frozen=True)
class Peers:
    """``things`` are the GPUs (name, key); a pair is (source, target); a rate is None where one cannot reach the other.

    ``together``: rates while all GPUs copied; ``changed``: how data of a pair differs after a copy, and whether only
    while all copied; ``linked``: pairs with NVLink between them; ``silent``: what could not be measured;
    ``product``: the name that NVML gives to all of them, or ""; ``failed``: the things that were left out;
    ``complete``: all pairs were measured, apart from those of ``silent`` and ``failed``; ``no_limit``: why the limits
    of the product do not apply, or "".
    """

    means: str = ""
    things: Things = ()
    pairs: Tuple[Tuple[Pair, Optional[float]], ...] = ()
    silent: Tuple[Reading, ...] = ()
    not_applicable: Optional[str] = None
    together: Tuple[Tuple[Pair, float], ...] = ()
    changed: Tuple[Tuple[Pair, str, bool], ...] = ()
    linked: FrozenSet[Pair] = frozenset()
    product: str = ""
    failed: FrozenSet[int] = frozenset()
    complete: bool = True
    no_limit: str = ""

    @property
    def measured(self) -> Tuple[int, ...]:
        """The places of the things that were not left out."""
        return tuple(number for number in range(len(self.things)) if number not in self.failed)


def look(evidence: Evidence) -> Peers:
    found = survey.gpus(evidence)
    if found is None or len(found.gpus) + len(found.silent) < 2:
        return Peers(not_applicable="there are no two GPUs here that are whole")
    if len(found.gpus) < 2:
        return Peers(silent=of_silent(found))
    program = tools.find(evidence.host, evidence.settings, "nvbandwidth")
    uuids = tuple(gpu.uuid for gpu in found.gpus)
    things = tuple((gpu.label, gpu.pci_address) for gpu in found.gpus)
    linked = nvlinks(evidence.host, [gpu.pci_address for gpu in found.gpus])
    pairs: Tuple[Tuple[Pair, Optional[float]], ...] = ()
    if program is not None:
        task = functools.partial(_nvbandwidth, program, uuids)
        pairs = apart.measure("GPU to GPU", _SECONDS, task, None, ())
    way = paths.host_paths([gpu.pci_address for gpu in found.gpus], evidence.topology)
    alone = () if program is not None else plan(way, linked)
    own = copy_all(things, uuids, alone, evidence.seconds)
    means = "our own copies" if program is None else "nvbandwidth"
    pairs = pairs or tuple((one.pair, one.rate) for one in own.copied if not one.together)
    beyond = 0 if own.silent else len(things) * (len(things) - 1) - len(pairs)
    return Peers(
        means
        + ("; {0} pairs not covered: CUDA gives a GPU eight peers at the most".format(beyond) if beyond else "")
        + ("; a sample of the data is compared, because " + own.by_host if own.by_host else ""),
        things,
        pairs,
        of_silent(found) + own.silent,
        together=tuple((one.pair, one.rate) for one in own.copied if one.together and one.rate is not None),
        changed=tuple((one.pair, one.changed, one.together) for one in own.copied if one.changed),
        linked=linked,
        product=found.gpus[0].name if len({gpu.name for gpu in found.gpus}) == 1 else "",
        failed=own.failed,
        complete=own.complete,
        no_limit=next((gpu.no_limit_of_copies for gpu in found.gpus if gpu.no_limit_of_copies), ""),
    )


def nvlinks(host: Host, addresses: Sequence[str]) -> FrozenSet[Pair]:
    """The pairs that NVML shows an NVLink for, directly or through NVSwitches; none when it does not answer."""
    number = {address: place for place, address in enumerate(addresses)}
    found = set()
    for gpu in gpu_info.gather(gpu_info.Options(groups=("topology",)), host).gpus:
        topology = gpu.groups.get("topology")
        for peer in topology.peers if topology is not None else ():
            pair = number.get(gpu.identity.pci_address or ""), number.get(peer.pci_address or "")
            if peer.p2p_nvlink == "ok" and pair[0] is not None and pair[1] is not None:
                found.add((pair[0], pair[1]))
    return frozenset(found)


def plan(way: Sequence[paths.Path], linked: FrozenSet[Pair]) -> Tuple[Tuple[Pair, ...], ...]:
    """Rounds of pairs that share no path; ``way``: the path of each GPU to its host. Pure."""
    return paths.rounds(paths.tournament(len(way)), lambda pair: paths.pair_path(pair, pair in linked, way))


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


def judge(seen: Peers, expected: Expected) -> Judgement:
    """Pure."""
    if seen.not_applicable is not None:
        return Judgement(not_applicable=seen.not_applicable)
    every = {pair: rate for pair, rate in seen.pairs if rate is not None}
    # Of a GPU that failed, only changed data counts: it has a finding, and its rates are those of a sick GPU.
    reached = {pair: rate for pair, rate in every.items() if not set(pair) & seen.failed}
    apart_from = {pair: 0.0 for pair, rate in seen.pairs if rate is None and not set(pair) & seen.failed}
    threshold = expected.thresholds.get(FIGURE)
    if not reached and threshold is None and not seen.silent and not seen.linked & set(apart_from):
        return Judgement(not_applicable="these GPUs do not reach each other, and nothing says that they should")
    findings = [untold(reading) for reading in seen.silent]
    findings += _changed(seen)
    if threshold is not None:
        findings += _named(seen, apart_from, _APART)
        findings += _below(seen, reached, threshold, _ALONE)
    else:
        findings += _named(seen, {pair: 0.0 for pair in apart_from if pair in seen.linked}, _LINKED_APART)
        if seen.complete:  # what was not measured is not slow
            findings += _of_siblings(seen, reached) or _of_product(seen, reached)
    findings += _together(seen, reached, expected, {finding.key for finding in findings})
    measured = [Measured(FIGURE, rate, key_of(seen.things, pair), better="higher") for pair, rate in every.items()]
    measured += [Measured(TOGETHER, rate, key_of(seen.things, pair), better="higher") for pair, rate in seen.together]
    return Judgement(_summary(seen, list(every.values())), tuple(findings), tuple(measured))


def _of_product(seen: Peers, rates_of: Mapping[Pair, float]) -> List[Finding]:
    """Only behind NVSwitches, so more than four GPUs that all have NVLinks with each other: on a board of four GPUs
    without NVSwitches, each pair has a part of the links."""
    count = len(seen.measured)
    linked = sum(1 for pair in seen.linked if not set(pair) & seen.failed)
    threshold = limit_of(FIGURE)(seen.product)
    if threshold is None or seen.no_limit or count < _BEHIND_SWITCHES or linked < count * (count - 1):
        return []
    return _below(seen, rates_of, threshold, _ALONE)


_BEHIND_SWITCHES = 5


@dataclasses.dataclass(frozen=True)
class _Fault:
    """How a fault of pairs is told. ``reason`` has the partners as {0} and the worst figure as {1}. Of a GPU, of a pair
    and of all: the remedy, and the action of a failure."""

    outcome: Outcome
    code: str
    reason: str
    one: Tuple[str, Remedy] = (_ONE, Remedy.RESET_GPU)
    link: Tuple[str, Remedy] = (_LINK, Remedy.RESET_GPU)
    every: Tuple[str, Remedy] = (_ALL, Remedy.REBOOT)

    def finding(self, thing: str, way: Tuple[str, Remedy], key: str, others: str, least: float) -> Finding:
        failed = self.outcome is Outcome.FAIL
        action, certainty = (way[1], Certainty.LIKELY) if failed else (Remedy.WATCH, Certainty.POSSIBLE)
        reason = self.reason.format(others, least)
        return Finding(self.outcome, thing, reason, way[0], action, certainty, key, self.code)

    def because(self, outcome: Outcome, more: str) -> _Fault:
        """The same with another outcome, and more of the reason, which has no places for figures."""
        more = more.replace("{", "{{").replace("}", "}}")
        return dataclasses.replace(self, outcome=outcome, reason=self.reason + more)


_ALONE = _Fault(Outcome.FAIL, "low_gpu_to_gpu", "{1:.4g} GB/s at the least with {0}, ")
_BESIDE = _Fault(
    Outcome.FAIL, "low_gpu_to_gpu_together", "{1:.4g} GB/s at the least with {0} while all GPUs copy at once, "
)
_APART = _Fault(Outcome.FAIL, "no_peer_access", "no peer access with {0}, though there should be")
_LINKED_APART = _Fault(
    Outcome.WARN, "no_peer_access", "no peer access with {0}, though NVML shows an NVLink between them"
)
_NO_JOB = "keep jobs off it, because data changes silently; "
# An IOMMU that translates breaks peer copies over PCIe: CUDA C++ Programming Guide, "IOMMU on Linux".
_IOMMU = "switch IOMMU and ACS off where GPUs copy over PCIe, then reboot; replace the machine if it recurs"
_CHANGED = _Fault(
    Outcome.FAIL,
    "data_changed",
    "data that is copied between it and {0} is changed",
    (_NO_JOB + "replace the GPU", Remedy.REPLACE),
    (_NO_JOB + "reset both GPUs together; replace them if it recurs", Remedy.RESET_GPU),
    (_NO_JOB + _IOMMU, Remedy.REBOOT),
)


def _below(seen: Peers, rates_of: Mapping[Pair, float], threshold: Threshold, fault: _Fault) -> List[Finding]:
    """What is below the limits of the profile."""
    findings = []
    for outcome, limit in ((Outcome.FAIL, threshold.fail), (Outcome.WARN, threshold.warn)):
        bad = {pair: rate for pair, rate in rates_of.items() if threshold.outcome(rate) is outcome}
        more = "below the {0:g} GB/s of {1}".format(limit or 0, threshold.source)
        findings += _named(seen, bad, fault.because(outcome, more))
    return findings


def _changed(seen: Peers) -> List[Finding]:
    """Wrong data is a failure without any limit. What is wrong only while all GPUs copy says so."""
    texts = {pair: text for pair, text, dummy in reversed(seen.changed)}
    alone = {pair for pair, dummy, together in seen.changed if not together}
    findings = []
    for pairs, when in ((alone, ""), (set(texts) - alone, " while all GPUs copy at once")):
        told = next((": " + text for pair, text in texts.items() if pair in pairs), "")
        findings += _named(seen, dict.fromkeys(pairs, 0.0), _CHANGED.because(Outcome.FAIL, when + told))
    return findings


def _together(seen: Peers, alone: Mapping[Pair, float], expected: Expected, told: Set[str]) -> List[Finding]:
    """What is slow only when all GPUs copy. Over PCIe pairs share paths by design, so without a limit of the profile
    only pairs with an NVLink are compared, by how much of their own rate they keep."""
    if "" in told:
        return []
    things = [key for dummy, key in seen.things]
    rates_of = {
        pair: rate
        for pair, rate in seen.together
        if not set(pair) & seen.failed
        and not told & {things[pair[0]], things[pair[1]], key_of(seen.things, pair), key_of(seen.things, pair[::-1])}
    }
    threshold, share = expected.thresholds.get(TOGETHER), expected.thresholds.get(_TOGETHER_SHARE)
    if threshold is not None:
        return _below(seen, rates_of, threshold, _BESIDE)
    kept = {pair: rate / alone[pair] for pair, rate in rates_of.items() if pair in seen.linked and pair in alone}
    if share is None or len(kept) < FEWEST_SIBLINGS:
        return []
    usual = statistics.median(kept.values())
    slow = {pair: rates_of[pair] for pair, part in kept.items() if share.outcome(part / usual) is not Outcome.PASS}
    more = "though each pair alone is as fast as the others"
    return _named(seen, slow, _BESIDE.because(Outcome.WARN, more))


_SHARE = 0.6


def _of_siblings(seen: Peers, rates_of: Mapping[Pair, float]) -> List[Finding]:
    """Where nobody knows what these GPUs reach: the best that a GPU reaches with any other is that of its siblings,
    however they are linked, unless its links are down and it goes by PCIe; and both ways are alike.

    Only where NVLinks join most of the GPUs, a GPU without them is sick. Bridges that join two GPUs each may leave one
    out, and so may a slot with fewer lanes, or a processor whose GPUs have no peer access to those of the other one.
    """
    count = len(seen.measured)
    best = {one: max([rate for pair, rate in rates_of.items() if one in pair], default=0.0) for one in seen.measured}
    partners = collections.Counter(one for one, dummy in seen.linked)
    joined = 2 * sum(1 for one in seen.measured if partners[one] > 1) > count
    findings = []
    for one in seen.measured if count >= FEWEST_SIBLINGS else ():
        name, key = seen.things[one]
        usual = statistics.median([rate for other, rate in best.items() if other != one])
        if best[one] < _SHARE * usual and (joined or best[one] > 0):
            reason = "{0:.4g} GB/s at the most with any other GPU, where its siblings reach {1:.4g}".format(
                best[one], usual
            )
            outcome, action, certainty = Outcome.FAIL, Remedy.RESET_GPU, Certainty.LIKELY
            if not joined:
                outcome, action, certainty = Outcome.WARN, Remedy.WATCH, Certainty.POSSIBLE
            findings.append(Finding(outcome, name, reason, _ONE, action, certainty, key, "low_gpu_to_gpu"))
    for pair, rate in rates_of.items():
        back = rates_of.get((pair[1], pair[0]), 0.0)
        if rate < _SHARE * back:
            name, other = seen.things[pair[0]][0], seen.things[pair[1]][0]
            reason = "{0:.4g} GB/s to {1}, and {2:.4g} from it".format(rate, other, back)
            key = key_of(seen.things, pair)
            findings.append(
                Finding(Outcome.WARN, name, reason, _LINK, Remedy.WATCH, Certainty.POSSIBLE, key, "low_gpu_to_gpu")
            )
    return findings


def _named(seen: Peers, bad: Mapping[Pair, float], fault: _Fault) -> List[Finding]:
    findings = []
    count = len(seen.measured)
    guilty, links = culprits(set(bad), count)
    if of_all(guilty, links, count):
        thing = "{0} of {1} pairs of GPUs".format(len({frozenset(pair) for pair in bad}), count * (count - 1) // 2)
        return [fault.finding(thing, fault.every, "", "each other", min(bad.values()))]
    for one in guilty:
        partners = sorted({a + b - one for a, b in bad if one in (a, b)})
        least = min(rate for pair, rate in bad.items() if one in pair)
        others = "{0} other GPUs".format(len(partners)) if len(partners) > 1 else seen.things[partners[0]][0]
        name, key = seen.things[one]
        findings.append(fault.finding(name, fault.one, key, others, least))
    for one, other in links:
        least = min(rate for pair, rate in bad.items() if set(pair) == {one, other})
        key = key_of(seen.things, (one, other))
        findings.append(fault.finding(seen.things[one][0], fault.link, key, seen.things[other][0], least))
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


def _summary(seen: Peers, reached: List[float]) -> str:
    if not reached:
        return "no two GPUs reach each other"
    text = "{0} pairs, {1:.4g} to {2:.4g} GB/s, median {3:.4g}{5} ({4})"
    rates = [rate for dummy, rate in seen.together]
    together = ", {0:.4g} to {1:.4g} while all copy".format(min(rates), max(rates)) if rates else ""
    if seen.no_limit and limit_of(FIGURE)(seen.product) is not None:
        together += ", " + without_limits([seen.no_limit])
    return text.format(len(reached), min(reached), max(reached), statistics.median(reached), seen.means, together)


def span(machine: Machine) -> Optional[Span]:
    """By calculation, see docs/health_active.md; nvbandwidth measures one pair after another.

    A part of the copies is not useful, so the least is all of them.
    """
    pairs = machine.gpus * (machine.gpus - 1)
    seconds = 2.0 + 0.6 * machine.gpus + (5.0 + 0.1 * pairs if "nvbandwidth" in machine.tools else 0.0)
    return Span(seconds, seconds) if pairs else None


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
