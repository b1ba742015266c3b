# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links that make errors or go up and down, by the growth of the counters of their ports within a day.

Some counters grow with every job that ends while its peers still send. Of those a port is told that has many times the
errors of its siblings for each packet (``*_of_siblings``), or more a second than any job makes.
"""

from __future__ import annotations

import functools
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ...core.frozen import frozen
from ...facts.sysfs import parse_int
from ..data.ib_counters import COMPARED, ERRORS, FLAPS, MEASURED, PACKETS, Counter
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy
from .ib_ports import key, physical, thing

_PORTS = "/sys/class/infiniband/{0}/ports/{1}/{2}"
SIBLINGS = "rdma_errors_times_siblings"
_LEAST_PORTS = 4
_LEAST_PACKETS = 1e6
_LEAST_ERRORS = 1000.0
_LEAST_SHARE = 1e-6  # of the siblings: below one packet in a million they count as this
_REMEDY = "clean or replace its cable, and look at the port of the switch; redeploy a virtual machine when it goes on"
_CONGESTED = (
    "look for a congested or wrongly configured path: priority flow control and ECN on this port and its switch, and "
    "compare with the other ports of this node"
)


@frozen
class Port:
    """``values`` are (figure, value) of the counters that this port has. ``kind`` is the same for its siblings."""

    thing: str
    key: str
    values: Tuple[Tuple[str, int], ...]
    kind: str = ""


def _look(evidence: Evidence, counters: Sequence[Counter]) -> Tuple[Port, ...]:
    found: List[Port] = []
    for device, port in physical(evidence.infiniband):
        texts = (
            (one.figure, parse_int(evidence.host.read_line(_PORTS.format(device.name, port.number, one.file))))
            for one in counters
        )
        values = tuple((figure, value) for figure, value in texts if value is not None and value >= 0)
        kind = "{0} {1}".format(device.function.pci_id if device.function else "", port.link_layer)
        found.append(Port(thing(device, port.number), key(device, port.number), values, kind))
    return tuple(found)


def _judge(seen: Tuple[Port, ...], expected: Expected, counters: Sequence[Counter]) -> Judgement:
    if not any(one.values for one in seen):
        return Judgement(not_applicable="this machine has no RDMA port that counts them")
    meanings = {one.figure: one.meaning for one in counters}
    most = {one.figure: one.most for one in counters if one.most}
    findings: List[Finding] = []
    measured: List[Measured] = []
    for port in seen:
        for figure, value in port.values:
            counter = Measured(figure, float(value), port.key, counter=True, better="lower")
            measured.append(counter)
            findings += _grown(port, counter, meanings.get(figure, figure), expected)
            if value == most.get(figure):
                findings.append(_stopped(port, counter))
    findings += _odd(seen, meanings, expected)
    return Judgement("{0} ports".format(len(seen)), tuple(findings), tuple(measured))


def _grown(port: Port, counter: Measured, meaning: str, expected: Expected) -> List[Finding]:
    rate = expected.thresholds.get(counter.name + "_per_second")
    lately = None if rate is None else expected.growth(counter, 60.0)
    if rate is not None and lately is not None:
        each = lately.by / max(60.0, lately.hours * 3600.0)
        if rate.outcome(each) is not Outcome.PASS:
            reason = "{0} {1:.0f} times a second for {2:.0f} min (limit {3:g})".format(
                meaning, each, max(1.0, lately.hours * 60.0), rate.limit(each) or 0
            )
            return [_finding(rate.outcome(each), port, reason, _CONGESTED, counter.name)]
    limit, growth = expected.thresholds.get(counter.name + "_per_day"), expected.growth(counter)
    if limit is None or growth is None or limit.outcome(growth.by) is Outcome.PASS:
        return []
    reason = "{0} {1:.0f} times within {2:.0f} h (limit {3:g})".format(
        meaning, growth.by, growth.hours, limit.limit(growth.by) or 0
    )
    return [_finding(limit.outcome(growth.by), port, reason, _REMEDY, counter.name)]


def _stopped(port: Port, counter: Measured) -> Finding:
    """Whether there are more errors, nobody knows: the counter has too few bits for them."""
    reason = "its counter {0} stands at {1:.0f}, where it stops, so nobody sees new errors".format(
        counter.name.split("_", 1)[1], counter.value
    )
    remedy = "set the counters of the port to 0 ('perfquery -R'), and watch whether it grows again"
    code = counter.name.split("_", 1)[1] + "_stopped"
    return Finding(Outcome.WARN, port.thing, reason, remedy, Remedy.WATCH, Certainty.CERTAIN, port.key, code)


def _finding(outcome: Outcome, port: Port, reason: str, remedy: str, figure: str) -> Finding:
    code = figure.split("_", 1)[1]
    return Finding(outcome, port.thing, reason, remedy, Remedy.LOOK, Certainty.LIKELY, port.key, code)


def _odd(ports: Sequence[Port], meanings: Mapping[str, str], expected: Expected) -> List[Finding]:
    """Ports that make many times the errors of the others of their kind, for each packet within the same time."""
    limit = expected.thresholds.get(SIBLINGS)
    if limit is None or len(ports) < _LEAST_PORTS:
        return []
    findings: List[Finding] = []
    packets = [sum(_growth(port, one.figure, expected) or 0.0 for one in PACKETS) for port in ports]
    for figure in COMPARED:
        shares: Dict[str, List[Tuple[Port, float, float]]] = {}
        for port, sent in zip(ports, packets):
            errors = _growth(port, figure, expected)
            if errors is not None and sent >= _LEAST_PACKETS:
                shares.setdefault(port.kind, []).append((port, errors, errors / sent))
        for same in shares.values():
            for port, errors, share in same if len(same) >= _LEAST_PORTS else ():
                others = sorted(one[2] for one in same if one[0] is not port)
                times = share / max(_LEAST_SHARE, others[len(others) // 2])
                if errors < _LEAST_ERRORS or limit.outcome(times) is Outcome.PASS:
                    continue
                reason = "{0} {1:.0f} times, {2:.0f} times as often for each packet as on its siblings".format(
                    meanings.get(figure, figure), errors, times
                )
                findings.append(_finding(limit.outcome(times), port, reason, _REMEDY, figure + "_of_siblings"))
    return findings


def _growth(port: Port, figure: str, expected: Expected) -> Optional[float]:
    value = next((value for name, value in port.values if name == figure), None)
    growth = None if value is None else expected.growth(Measured(figure, float(value), port.key, counter=True))
    return None if growth is None else growth.by


def _check(name: str, title: str, told: Sequence[Counter], measured: Sequence[Counter] = ()) -> Check:
    counters = tuple(told) + tuple(measured)
    look: Callable[[Evidence], Tuple[Port, ...]] = functools.partial(_look, counters=counters)
    return Check(name, title, Cost.PASSIVE, functools.partial(_judge, counters=counters), look)


CHECKS = (
    _check("ib_flaps", "No link of a port went down within a day", FLAPS),
    _check("ib_errors", "No link of a port makes errors", ERRORS, MEASURED + PACKETS),
)
