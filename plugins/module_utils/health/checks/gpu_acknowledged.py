# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The setting ``acknowledged`` of section ``health``: Xids that somebody has looked at.

A list of mappings: ``code``, ``before`` (seconds since 1970, or an ISO time, UTC unless it says otherwise), and
``pci_address`` where one GPU is meant. Without ``before`` an entry would hide what is yet to come; it is told as wrong.
"""

from __future__ import annotations

import re
from typing import Any, List, Mapping, Optional, Tuple

from ...core.frozen import frozen
from ...facts.nvml.identity import normalise_pci_address
from ..types import Certainty, Finding, Outcome, Remedy

SETTING = "acknowledged"


@frozen
class Acknowledged:
    code: int
    before: float
    pci_address: Optional[str] = None

    def holds(self, code: int, pci_address: str, moment: Optional[float]) -> bool:
        """``moment`` is in seconds since 1970; None (unknown when) is never acknowledged."""
        return (
            code == self.code
            and self.pci_address in (None, pci_address)
            and moment is not None
            and moment <= self.before
        )


def acknowledged(settings: Mapping[str, Any]) -> Tuple[Tuple[Acknowledged, ...], Tuple[Finding, ...]]:
    """The entries, and a finding for each that cannot be understood."""
    given = settings.get(SETTING) or []
    if not isinstance(given, (list, tuple)):
        return (), (_wrong("health.acknowledged", "it is no list"),)
    good: List[Acknowledged] = []
    wrong: List[Finding] = []
    for place, item in enumerate(given):
        try:
            good.append(_entry(item))
        except ValueError as error:
            wrong.append(_wrong("health.acknowledged[{0}]".format(place), str(error)))
    return tuple(good), tuple(wrong)


def _wrong(thing: str, reason: str) -> Finding:
    remedy = "give a list of code, before (seconds since 1970 or an ISO time) and, if need be, pci_address"
    return Finding(
        Outcome.WARN, "setting " + thing, reason, remedy, Remedy.CONFIGURE, Certainty.CERTAIN, thing, "acknowledged"
    )


def _entry(item: Any) -> Acknowledged:
    if not isinstance(item, Mapping):
        raise ValueError("it is no mapping")
    code = item.get("code")
    if isinstance(code, bool) or not isinstance(code, int):
        raise ValueError("code {0!r} is no whole number".format(code))
    address = item.get("pci_address")
    if address is not None:
        address = normalise_pci_address(str(address))
        if address is None:
            raise ValueError("pci_address {0!r} is none".format(item["pci_address"]))
    return Acknowledged(code, _moment(item.get("before")), address)


def _moment(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", value):
        return float(value)
    if isinstance(value, str):
        import datetime  # seldom wanted, and not for nothing before each job

        try:
            moment = datetime.datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=datetime.timezone.utc)
            return moment.timestamp()
        except (ValueError, OverflowError):
            pass
    raise ValueError("before {0!r} is no time".format(value))
