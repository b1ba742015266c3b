# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of measured figures where a profile names none, each with its source; those of a profile win.

The name of a figure ends with its unit. ``warn``: look at it. ``fail``: the node must not take a job.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping

from .types import Threshold

PROFILE = "the profile of this machine"


def thresholds(defaults: Mapping[str, Threshold], profile: Mapping[str, Any]) -> Dict[str, Threshold]:
    """The limits that hold on a node. ``profile`` is the content of a profile, checked by ``profile.schema``."""
    answer = dict(defaults)
    for name, given in profile.get("thresholds", {}).items():
        answer[name] = Threshold(given["better"], given.get("warn"), given.get("fail"), PROFILE)
    return answer
