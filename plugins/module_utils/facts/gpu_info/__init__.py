# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that NVML tells about every GPU of a machine, read only.

``gather(Options())`` returns an :class:`Information`; ``Options.from_mapping`` checks what a user wrote.
The readings are in groups (``GROUPS``); what a GPU, driver or binding does not tell is None, and ``absent`` says
why. A GPU that is lost or hangs keeps the groups that were read before, and has a ``fault``.
"""

from __future__ import annotations

from .gather import GROUPS, Options, gather
from .types import GpuInformation, Information

__all__ = ["GROUPS", "GpuInformation", "Information", "Options", "gather"]
