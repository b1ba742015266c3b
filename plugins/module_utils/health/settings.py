# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of single checks in section ``health`` of the declaration.

A check on a node tells a setting that cannot be used as a finding of its own. :func:`check` refuses it before it gets
there. What holds for all checks (silences, thresholds, without) is not among them.
"""

from __future__ import annotations

from typing import Any, Mapping

from ..core.resource import NodeError
from .data.setting_names import NUMBERS, OTHERS


def number(settings: Mapping[str, Any], name: str) -> float:
    """One of :data:`NUMBERS`.

    :raises NodeError: it is none, or out of its bounds.
    """
    default, least, most = NUMBERS[name]
    value = settings.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        remedy = "give a number from {0:g} to {1:g}, or take it out for {2:g}".format(least, most, default)
        raise NodeError("setting {0} of section health".format(name), "{0!r} will not do".format(value), remedy)
    return float(value)


def check(settings: Mapping[str, Any]) -> None:
    """:raises NodeError: one of them is unknown, or no check could use it."""
    # Not at the top: these are for the one who declares, and not for each check.
    from .checks import gpu_acknowledged, ib_partition_keys
    from .data.tools import TOOLS

    for name in settings:
        if name not in (*NUMBERS, *OTHERS):
            known = ", ".join((*OTHERS, *NUMBERS))
            raise NodeError("setting " + name, "no check has a setting of this name", "choose among " + known)
        if name in NUMBERS:
            number(settings, name)
    for finding in gpu_acknowledged.acknowledged(settings)[1] + ib_partition_keys.wanted(settings)[1]:
        raise NodeError(finding.thing, finding.reason, finding.remedy)
    paths = {"hpl_output": settings.get("hpl_output", "/")}
    for name, path in settings.get("tools", {}).items():
        if name not in TOOLS:
            remedy = "choose among " + ", ".join(TOOLS)
            raise NodeError("setting tools." + name, "no check uses a tool of this name", remedy)
        paths["tools." + name] = path
    for name, path in paths.items():
        if not isinstance(path, str) or not path.startswith("/"):
            raise NodeError("setting " + name, "{0!r} is no whole path".format(path), "begin it with a slash")
