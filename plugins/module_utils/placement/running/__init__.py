# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running application: where its threads run, where they may run, which GPUs it uses, and what is wrong with that.

Front ends use :func:`choose`, :func:`observe` and :func:`judge`; a finding is a sentence about some processes or GPUs.
"""

from __future__ import annotations

from .choose import choose
from .judge import judge
from .observe import observe
from .types import Finding, GpuUse, Process, State, Thread

__all__ = ["Finding", "GpuUse", "Process", "State", "Thread", "choose", "judge", "observe"]
