# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Section ``cloud_events`` of the declaration: whom this node asks for events, and what they do."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Mapping, Optional, Tuple

from .types import TYPES

SECTION = "cloud_events"
DRAIN, TELL, IGNORE = ACTIONS = ("drain", "tell", "ignore")
AZURE, COMMAND, NONE = PROVIDERS = ("azure", "command", "none")
#: A job on GPUs outlives a pause of some seconds; nothing outlives the others.
DEFAULTS: Mapping[str, str] = {
    "freeze": TELL,
    "reboot": DRAIN,
    "redeploy": DRAIN,
    "preempt": DRAIN,
    "terminate": DRAIN,
    "other": TELL,
}
#: (least, most) of each number. Azure switches its service off where nobody has asked for 24 hours.
RANGES: Mapping[str, Tuple[float, float]] = {"interval_seconds": (1, 3600), "lead_minutes": (0, 20160)}


@dataclasses.dataclass(frozen=True)
class Settings:
    """As in the options of the resource (``health/cloud_events/options.py``)."""

    provider: str = NONE
    command: Tuple[str, ...] = ()
    freeze: str = DEFAULTS["freeze"]
    reboot: str = DEFAULTS["reboot"]
    redeploy: str = DEFAULTS["redeploy"]
    preempt: str = DEFAULTS["preempt"]
    terminate: str = DEFAULTS["terminate"]
    other: str = DEFAULTS["other"]
    lead_minutes: int = 1440
    approve: bool = False
    interval_seconds: int = 5
    machine_name: str = ""
    slurm_node: str = ""
    textfile: str = ""

    def action(self, kind: str) -> str:
        found: str = getattr(self, kind)
        return found

    @classmethod
    def from_section(cls, section: Optional[Mapping[str, Any]]) -> Settings:
        """A value of a wrong kind, or out of range, counts as not given: the service must not end for it."""
        given: Dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            value, kind = (section or {}).get(field.name), type(field.default)
            if kind is tuple and isinstance(value, list):
                value = tuple(str(one) for one in value)
            # A bool is an int for Python, and is none here.
            fits = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
            if fits and _possible(field.name, value):
                given[field.name] = value
        return cls(**given)


def _possible(name: str, value: Any) -> bool:
    if name in TYPES:
        return value in ACTIONS
    if name == "provider":
        return value in PROVIDERS
    least, most = RANGES.get(name, (None, None))
    return least is None or most is None or least <= value <= most
