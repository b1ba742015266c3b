# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Xids since the boot: each is told until a reset, a new start of the driver, a reboot, or somebody settles it.

What settles one: the driver says afterwards that it asks for nothing (Xid 154), the driver was loaded again, a remedy
of ours reset the GPU afterwards, or the setting ``acknowledged`` of section ``health`` names it. Where the driver asks
for nothing now and nothing shows a reset, a fault is told as a warning: the driver is the better judge of whether the
GPU can be used. What it asks for now is no other than what Xid 154 told, so that one ends with it.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ...core import processes
from ...core.frozen import frozen
from ...core.resource import NodeError
from ...facts import gpu_info
from ...facts.gpu_info.names import RECOVERY_ACTIONS
from ...facts.nvml import pci
from .. import attempts
from ..data.recovery_actions import BY_NAME, BY_WORDS, RecoveryAction
from ..data.xids import BUCKETS, NVLINK_XIDS, XIDS, Bucket, Consequence
from ..evidence import Evidence
from ..types import ORDER, Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy
from .gpu_acknowledged import Acknowledged, acknowledged
from .gpu_common import NO_GPU
from .gpu_xid_lines import Event, Recovery, Xids, read_xids

LANE = "log"
# Our choice. github.com/NVIDIA/open-gpu-kernel-modules, issue 1355: 872 lines on all 18 links, and NCCL hung; a job
# that is killed leaves one or two for each link of each GPU.
_STORM_ERRORS, _STORM_PER_LINK, _STORM_LINKS = 100, 4, 9
# What NVML may take for each of its calls when a fault was found in the log.
_CALL_SECONDS = 2.0


@frozen
class Seen:
    """``actions``: PCI address → what the driver asks for now, "" where it does not say, of the GPUs that answer; only
    asked where the log has something bad. ``resets``: PCI address → the second of the log up to which a reset by us,
    in this start of the machine, has settled what a reset can."""

    xids: Xids
    complete: bool
    booted: Optional[float]
    actions: Mapping[str, str]
    resets: Mapping[str, float] = {}


def look(evidence: Evidence) -> Optional[Seen]:
    """None: there is no GPU, so nobody need read the log."""
    if not pci.gpus(evidence.host):
        return None
    log = evidence.kernel_log
    xids = read_xids(log)
    bad = bool(xids.not_started or xids.recoveries)
    bad = bad or any(_of(event)[0].outcome is Outcome.FAIL for event in xids.events)
    actions, resets = _asked(evidence) if bad else ({}, {})
    return Seen(xids, log.complete, log.booted, actions, resets)


def _asked(evidence: Evidence) -> Tuple[Mapping[str, str], Mapping[str, float]]:
    """(what the driver asks for, what was reset), of the GPUs that answer."""
    options = gpu_info.Options(groups=("repair",), call_timeout_seconds=_CALL_SECONDS)
    try:
        gpus = gpu_info.gather(options, evidence.host).gpus
    except NodeError:
        return {}, {}
    done = attempts.resets(attempts.read(evidence.host).attempts, processes.boot_id(evidence.host))
    answer, resets = {}, {}
    for gpu in gpus:
        repair, address = gpu.groups.get("repair"), gpu.identity.pci_address
        if gpu.fault is None and address:
            answer[address] = (repair.recovery_action if repair is not None else None) or ""
            settled = [seconds for seconds, names in done if gpu.identity.permanent_name in names]
            if settled:
                resets[address] = max(settled)
    return answer, resets


def _of(event: Event) -> Tuple[Consequence, str, Certainty]:
    """What is to be done about an Xid, what it means, and how sure that is."""
    link, xid = NVLINK_XIDS.get(event.code), XIDS.get(event.code)
    if link is not None:
        return BUCKETS[event.bucket or Bucket.CONTACT_SUPPORT], link.text, Certainty.CERTAIN
    if xid is None:
        return BUCKETS[Bucket.CONTACT_SUPPORT], "a code that is newer than this check", Certainty.POSSIBLE
    return BUCKETS[event.bucket or xid.bucket], xid.text, xid.certainty


def judge(seen: Optional[Seen], expected: Expected) -> Judgement:
    if seen is None:
        return Judgement(not_applicable=NO_GPU)
    quiet, wrong = acknowledged(expected.settings)
    findings: List[Finding] = list(wrong)
    told_of: Dict[Tuple[str, str], Finding] = {}
    storm: List[Event] = []
    harmless = settled = 0
    for event in seen.xids.events:
        consequence = _of(event)[0]
        if consequence.outcome is Outcome.PASS:
            harmless += event.count
            if event.decoded and not (
                _settled(event, consequence, seen) or _quiet(quiet, event.code, event, seen.booted)
            ):
                storm.append(event)
        elif _settled(event, consequence, seen) or _quiet(quiet, event.code, event, seen.booted):
            settled += event.count
        else:
            found = _finding(event, seen, expected)
            told_of[found.code, found.key] = _worse(found, told_of.get((found.code, found.key)))
    findings += told_of.values()
    findings += _storm(storm)
    for recovery in seen.xids.recoveries:
        asked = _recovery(recovery, seen)
        if asked is not None and not _quiet(quiet, 154, recovery, seen.booted):
            findings.append(asked)
    for event in seen.xids.not_started:
        if any(load > event.last for load in seen.xids.loads):
            settled += event.count
        else:
            findings.append(_not_started(event, seen, expected))
    told = "{0} Xids of applications".format(harmless)
    if settled:
        told += ", {0} settled".format(settled)
    if not seen.complete:
        told += "; the kernel log does not go back to the boot"
    return Judgement(told, tuple(findings), _measured(seen.xids))


def _storm(events: Sequence[Event]) -> List[Finding]:
    """NVLink errors that are harmless one by one, but so many on so many links that the fabric may not work."""
    count = sum(event.burst for event in events)
    each = {(event.pci_address, one.link) for event in events for one in event.decoded if one.link is not None}
    links = {link for dummy, link in each}
    if count < max(_STORM_ERRORS, _STORM_PER_LINK * len(each)) or len(links) < _STORM_LINKS:
        return []
    gpus = len({event.pci_address for event in events})
    reason = "{0} NVLink errors (Xid {1}) on {2} links of {3} GPUs, each harmless alone".format(
        count, ", ".join(str(code) for code in sorted({event.code for event in events})), len(links), gpus
    )
    remedy = "run nccl_all_reduce when no job runs; reboot the node if it hangs or is slow"
    return [Finding(Outcome.WARN, "NVLink", reason, remedy, Remedy.LOOK, Certainty.LIKELY, "", "nvlink_storm")]


def _worse(one: Finding, other: Optional[Finding]) -> Finding:
    """Registers may make two of one code, and a finding has one name."""
    return one if other is None else max(other, one, key=_weight)


def _weight(found: Finding) -> Tuple[int, int]:
    return ORDER.index(found.outcome), list(Remedy).index(found.action)


def _settled(event: Event, consequence: Consequence, seen: Seen) -> bool:
    if not consequence.reset_settles:
        return False
    if any(load > event.last for load in seen.xids.loads) or _reset_since(event.pci_address, event.last, seen):
        return True
    return any(
        one.pci_address == event.pci_address and one.seconds >= event.last and _asks(one) is BY_NAME["none"]
        for one in seen.xids.recoveries
    )


def _reset_since(address: str, seconds: float, seen: Seen) -> bool:
    """By us. A GPU that asks for something all the same was not repaired by it."""
    before = seen.resets.get(address)
    return before is not None and seconds <= before and seen.actions.get(address) in ("", "none")


def _quiet(quiet: Tuple[Acknowledged, ...], code: int, thing: Any, booted: Optional[float]) -> bool:
    seconds = thing.last if isinstance(thing, Event) else thing.seconds
    moment = None if booted is None else booted + seconds
    return any(one.holds(code, thing.pci_address, moment) for one in quiet)


def _finding(event: Event, seen: Seen, expected: Expected) -> Finding:
    consequence, text, certainty = _of(event)
    outcome = consequence.outcome
    code = "xid_{0}".format(event.code) + ("_" + event.severity.lower() if event.severity else "")
    action, remedy = consequence.action, consequence.remedy
    if event.decoded:
        decoded, action, remedy = _decoded(event, consequence)
        text += " ({0})".format(decoded)
    reason = "Xid {0}{1}: {2}, {3}".format(
        event.code,
        " ({0}, {1})".format(event.unit, event.severity) if event.severity else "",
        text,
        _when(event, seen.booted, expected.now),
    )
    if event.process:
        reason += ", process {0}".format(event.process)
    asked = seen.actions.get(event.pci_address)
    if outcome is Outcome.FAIL and consequence.reset_settles and asked == "none":
        outcome, certainty = Outcome.WARN, Certainty.POSSIBLE
        reason += "; the driver asks for no recovery of this GPU now"
    thing = "GPU {0}".format(event.pci_address)
    return Finding(outcome, thing, reason, remedy, action, certainty, event.pci_address, code)


def _decoded(event: Event, consequence: Consequence) -> Tuple[str, Remedy, str]:
    """What the registers say of which link, and what is to be done then."""
    from .gpu_xid_registers import told

    for one in event.decoded:
        if one.meaning.ticket_after is not None and one.count > one.meaning.ticket_after:
            again = BUCKETS[Bucket.HARDWARE]
            return told(event.decoded), again.action, again.remedy
    advice = next((one.meaning.advice for one in event.decoded if one.meaning.advice), "")
    now = consequence.remedy.partition(";")[0]
    return told(event.decoded), consequence.action, "; ".join((now, advice)) if advice else consequence.remedy


def _not_started(event: Event, seen: Seen, expected: Expected) -> Finding:
    """RmInitAdapter failed: no job can open this GPU. One that answers NVML now was started since."""
    consequence = BUCKETS[Bucket.RESET_GPU]
    outcome, certainty = Outcome.FAIL, Certainty.CERTAIN
    reason = "the driver could not start it (RmInitAdapter failed), {0}".format(_when(event, seen.booted, expected.now))
    if event.pci_address in seen.actions:
        outcome, certainty = Outcome.WARN, Certainty.POSSIBLE
        reason += "; it answers now"
    thing, address = "GPU {0}".format(event.pci_address), event.pci_address
    return Finding(outcome, thing, reason, consequence.remedy, consequence.action, certainty, address, "not_started")


def _when(event: Event, booted: Optional[float], now: float) -> str:
    times = "once" if event.count == 1 else "{0} times".format(event.count)
    if booted is None:
        return "{0}, {1:.0f} s after the boot".format(times, event.last)
    ago = max(0.0, now - booted - event.last)
    for unit, seconds in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if ago >= seconds:
            return "{0}, {1}{2:.0f} {3} ago".format(times, "the last " if event.count > 1 else "", ago / seconds, unit)
    return "{0}, {1}just now".format(times, "the last " if event.count > 1 else "")


def _recovery(recovery: Recovery, seen: Seen) -> Optional[Finding]:
    """The last Xid 154 of a GPU. A driver that was loaded again since has forgotten it; what it asks for now, NVML
    tells, since a reset ends it without a line."""
    known = _asks(recovery)
    if known is not None and known.outcome is Outcome.PASS:
        return None
    if any(load > recovery.seconds for load in seen.xids.loads) or seen.actions.get(recovery.pci_address) == "none":
        return None
    thing, key = "GPU {0}".format(recovery.pci_address), recovery.pci_address
    if known is None:
        reason = "Xid 154: the driver asks for a recovery ({0})".format(recovery.words or "not told which")
        remedy = "see nvidia-smi -q, GPU Recovery Action"
        return Finding(Outcome.FAIL, thing, reason, remedy, Remedy.LOOK, Certainty.LIKELY, key, "xid_154")
    reason, certainty = "Xid 154: the driver asks for {0}".format(known.text), Certainty.CERTAIN
    if recovery.words not in known.words:
        reason, certainty = reason + ' ("{0}", told by its number)'.format(recovery.words), Certainty.LIKELY
    return Finding(known.outcome, thing, reason, known.remedy, known.action, certainty, key, "xid_154")


def _asks(recovery: Recovery) -> Optional[RecoveryAction]:
    """Branches spell an action differently, so one in new words is taken by its number; None: neither is known."""
    known = BY_WORDS.get(recovery.words)
    return known or BY_NAME.get(RECOVERY_ACTIONS.get(-1 if recovery.number is None else recovery.number, ""))


def _measured(xids: Xids) -> Tuple[Measured, ...]:
    counts: Dict[str, int] = {}
    for event in xids.events:
        counts[event.pci_address] = counts.get(event.pci_address, 0) + event.count
    return tuple(Measured("gpu_xid_events", float(count), key, True, "lower") for key, count in sorted(counts.items()))


CHECKS = (
    # The log is some milliseconds while the ring buffer goes back to the boot, and read beside NVML.
    Check("gpu_xid", "No Xid asks for a reset or a repair", Cost.QUICK, judge, look, LANE, seconds=20.0),
)
