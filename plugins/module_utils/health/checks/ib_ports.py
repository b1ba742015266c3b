# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""InfiniBand ports: as many as the profile says, linked, active, and at their rate.

RDMA over Ethernet (the accelerated interface of a cloud, soft RoCE) is no port of the fabric, so only its rate is
told. The rules are those of ``profile.compare`` and ``rdma.compare``, told apart by codes.
"""

from __future__ import annotations

from collections import Counter
from typing import Dict, List, Optional, Sequence, Tuple

from ...facts.sysfs import InfinibandDevice, InfinibandPort
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy

Named = Tuple[InfinibandDevice, InfinibandPort]
RATE = "infiniband_port_rate_gigabits_per_second"
_COUNT_REMEDY = "compare 'lspci -d 15b3:' with 'ibv_devices' to see whether a card or its driver is missing"
_LINK_REMEDY = "look at its cable, and at the port of the switch; redeploy a virtual machine"
_MANAGER_REMEDY = "see that a subnet manager runs"
_RATE_REMEDY = "look at its cable, and at the speed of the switch's port"


def look(evidence: Evidence) -> Tuple[InfinibandDevice, ...]:
    return evidence.infiniband


def key(device: InfinibandDevice, number: int) -> str:
    """The PCI address of a device keeps its meaning when names are given otherwise."""
    base = device.function.address if device.function else device.name
    return base if number == 1 else "{0}/{1}".format(base, number)


def thing(device: InfinibandDevice, number: int) -> str:
    return "RDMA port {0}/{1}".format(device.name, number)


def physical(devices: Sequence[InfinibandDevice]) -> Tuple[Named, ...]:
    """All ports with their devices. A virtual function shares the port of the physical one."""
    own = (one for one in devices if not (one.function and one.function.physical_function))
    return tuple((device, port) for device in own for port in device.ports)


def judge(seen: Tuple[InfinibandDevice, ...], expected: Expected) -> Judgement:
    every = physical(seen)
    ports = [one for one in every if one[1].link_layer in (None, "InfiniBand")]
    wanted = expected.profile.get("infiniband")
    if not ports and (not wanted or not wanted["count"]):
        return Judgement(not_applicable="this machine has no InfiniBand port")
    findings: List[Finding] = []
    if wanted is None:
        findings += _alike(ports)
    else:
        if len(ports) != wanted["count"]:
            reason = "{0} are there instead of {1}".format(len(ports), wanted["count"])
            findings.append(Finding(Outcome.FAIL, "InfiniBand ports", reason, _COUNT_REMEDY, Remedy.LOOK, code="count"))
        for device, port in ports:
            findings += _port(device, port, wanted.get("rate_gigabits_per_second"))
    measured = tuple(
        Measured(RATE, port.rate_gigabits_per_second, key(device, port.number), better="higher")
        for device, port in every
        if port.rate_gigabits_per_second is not None
    )
    return Judgement("{0} InfiniBand ports".format(len(ports)), tuple(findings), measured)


def _port(device: InfinibandDevice, port: InfinibandPort, wanted: Optional[float]) -> List[Finding]:
    where = (thing(device, port.number), key(device, port.number))
    rate = port.rate_gigabits_per_second
    if port.state is None:
        reason = "its state cannot be read"
        remedy = "look at the kernel log for its driver"
        return [_finding(where, Outcome.UNKNOWN, reason, remedy, "unreadable")]
    if port.physical_state not in (None, "LinkUp"):
        reason = "its link is {0} instead of LinkUp".format(port.physical_state)
        return [_finding(where, Outcome.FAIL, reason, _LINK_REMEDY, "link_down")]
    if port.state != "ACTIVE":
        reason = "its state is {0} instead of ACTIVE".format(port.state)
        return [_finding(where, Outcome.FAIL, reason, _MANAGER_REMEDY, "not_active")]
    if rate is None or wanted is None or rate == wanted:
        return []
    reason = "its rate is {0:g} Gb/s instead of {1:g} Gb/s".format(rate, wanted)
    if rate < wanted:
        return [_finding(where, Outcome.FAIL, reason, _RATE_REMEDY, "rate")]
    thing_, key_ = where
    return [Finding(Outcome.WARN, thing_, reason, "correct the profile", Remedy.CONFIGURE, key=key_, code="rate")]


def _alike(ports: Sequence[Named]) -> List[Finding]:
    """Without a profile: a port that has a link and no subnet manager, and one that is slower than most of its kind.

    One without a link is down by right: nobody said that it has a cable.
    """
    findings: List[Finding] = []
    rates: Dict[Optional[int], List[float]] = {}
    for device, port in ports:
        if port.state == "ACTIVE" and port.rate_gigabits_per_second is not None:
            rates.setdefault(_kind(device), []).append(port.rate_gigabits_per_second)
    for device, port in ports:
        where = (thing(device, port.number), key(device, port.number))
        if port.physical_state == "LinkUp" and port.state not in (None, "ACTIVE"):
            reason = "it has a link, and its state is {0} instead of ACTIVE".format(port.state)
            findings.append(_finding(where, Outcome.WARN, reason, _MANAGER_REMEDY, "not_active"))
        rate = port.rate_gigabits_per_second
        usual = _usual(rates.get(_kind(device), []))
        if port.state == "ACTIVE" and rate is not None and usual is not None and rate < usual:
            reason = "its rate is {0:g} Gb/s, and that of most others {1:g} Gb/s".format(rate, usual)
            findings.append(_finding(where, Outcome.WARN, reason, _RATE_REMEDY, "rate", Certainty.LIKELY))
    return findings


def _kind(device: InfinibandDevice) -> Optional[int]:
    return device.function.device if device.function else None


def _usual(rates: Sequence[float]) -> Optional[float]:
    """The rate of more than half of them."""
    found = Counter(rates).most_common(1)
    return found[0][0] if found and found[0][1] * 2 > len(rates) else None


def _finding(
    where: Tuple[str, str],
    outcome: Outcome,
    reason: str,
    remedy: str,
    code: str,
    certainty: Certainty = Certainty.CERTAIN,
) -> Finding:
    return Finding(outcome, where[0], reason, remedy, Remedy.LOOK, certainty, where[1], code)


CHECKS = (Check("ib_ports", "All InfiniBand ports are active", Cost.QUICK, judge, look),)
