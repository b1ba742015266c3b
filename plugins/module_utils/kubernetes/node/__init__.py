# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node of Kubernetes, cordoned and without GPU pods for work on it, and put back: observe, plan, apply.

Only a cordon with our annotation is ever taken back.
"""

from __future__ import annotations

from .run import Done, DrainStands, evicted, run
from .types import Desired

__all__ = ["Desired", "Done", "DrainStands", "evicted", "run"]
