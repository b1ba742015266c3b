# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node of Slurm, taken out of service for work on it and put back: observe, plan, apply.

Only our own drain is ever taken back: its reason begins with ``gpu_node: rolling: ``.
"""

from __future__ import annotations

from .run import Done, DrainStands, run
from .types import Desired, Outcome

__all__ = ["Desired", "Done", "DrainStands", "Outcome", "run"]
