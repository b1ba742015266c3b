# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node command on a node: the zipapp under /opt/gpu_node and its link in /usr/local/bin.

Front ends use :func:`run`.
"""

from __future__ import annotations

from typing import Optional

from ...core.host import Host
from ...core.resource import Outcome
from ...core.run import converge
from .apply import apply
from .bytecode import identity
from .observe import observe
from .plan import plan
from .types import Desired, State

__all__ = ["Desired", "State", "identity", "observe", "run"]


def run(host: Host, desired: Desired, source: Optional[str] = None, check_mode: bool = False) -> Outcome[State]:
    """Bring the node command to the wanted content; ``source`` is the zipapp on this machine to copy from. Without it,
    an installed file that does not start is rebuilt from itself."""
    return converge(
        lambda: observe(host), lambda state: plan(state, desired), lambda a: apply(host, a, source), check_mode
    )
