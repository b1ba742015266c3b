# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The known name that a misspelt one resembles. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import nearest


def _nearest(word: Any, known: Sequence[Any]) -> str:
    return nearest.nearest(str(word), [str(one) for one in known])


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"nearest": _nearest}
