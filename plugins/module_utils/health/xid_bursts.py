# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Xids of the kernel log as bursts, for the journal: those that are fatal, and those that rules are about. Pure."""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Optional, Tuple

from ..core.frozen import replaced
from ..facts.nvml.identity import normalise_pci_address
from .checks.gpu_xid_lines import NVLINK, RULES, plain_bucket
from .data.repeats import REPEATS
from .data.xids import BUCKETS, NVLINK_XIDS, XIDS, Bucket
from .journal import FAULT, Event
from .journal_events import BURST_SECONDS, MOST_OF_A_KIND, bounded, moment
from .kernel_log import KernelLog
from .parts import Part
from .types import Outcome

_NAMED = {code for rule in REPEATS for code in rule.codes if code.startswith("xid_")}
# The name of a process, which its user chose, has 15 characters at most, and this is longer.
_UNIT = r"Exception on \(GPC ([0-9]{1,3}), TPC ([0-9]{1,3})[,)]"
_XID, _OFF_THE_BUS = "NVRM: Xid", 79


def of_log(log: KernelLog, parts: Mapping[str, Part], boot: str, now: float) -> Tuple[Event, ...]:
    """The newest bursts of each GPU and code, with times that are not in the future."""
    found: Dict[Tuple[Part, str, str], List[Event]] = {}
    for place, match, line in log.find(RULES):
        word = RULES[place].word
        if word not in (_XID, "fallen off the bus"):
            continue
        address = normalise_pci_address(match.group(1))
        part = parts.get(address or "")
        code = int(match.group(2)) if word == _XID else _OFF_THE_BUS
        text = (match.group(3) or "") if word == _XID else ""
        action = _action(code, text)
        if part is None or action is None:
            continue
        place_ = re.search(_UNIT, text) if code == 13 else None
        unit = "GPC {0}, TPC {1}".format(*place_.groups()) if place_ is not None else ""
        name = "xid_{0}".format(code)
        some = found.setdefault((part, name, unit), [])
        time = now if log.booted is None else min(now, log.booted + line.seconds)
        if some and line.seconds - some[-1].until <= BURST_SECONDS:
            some[-1] = replaced(some[-1], last=max(some[-1].last, time), count=some[-1].count + 1)
        else:
            some.append(Event(FAULT, part, time, time, boot, "gpu_xid", name, action, unit, line.seconds))
            del some[:-MOST_OF_A_KIND]
    return bounded(sorted((one for some in found.values() for one in some), key=moment))


def _by_registers(code: int, text: str) -> Optional[Bucket]:
    """As the check reads them: the same code may be a fault of a link, or what a link that was taken down leaves."""
    if code != NVLINK and code not in NVLINK_XIDS:
        return None
    from .checks.gpu_xid_registers import decode  # few logs have such a line

    decoded = decode(code, text)
    return decoded.meaning.bucket or plain_bucket(code, decoded.severity)


def _action(code: int, text: str) -> Optional[str]:
    """The remedy that the catalogue has for it, or its registers; None: neither is it fatal, nor is a rule about it."""
    bucket = _by_registers(code, text) or (XIDS[code].bucket if code in XIDS else None)
    if bucket is None:
        return None
    consequence = BUCKETS[bucket]
    wanted = consequence.outcome is Outcome.FAIL or "xid_{0}".format(code) in _NAMED
    return consequence.action.value if wanted else None
