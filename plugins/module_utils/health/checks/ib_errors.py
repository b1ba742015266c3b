# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links that make errors or go up and down, by the growth of the counters of their ports within a day."""

from __future__ import annotations

import functools
from typing import Callable, List, Sequence, Tuple

from ...core.frozen import frozen
from ...facts.sysfs import infiniband_devices, parse_int
from ..data.ib_counters import ERRORS, FLAPS, MEASURED, Counter
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy
from .ib_ports import key, physical, thing

_PORTS = "/sys/class/infiniband/{0}/ports/{1}/{2}"
_REMEDY = "clean or replace its cable, and look at the port of the switch; redeploy a virtual machine when it goes on"


@frozen
class Port:
    """``values`` are (figure, value) of the counters that this port has."""

    thing: str
    key: str
    values: Tuple[Tuple[str, int], ...]


def _look(evidence: Evidence, counters: Sequence[Counter]) -> Tuple[Port, ...]:
    found: List[Port] = []
    for device, port in physical(infiniband_devices(evidence.host)):
        texts = (
            (one.figure, parse_int(evidence.host.read_line(_PORTS.format(device.name, port.number, one.file))))
            for one in counters
        )
        values = tuple((figure, value) for figure, value in texts if value is not None and value >= 0)
        found.append(Port(thing(device, port.number), key(device, port.number), values))
    return tuple(found)


def _judge(seen: Tuple[Port, ...], expected: Expected, counters: Sequence[Counter]) -> Judgement:
    if not any(one.values for one in seen):
        return Judgement(not_applicable="this machine has no RDMA port that counts them")
    meanings = {one.figure: one.meaning for one in counters}
    findings: List[Finding] = []
    measured: List[Measured] = []
    for port in seen:
        for figure, value in port.values:
            counter = Measured(figure, float(value), port.key, counter=True, better="lower")
            measured.append(counter)
            findings += _grown(port, counter, meanings.get(figure, figure), expected)
    return Judgement("{0} ports".format(len(seen)), tuple(findings), tuple(measured))


def _grown(port: Port, counter: Measured, meaning: str, expected: Expected) -> List[Finding]:
    limit, growth = expected.thresholds.get(counter.name + "_per_day"), expected.growth(counter)
    if limit is None or growth is None or limit.outcome(growth.by) is Outcome.PASS:
        return []
    reason = "{0} {1:.0f} times within {2:.0f} h (limit {3:g})".format(
        meaning, growth.by, growth.hours, limit.limit(growth.by) or 0
    )
    outcome = limit.outcome(growth.by)
    code = counter.name.split("_", 1)[1]
    return [Finding(outcome, port.thing, reason, _REMEDY, Remedy.LOOK, Certainty.LIKELY, port.key, code)]


def _check(name: str, title: str, told: Sequence[Counter], measured: Sequence[Counter] = ()) -> Check:
    counters = tuple(told) + tuple(measured)
    look: Callable[[Evidence], Tuple[Port, ...]] = functools.partial(_look, counters=counters)
    return Check(name, title, Cost.PASSIVE, functools.partial(_judge, counters=counters), look)


CHECKS = (
    _check("ib_flaps", "No link of a port went down within a day", FLAPS),
    _check("ib_errors", "No link of a port makes errors", ERRORS, MEASURED),
)
