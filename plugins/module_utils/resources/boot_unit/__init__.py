# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The systemd unit that brings one resource to its declaration at each boot.

Front ends use :func:`run`.
"""

from __future__ import annotations

from ...core.host import Host
from ...core.resource import Outcome, converge
from .apply import apply
from .observe import observe
from .plan import plan
from .types import FOLDER, UNITS, Desired, State

__all__ = ["FOLDER", "UNITS", "Desired", "State", "run"]


def run(host: Host, desired: Desired, check_mode: bool = False) -> Outcome[State]:
    """Bring the boot unit of one resource to what is desired."""
    return converge(
        lambda: observe(host, desired.name, [name for name, dummy in desired.drop_ins]),
        lambda state: plan(state, desired),
        lambda action: apply(host, action),
        check_mode,
    )
