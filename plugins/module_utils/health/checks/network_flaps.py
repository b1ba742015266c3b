# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ethernet interfaces that lose their link: by the growth of the kernel's count of carrier changes within a day.

A link that goes down and comes back is two changes. InfiniBand counts its own (:mod:`.ib_errors`). An interface that is
made anew, as a cloud does when it services a host, begins its count anew.
"""

from __future__ import annotations

import re
from typing import List, Tuple

from ...core.frozen import frozen
from ...core.host import Host
from ...facts.sysfs import normalise_pci_address, parse_int
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy

_INTERFACES = "/sys/class/net"
_FIGURE = "network_carrier_changes"
_ETHERNET = "1"  # linux/if_arp.h, ARPHRD_ETHER
_OF_OTHERS = r"(?:c\d+)?pf\d+(?:vf|sf)\d+"  # phys_port_name of a representor: the link of a virtual function
_REMEDY = "clean or replace its cable, and look at the port of the switch"


@frozen
class Interface:
    """``rdma``: a device of RDMA is on it, so that a job ends with its link."""

    name: str
    key: str
    changes: int
    rdma: bool


def look(evidence: Evidence) -> Tuple[Interface, ...]:
    host = evidence.host
    found = (_interface(host, name) for name in host.names(_INTERFACES))
    return tuple(one for one in found if one is not None)


def _interface(host: Host, name: str) -> "Interface | None":
    folder = "{0}/{1}".format(_INTERFACES, name)
    changes = parse_int(host.read_line(folder + "/carrier_changes"))
    if changes is None or changes < 0 or host.read_line(folder + "/type") != _ETHERNET:
        return None
    device = folder + "/device"
    if not host.exists(device) or host.exists(device + "/physfn"):
        return None
    if re.fullmatch(_OF_OTHERS, host.read_line(folder + "/phys_port_name") or ""):
        return None
    addresses = [part for part in host.real_path(device).split("/") if normalise_pci_address(part)]
    if not addresses:
        return None
    ports = host.read_line(folder + "/dev_port") or "0"
    key = addresses[-1] if ports == "0" else "{0}/{1}".format(addresses[-1], ports)
    return Interface(name, key, changes, bool(host.names(device + "/infiniband")))


def judge(seen: Tuple[Interface, ...], expected: Expected) -> Judgement:
    if not seen:
        return Judgement(not_applicable="this machine has no Ethernet interface of its own that counts them")
    findings: List[Finding] = []
    measured: List[Measured] = []
    for one in seen:
        figure = Measured(_FIGURE, float(one.changes), one.key, counter=True, better="lower")
        measured.append(figure)
        limit, growth = expected.thresholds.get(_FIGURE + "_per_day"), expected.growth(figure)
        if limit is None or growth is None or limit.outcome(growth.by) is Outcome.PASS:
            continue
        # Without RDMA no job ends with it.
        outcome = limit.outcome(growth.by) if one.rdma else Outcome.WARN
        reason = "its link changed {0:.0f} times within {1:.0f} h (limit {2:g}; down and up is 2)".format(
            growth.by, growth.hours, limit.limit(growth.by) or 0
        )
        thing = "interface {0}".format(one.name)
        findings.append(Finding(outcome, thing, reason, _REMEDY, Remedy.LOOK, Certainty.LIKELY, one.key, "carrier"))
    return Judgement("{0} interfaces".format(len(seen)), tuple(findings), tuple(measured))


CHECKS = (Check("network_flaps", "No Ethernet link went down within a day", Cost.PASSIVE, judge, look),)
