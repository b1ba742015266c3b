# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found of an image."""

from __future__ import annotations

from typing import Optional

from ...core.frozen import frozen
from ...facts.image.types import Image

NAME = "image"


@frozen
class State:
    """``image`` is None where nothing was asked of it, and so nothing was read."""

    image: Optional[Image]
