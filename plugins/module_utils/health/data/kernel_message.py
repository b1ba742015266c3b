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
    """``rule`` finds it; its group ``key`` names the thing, where there is one.

    ``hours``: an older line counts no more; None: it counts until the next boot. ``outcome`` pass: it is known, and
    says nothing against the node. ``bare_metal``: it says nothing of a virtual machine. ``ended`` are messages that end
    those of the same ``key`` before them. ``sections``: (kind, severity) of the sections of a firmware record that mean
    the same; a rule for such a record itself (``of_record``) is not applied to single lines.
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
