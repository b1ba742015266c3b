# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where network devices of RDMA sit: their whole PCIe link, and as many at each NUMA node as there are GPUs.

What a link can do is the lesser of what the device and the port above it can. A link that does less than that fails
where a device of the same kind does more; where all of a kind do less, the machine may be built so, and it warns.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from ...core.frozen import frozen
from ...core.host import Host
from ...facts.sysfs import PCI_DEVICES, PciFunction, normalise_pci_address, parse_int
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy

_RESEAT = "drain the node, switch it off and on; have the card seated anew, or its riser replaced, when it stays"
_NUMA = "compare 'gpunode topo' with another machine of its kind: a card sits in another slot, or the firmware is wrong"
_WIDEST = 32  # PCI Express Base Specification, link capabilities; a function without a link of its own says 63
_LEAST_CARDS = 4  # with fewer, where they sit says nothing


@frozen
class Nic:
    """``kind`` is the PCI id; ``card`` is the same for all functions of one card. Widths are lanes, speeds GT/s."""

    name: str
    key: str
    kind: str
    card: str
    numa: Optional[int]
    width: Optional[int]
    speed: Optional[float]
    most_width: Optional[int]
    most_speed: Optional[float]


@frozen
class Seen:
    nics: Tuple[Nic, ...]
    gpu_numa: Tuple[Optional[int], ...]


def look(evidence: Evidence) -> Seen:
    host = evidence.host
    nics = tuple(
        _nic(host, device.name, device.function)
        for device in evidence.infiniband
        if device.function is not None and device.function.physical_function is None
    )
    # The topology is dear where no other look has wanted it, and tells nothing to compare with for a few cards.
    placed = evidence.topology.gpu_numa() if len({nic.card for nic in nics}) >= _LEAST_CARDS else ()
    return Seen(nics, placed)


def _nic(host: Host, name: str, function: PciFunction) -> Nic:
    own = "{0}/{1}".format(PCI_DEVICES, function.address)
    above = function.path[-1] if function.path and normalise_pci_address(function.path[-1]) else None
    width, speed = _most(host, own)
    if above is not None:
        port_width, port_speed = _most(host, "{0}/{1}".format(PCI_DEVICES, above))
        width = min(width, port_width) if width and port_width else width
        speed = min(speed, port_speed) if speed and port_speed else speed
    return Nic(
        name,
        function.address,
        function.pci_id,
        function.address.rpartition(".")[0],
        function.numa_node,
        _lanes(host.read_line(own + "/current_link_width")),
        _rate(host.read_line(own + "/current_link_speed")),
        width,
        speed,
    )


def _most(host: Host, folder: str) -> Tuple[Optional[int], Optional[float]]:
    return _lanes(host.read_line(folder + "/max_link_width")), _rate(host.read_line(folder + "/max_link_speed"))


def _lanes(text: Optional[str]) -> Optional[int]:
    number = parse_int(text)
    return number if number is not None and 0 < number <= _WIDEST else None


def _rate(text: Optional[str]) -> Optional[float]:
    """``32.0 GT/s PCIe``; "Unknown" of a virtual machine is None."""
    found = re.match(r"(\d{1,3}(?:\.\d)?) GT/s", text or "")
    return float(found.group(1)) if found and float(found.group(1)) > 0 else None


def judge(seen: Seen, dummy: Expected) -> Judgement:
    if not seen.nics:
        return Judgement(not_applicable="this machine has no network device of RDMA on its PCI bus")
    findings: List[Finding] = []
    measured: List[Measured] = []
    for nic in seen.nics:
        kind = [one for one in seen.nics if one.kind == nic.kind]
        slow = _less(nic, kind, lambda one: one.width, nic.most_width, "width", "{0:g} lanes")
        slow = slow or _less(nic, kind, lambda one: one.speed, nic.most_speed, "speed", "{0:g} GT/s")
        findings += slow
        if nic.width is not None:
            measured.append(Measured("network_pcie_width_lanes", float(nic.width), nic.key, better="higher"))
    findings += _unknown_place(seen.nics)
    findings += _spread(seen)
    known = sum(1 for one in seen.nics if one.width is not None)
    told = "{0} devices, the PCIe link of {1} is told".format(len(seen.nics), known)
    return Judgement(told, tuple(findings), tuple(measured))


def _less(
    nic: Nic,
    kind: Sequence[Nic],
    value: Callable[[Nic], Optional[float]],
    most: Optional[float],
    code: str,
    words: str,
) -> List[Finding]:
    now = value(nic)
    if now is None:
        return []
    best = max((value(one) or 0 for one in kind), default=0)
    if now >= best and (most is None or now >= most):
        return []
    has = "its PCIe link has " + words.format(now)
    if now < best:
        # One in a lesser slot does what that can.
        built = most is not None and now >= most
        reason = "{0}, and that of others of its kind {1}".format(has, words.format(best))
        outcome = Outcome.WARN if built else Outcome.FAIL
        certainty = Certainty.POSSIBLE if built else Certainty.LIKELY
        remedy = "see that its slot is one for such a card" if built else _RESEAT
        action = Remedy.LOOK if built else Remedy.REPLACE
        return [_finding(nic, outcome, reason, remedy, action, code, certainty)]
    reason = "{0}, and could have {1}".format(has, words.format(most))
    return [_finding(nic, Outcome.WARN, reason, _RESEAT, Remedy.LOOK, code, Certainty.LIKELY)]


def _unknown_place(nics: Sequence[Nic]) -> List[Finding]:
    """A device whose NUMA node is not known while it is of others of its kind."""
    known = {nic.kind for nic in nics if nic.numa is not None}
    reason = "its NUMA node is not known, and that of others of its kind is"
    return [
        _finding(nic, Outcome.WARN, reason, _NUMA, Remedy.LOOK, "numa_unknown", Certainty.LIKELY)
        for nic in nics
        if nic.numa is None and nic.kind in known
    ]


def _spread(seen: Seen) -> List[Finding]:
    """As many cards as GPUs, or a half, a quarter of them, are for the GPUs, so they are spread as these are."""
    gpus = Counter(seen.gpu_numa)
    findings: List[Finding] = []
    for kind in sorted({nic.kind for nic in seen.nics}):
        cards: Dict[str, Optional[int]] = {nic.card: nic.numa for nic in seen.nics if nic.kind == kind}
        found = Counter(cards.values())
        share = len(seen.gpu_numa) // len(cards)
        if None in gpus or None in found or len(cards) < _LEAST_CARDS or len(gpus) < 2:
            continue
        if not share or len(seen.gpu_numa) % len(cards) or any(count % share for count in gpus.values()):
            continue
        wanted = {node: count // share for node, count in gpus.items()}
        if dict(found) == wanted:
            continue
        reason = "they are {0}, and the GPUs {1}".format(_at(found), _at(gpus))
        thing = "network devices of kind {0}".format(kind)
        findings.append(
            Finding(Outcome.WARN, thing, reason, _NUMA, Remedy.LOOK, Certainty.LIKELY, key=kind, code="numa")
        )
    return findings


def _at(counts: "Counter[Optional[int]]") -> str:
    return ", ".join("{0} at NUMA node {1}".format(counts[node], node) for node in sorted(counts, key=str))


def _finding(
    nic: Nic, outcome: Outcome, reason: str, remedy: str, action: Remedy, code: str, certainty: Certainty
) -> Finding:
    return Finding(outcome, "network device {0}".format(nic.name), reason, remedy, action, certainty, nic.key, code)


CHECKS = (Check("ib_pcie", "Network devices of RDMA have their PCIe link and place", Cost.PASSIVE, judge, look),)
