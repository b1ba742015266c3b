# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SXids since the boot: errors of the NVSwitches, which all GPUs of a node share.

A reset of the GPUs with the NVSwitches leaves no line in the kernel log (github.com/NVIDIA/NVSentinel, pull 669). So
if the fabric is up and each GPU needs no recovery, a fatal SXid is reported as a warning, as gpu_xid does. A driver
without recovery actions (535) shows the first only, so a remedy must have reset all GPUs at once since the SXid.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Optional, Sequence, Tuple

from ...core import processes
from ...core.frozen import frozen
from ...core.resource import NodeError
from ...facts.fabric import Fabric, switches
from ...facts.fabric import look as look_at_fabric
from ...facts.nvml import pci
from .. import attempts
from ..data.xids import SWITCH_XIDS
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome
from .gpu_acknowledged import acknowledged
from .gpu_xid import LANE
from .gpu_xid_lines import Event, read_switches, read_xids

_NOT_SHOWN = "; no manual reset shows with this driver: after one, add the SXid to acknowledged of health_gate_settings"


@frozen
class Seen:
    events: Tuple[Event, ...]
    loads: Tuple[float, ...]
    booted: Optional[float]
    #: Only asked where a fatal SXid counts.
    fabric: Optional[Fabric] = None
    #: The second of the log up to which a remedy has reset all GPUs at once, in this start of the machine.
    reset: Optional[float] = None


def look(evidence: Evidence) -> Optional[Seen]:
    """None: there is no NVSwitch. One that a hypervisor keeps to itself may still be told of in the log."""
    there = switches(evidence.host)
    if not there and not pci.gpus(evidence.host):
        return None
    try:
        log = evidence.kernel_log
    except NodeError:
        if not there:  # gpu_xid says that the log cannot be read
            return None
        raise
    events = read_switches(log)
    loads = read_xids(log).loads
    fatal = any(SWITCH_XIDS[one.severity].outcome is Outcome.FAIL and not _settled(one, loads) for one in events)
    asked = look_at_fabric(evidence.host) if fatal else None
    reset = None
    if asked is not None and asked.recovered is None:
        done = attempts.resets(attempts.read(evidence.host).attempts, processes.boot_id(evidence.host))
        reset = reset_of_all(asked, done)
    return Seen(events, loads, log.booted, asked, reset) if there or events else None


def reset_of_all(fabric: Fabric, resets: Sequence[Tuple[float, FrozenSet[str]]]) -> Optional[float]:
    """When all GPUs were last reset in one command: only this resets the NVSwitches too. Pure."""
    return max((seconds for seconds, names in resets if fabric.gpus and names.issuperset(fabric.gpus)), default=None)


def _settled(event: Event, loads: Tuple[float, ...]) -> bool:
    """NVSwitches are of the same driver: loading it resets them."""
    return any(load > event.last for load in loads)


def _why_over(event: Event, fabric: Fabric, reset: Optional[float]) -> str:
    """Why a fatal SXid is probably over, where the fabric is up; "" if nothing shows it."""
    if fabric.recovered:
        return "the driver asks for no recovery now"
    if fabric.recovered is None and reset is not None and event.last <= reset:
        return "a remedy has reset all GPUs since"
    return ""


def judge(seen: Optional[Seen], expected: Expected) -> Judgement:
    if seen is None:
        return Judgement(not_applicable="there is no NVSwitch on the PCI bus")
    quiet = acknowledged(expected.settings)[0]
    findings: List[Finding] = []
    measured: Dict[str, int] = {}
    for event in seen.events:
        measured[event.pci_address] = measured.get(event.pci_address, 0) + event.count
        meaning = SWITCH_XIDS[event.severity]
        moment = None if seen.booted is None else seen.booted + event.last
        acknowledged_ = any(one.holds(event.code, event.pci_address, moment) for one in quiet)
        if meaning.outcome is Outcome.PASS or acknowledged_ or _settled(event, seen.loads):
            continue
        outcome, certainty, remedy = meaning.outcome, Certainty.CERTAIN, meaning.remedy
        reason = "SXid {0}, {1}: {2}".format(event.code, event.severity.lower(), event.text)
        if outcome is Outcome.FAIL and seen.fabric is not None and not seen.fabric.why_down:
            over = _why_over(event, seen.fabric, seen.reset)
            if over:
                outcome, certainty = Outcome.WARN, Certainty.POSSIBLE
                reason += "; {0}, and all GPUs have joined the fabric with all NVLinks".format(over)
            elif seen.fabric.recovered is None:
                remedy += _NOT_SHOWN
        thing = "NVSwitch {0} ({1})".format(event.unit, event.pci_address)
        findings.append(
            Finding(
                outcome,
                thing,
                reason,
                remedy,
                meaning.action,
                certainty,
                event.pci_address,
                "sxid_{0}".format(event.code),
            )
        )
    figures = tuple(
        Measured("nvswitch_sxid_events", float(n), key, True, "lower") for key, n in sorted(measured.items())
    )
    return Judgement("{0} SXids".format(sum(event.count for event in seen.events)), tuple(findings), figures)


CHECKS = (Check("nvswitch_sxid", "No NVSwitch has had a fatal error", Cost.QUICK, judge, look, LANE),)
