# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For programs: the whole verdict, as docs/verdict.schema.json has it."""

from __future__ import annotations

import json
from typing import Any, Dict

from ...core.frozen import plain
from ..types import SCHEMA, Verdict


def document(verdict: Verdict) -> Dict[str, Any]:
    return dict(plain(verdict), schema=SCHEMA)


def render(verdict: Verdict) -> str:
    return json.dumps(document(verdict), indent=2, sort_keys=True, allow_nan=False) + "\n"
