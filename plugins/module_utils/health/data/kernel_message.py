# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a line of the kernel log that tells of a fault outside of the GPUs means, and for how long it counts."""

from __future__ import annotations

from typing import Optional, Tuple

from ...core.frozen import frozen
from ..kernel_log import Rule
from ..types import Certainty, Outcome, Remedy


@frozen
class Message:
    """``rule`` matches it; its group ``key``, if it has one, names the component.

    ``hours``: an older line does not count; None: it counts until the next boot. ``outcome`` pass: it is known and
    harmless. ``bare_metal``: it is ignored on a virtual machine. ``ended`` are messages that clear earlier messages of
    the same ``key``. ``sections``: (kind, severity) of the sections of a firmware record with the same meaning; a rule
    for such a record itself (``of_record``) is not applied to single lines.
    """

    check: str
    code: str
    rule: Rule
    thing: str
    meaning: str
    outcome: Outcome
    action: Remedy
    certainty: Certainty
    remedy: str
    hours: Optional[float]
    source: str
    bare_metal: bool = False
    ended: Tuple[Rule, ...] = ()
    sections: Tuple[Tuple[str, str], ...] = ()
    of_record: bool = False


DAY = 24.0
