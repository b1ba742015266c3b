# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of the objects that the API answers with, whatever their form. Pure."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

NVIDIA = "nvidia.com/"


def mapping(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def texts(value: Any) -> Dict[str, str]:
    return {str(key): str(one) for key, one in mapping(value).items()}


def numbers(value: Any) -> Dict[str, int]:
    """Counts of NVIDIA's resources, which are whole numbers."""
    found = texts(value)
    return {
        name: int(text) for name, text in found.items() if name.startswith(NVIDIA) and re.fullmatch("[0-9]{1,9}", text)
    }


def taint(raw: Mapping[str, Any]) -> str:
    """As kubectl writes it."""
    value: Optional[str] = raw.get("value")
    return "{0}{1}:{2}".format(raw.get("key"), "={0}".format(value) if value else "", raw.get("effect"))


def some(names: Sequence[str], most: int = 5) -> str:
    """So many names for one sentence."""
    named: List[str] = list(names[:most])
    more = len(names) - len(named)
    return ", ".join(named) + (" and {0} more".format(more) if more > 0 else "")
