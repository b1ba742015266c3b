# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of the GPUs of a node: persistence mode, clocks, power limit, ECC, compute mode.

Front ends use these:

- ``Desired.from_options(options)`` checks the options of the module (or a section of the declaration) and
  raises a ``NodeError`` of one sentence; ``desired.to_dict()`` is what is declared in /etc/gpu_node/node.json.
- ``run(host, desired, check_mode)`` brings the node to it and gives an ``Outcome``. It raises ``Refused`` when
  the plan refuses, and ``Unfinished`` (with ``.outcome``) when a GPU did not answer after the others were set.
- ``converge_declared(host, check_mode)`` does so with the declared section; None when there is none.
- ``details(outcome, desired)`` and ``diff_text(state)`` are what results show.

How the clocks are held: locked clocks where the GPU has them (graphics since Volta, memory since Ampere),
application clocks otherwise. The driver cannot tell which locks are on, so /var/lib/gpu_node/gpu_settings.json
remembers them. What it says counts only while

- the boot and the load of the driver are the same (boot id, inode of /sys/module/nvidia, driver version),
- persistence mode, if it was on then, is still on, and
- the clock readings do not contradict it (above the lock; or below it without a reason, where the lock did
  show in the readings when it was set).
"""

from __future__ import annotations

from ...core.resource import Outcome, Refused
from .desired import Desired
from .run import Unfinished, converge_declared, details, diff_text, run
from .types import State

__all__ = ["Desired", "Outcome", "Refused", "State", "Unfinished", "converge_declared", "details", "diff_text", "run"]
