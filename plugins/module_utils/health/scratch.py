# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the declared scratch may be, for the checks of it."""

from __future__ import annotations

from typing import Any, Mapping, Tuple

from ..core import mounts

SECTION = "nvme_scratch"
NOT_DECLARED = "no scratch was declared"


def places(declared: Mapping[str, Mapping[str, Any]]) -> Tuple[str, ...]:
    """Its own mount point, then those where an adopted one may stand; none where no scratch was declared."""
    return mounts.of_scratch(declared.get(SECTION))
