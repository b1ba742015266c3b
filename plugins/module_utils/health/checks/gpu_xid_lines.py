# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVIDIA's driver says of its GPUs and NVSwitches in the kernel log, taken apart and counted. Pure.

The name of a process in such a line is its user's choice, up to 15 characters of any kind, so nothing but that name is
read where it may stand: code and PCI address stand before it, and what a line says after it is looked for in a shape
that is longer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Dict, Iterable, List, Match, Optional, Tuple

from ...core.frozen import frozen, replaced
from ...facts.nvml.identity import normalise_pci_address
from ..data.xids import NVLINK_XIDS, RECOVERY_ACTION_CHANGED, Bucket
from ..kernel_log import KernelLog, Line, Rule

if TYPE_CHECKING:
    from .gpu_xid_registers import Decoded

# More distinct ones than this are a flood of garbage.
_MOST_EVENTS = 1000
_TEXT_LENGTH = 200

_ADDRESS = r"(?:PCI:)?([0-9A-Fa-f:.]{3,19}[0-9A-Fa-f])"
# github.com/NVIDIA/open-gpu-kernel-modules: kernel_rc.c (krcReportXid_IMPL), osinit.c (osHandleGpuLost, RmInitAdapter),
# osapi.c (rm_is_supported_device), nv.c (nvidia_init_module); drivers of branch 390 and older write "GPU at".
_XID, _LOADED, _LOST, _NOT_FOUND, _NOT_STARTED, _LOADING = range(6)
RULES = (
    Rule(
        "NVRM: Xid",
        r"NVRM: Xid \(" + _ADDRESS + r"(?: GPU-[A-Z]+:[0-9A-Fa-f]+)*\): ([0-9]{1,5})(?:, ?([\s\S]*))?\Z",
        "NVRM: Xid (PCI:0000:dc:00 GPU-I:05): 45, pid=4711, name=python3, Ch 00000010",
    ),
    Rule("NVRM: loading", r"NVRM: loading NVIDIA UNIX ", "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05"),
    Rule(
        "fallen off the bus",
        r"NVRM: GPU (?:at )?" + _ADDRESS + r":?(?: GPU)? has fallen off the bus",
        "NVRM: GPU 0000:0b:00.0: GPU has fallen off the bus.",
    ),
    Rule(  # while the driver is loaded; one message of three lines
        "fallen off the bus",
        r"NVRM: The NVIDIA GPU " + _ADDRESS + r"\s[\s\S]{0,80}\bfallen off the bus",
        "NVRM: The NVIDIA GPU 0000:0b:00.0\n"
        "NVRM: (PCI ID: 10de:2330) installed in this system has\n"
        "NVRM: fallen off the bus and is not responding to commands.",
    ),
    Rule(
        "RmInitAdapter failed",
        r"NVRM: GPU (?:at )?" + _ADDRESS + r": RmInitAdapter failed!",
        "NVRM: GPU 0000:0b:00.0: RmInitAdapter failed! (0x26:0xffff:1480)",
    ),
    Rule(  # nvlink_linux.c, nvlink_core_init, which nvidia_init_module calls before it probes a device
        "nvidia-nvlink: Nvlink Core is being initialized",
        "nvidia-nvlink: Nvlink Core is being initialized",
        "nvidia-nvlink: Nvlink Core is being initialized, major device number 234",
    ),
)
# The words by which the driver grades an SXid (common_nvswitch.h, error_nvswitch.h, intr_nvswitch.h). Lines without
# one: NVSWITCH_PRINT_SXID of soe_*.c, cci_*.c, therm_*.c.
FATAL, NON_FATAL, CORRECTABLE, UNGRADED = "Fatal", "Non-fatal", "Correctable", "Not graded"
SWITCH_RULES = (
    Rule(
        ": SXid (",
        r"nvidia-nvswitch([0-9]{1,3}): SXid \("
        + _ADDRESS
        + r"\): ([0-9]{1,6}), (?:(Fatal|Non-fatal|Correctable), )?([^\n]*)",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First)",
    ),
)
# Of the text of an Xid.
_PROCESS = r"pid='?(<unknown>|[0-9]+)'?, name='?([\s\S]{0,15}?)'?(?:, ?|\Z)"
# GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)
_RECOVERY = r"action changed from 0x[0-9A-Fa-f]+ \([^)]*\) to 0x([0-9A-Fa-f]{1,8}) \(([^)]*)\)"
NVLINK, _OFF_THE_BUS = 74, 79
# Of an SXid without a grade. The lines that go on with more about the one before, and those that report no fault.
_GOES_ON = ("Severity ", "Data {")
_SHUT_DOWN = "Shutting Down"
_NO_FAULT = re.compile(
    r"NVSWITCH Temperature |Thermal [Ss]lowdown |OSFP Thermal (?:Warn|Overt Deactivated)|TNVL |"
    r"(?:Reg-write|ENG reg-write) failed\. TNVL|Failed to disable non-fatal/legacy interrupts\. TNVL|OFF\b"
)
# From the first probe to "NVRM: loading", where the log does not show the start of that load.
_PROBE_SECONDS = 30.0
# The driver says it with this Xid, and at once again without; only one of them may be there.
_AT_ONCE_SECONDS = 5.0
# Lines of one burst follow each other within this time.
_BURST_SECONDS = 600.0


@frozen
class Event:
    """All lines with the same Xid of the same GPU. ``severity``: Fatal or Nonfatal if the line contains it; ``unit`` is
    the unit named with it. ``process`` is the process in the last line; ``first`` and ``last`` are in seconds after the
    boot. ``bucket``, ``decoded``: the action that its registers request, and the link and error that they encode.
    ``burst``: the number of lines in the largest burst; ``latest_burst``: the number in the last burst."""

    pci_address: str
    code: int
    text: str
    severity: str = ""
    unit: str = ""
    process: str = ""
    count: int = 1
    first: float = 0.0
    last: float = 0.0
    bucket: Optional[Bucket] = None
    decoded: Tuple[Decoded, ...] = ()
    burst: int = 1
    latest_burst: int = 1


@frozen
class Recovery:
    """Xid 154: what the driver asked for from then on, in its own words, in lower case, and as its number."""

    pci_address: str
    seconds: float
    words: str
    number: Optional[int] = None


@frozen
class Xids:
    """The events in the log. ``loads`` are the times at which the driver began to load: later reports may come from its
    own probing. ``not_started`` are GPUs that it could not start, as events without a code."""

    events: Tuple[Event, ...] = ()
    recoveries: Tuple[Recovery, ...] = ()
    loads: Tuple[float, ...] = ()
    not_started: Tuple[Event, ...] = ()


def _xid(address: str, found: Match[str], line: Line) -> Event:
    code, text, process = int(found.group(2)), found.group(3) or "", ""
    decoded: Tuple[Decoded, ...] = ()
    severity = unit = ""
    bucket = None
    if code == NVLINK or code in NVLINK_XIDS:
        from .gpu_xid_registers import decode  # few logs have such a line

        decoded = (decode(code, text),)
        severity, unit, bucket = decoded[0].severity, decoded[0].unit, decoded[0].meaning.bucket
    owner = re.match(_PROCESS, text)
    if owner is not None:
        pid, name = owner.groups()
        process = "" if "unknown" in pid and "unknown" in name else "{1} ({0})".format(pid, name)
        text = text[owner.end() :]
    event = _event(address, code, line, text, severity, unit)
    return replaced(event, process=process, bucket=bucket or plain_bucket(code, severity), decoded=decoded)


def plain_bucket(code: int, severity: str) -> Optional[Bucket]:
    """What an NVLink Xid asks for by its code and word alone; None: it is no such code."""
    if code in NVLINK_XIDS:
        return Bucket.RESET_GPU if severity == "Fatal" else Bucket.CONTACT_SUPPORT
    return Bucket.RESET_GPU if code == NVLINK else None


def _event(address: str, code: int, line: Line, text: str = "", severity: str = "", unit: str = "") -> Event:
    text = text.strip()[:_TEXT_LENGTH]
    return Event(address, code, text, severity, unit, first=line.seconds, last=line.seconds)


def read_xids(log: KernelLog) -> Xids:
    events: List[Event] = []
    off_the_bus: Dict[str, float] = {}
    not_started: List[Event] = []
    recoveries: List[Recovery] = []
    loads: List[float] = []
    began: Optional[float] = None
    for place, found, line in log.find(RULES):
        if place == _LOADING:
            began = line.seconds
            continue
        if place == _LOADED:
            loads.append(line.seconds - _PROBE_SECONDS if began is None else began)
            began = None
            continue
        address = normalise_pci_address(found.group(1))
        if address is None:
            continue
        if place in (_LOST, _NOT_FOUND):
            event = _event(address, _OFF_THE_BUS, line)
            if line.seconds - off_the_bus.get(address, -_AT_ONCE_SECONDS) < _AT_ONCE_SECONDS:
                continue
        elif place == _NOT_STARTED:
            not_started.append(_event(address, 0, line))
            continue
        else:
            event = _xid(address, found, line)
        if event.code == _OFF_THE_BUS:
            off_the_bus[address] = line.seconds
        if event.code == RECOVERY_ACTION_CHANGED:
            change = re.search(_RECOVERY, found.group(3) or "")
            words = " ".join(change.group(2).lower().split()) if change is not None else ""
            number = int(change.group(1), 16) if change is not None else None
            recoveries.append(Recovery(address, line.seconds, words, number))
        else:
            events.append(event)
    return Xids(counted(events), tuple(_last_of_each(recoveries)), tuple(loads), counted(not_started))


def read_switches(log: KernelLog) -> Tuple[Event, ...]:
    """Lines that go on with ``Severity`` or ``Data`` belong to one before, and are none."""
    events: List[Event] = []
    for said in log.find(SWITCH_RULES):
        found, line = said[1:]
        address, grade, text = normalise_pci_address(found.group(2)), found.group(4), found.group(5)
        if address is not None and (grade or not text.startswith(_GOES_ON)):
            unit = "nvidia-nvswitch" + found.group(1)
            events.append(_event(address, int(found.group(3)), line, text, grade or _grade(text), unit))
    return counted(events)


def _grade(text: str) -> str:
    if text.rstrip().endswith(_SHUT_DOWN):
        return FATAL
    return NON_FATAL if _NO_FAULT.match(text) else UNGRADED


def counted(events: Iterable[Event]) -> Tuple[Event, ...]:
    """Those of one GPU, code and meaning as one, in the order in which they came first."""
    answer: Dict[Tuple[str, int, str, Optional[Bucket]], Event] = {}
    for event in events:
        name = (event.pci_address, event.code, event.severity, event.bucket)
        before = answer.get(name)
        if before is not None:
            first, last = min(before.first, event.first), max(before.last, event.last)
            latest = before.latest_burst + 1 if event.first - before.last <= _BURST_SECONDS else 1
            answer[name] = replaced(
                event,
                count=before.count + 1,
                first=first,
                last=last,
                decoded=_both(before, event),
                burst=max(before.burst, latest),
                latest_burst=latest,
            )
        elif len(answer) < _MOST_EVENTS:
            answer[name] = event
    return tuple(answer.values())


def _both(before: Event, event: Event) -> Tuple[Decoded, ...]:
    if not event.decoded:
        return ()
    from .gpu_xid_registers import added

    return added(before.decoded, event.decoded)


def _last_of_each(recoveries: Iterable[Recovery]) -> Iterable[Recovery]:
    last: Dict[str, Recovery] = {}
    for one in recoveries:
        last[one.pci_address] = one
    return last.values()
