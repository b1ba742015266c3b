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
SETTINGS = "the settings of this node"


def merged(
    defaults: Mapping[str, Threshold], profile: Mapping[str, Any], settings: Mapping[str, Any]
) -> Dict[str, Threshold]:
    """The limits that hold on a node: those of ``settings`` over those of its profile over the defaults.

    ``profile`` and ``settings`` have a mapping ``thresholds`` in the form that ``profile.schema`` checks.
    """
    answer = dict(defaults)
    for source, content in ((PROFILE, profile), (SETTINGS, settings)):
        for name, given in content.get("thresholds", {}).items():
            answer[name] = Threshold(given["better"], given.get("warn"), given.get("fail"), source)
    return answer
