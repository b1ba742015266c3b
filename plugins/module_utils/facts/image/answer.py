# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole answer on an image, for who asks for it: :func:`look`, :func:`judge`, :func:`versions`, as JSON."""

from __future__ import annotations

from typing import Any, Dict, Tuple

from ...core.frozen import plain
from .look import look
from .problem import Problem
from .rules import RULES, judge
from .software import versions
from .types import Image

__all__ = ["RULES", "SCHEMA", "Image", "Problem", "judge", "look", "to_dict", "versions"]

SCHEMA = "trainyard.gpu_node/image/1"


def to_dict(image: Image, problems: Tuple[Problem, ...]) -> Dict[str, Any]:
    """The answer as JSON has it, see docs/image.md."""
    facts = plain(image)
    facts["driver"]["version"] = image.driver.version
    del facts["notes"]
    return {
        "schema": SCHEMA,
        "versions": versions(image),
        "facts": facts,
        "problems": [dict(plain(one), message=str(one)) for one in problems],
        "notes": list(image.notes),
    }
