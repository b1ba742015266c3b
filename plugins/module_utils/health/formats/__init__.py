# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict as other programs want it: one module a format, each with a pure ``render(verdict) -> str``.

Formats that a program reads by its exit status have ``exit_status(verdict)`` too; :data:`EXIT_STATUS` is that of
``gpunode health`` itself.
"""

from __future__ import annotations

from typing import Mapping

from ..types import Outcome, Verdict

NAMES = ("text", "json", "nagios", "npd", "prometheus", "nfd", "azure")
# Those whose programs give each exit status a meaning of their own.
OF_PROGRAMS = ("nagios", "npd")
# As command.exit_status has them for all commands of gpunode; 2 is wrong use.
EXIT_STATUS: Mapping[Outcome, int] = {Outcome.PASS: 0, Outcome.FAIL: 1, Outcome.WARN: 3, Outcome.UNKNOWN: 4}


def render(name: str, verdict: Verdict) -> str:
    """The verdict in the format of this name, with its defaults. Only that format is loaded.

    :raises ValueError: there is no such format.
    """
    if name == "text":
        from . import text

        return text.render(verdict)
    if name == "json":
        from . import json

        return json.render(verdict)
    if name == "nagios":
        from . import nagios

        return nagios.render(verdict)
    if name == "npd":
        from . import npd

        return npd.render(verdict)
    if name == "prometheus":
        from . import prometheus

        return prometheus.render(verdict)
    if name == "nfd":
        from . import nfd

        return nfd.render(verdict)
    if name == "azure":
        from . import azure

        return azure.render(verdict)
    raise ValueError("no format {0}".format(name))


def exit_status(name: str, verdict: Verdict) -> int:
    """What a program ends with that printed this format."""
    if name == "nagios":
        from . import nagios

        return nagios.exit_status(verdict)
    if name == "npd":
        from . import npd

        return npd.exit_status(verdict)
    return EXIT_STATUS[verdict.outcome]
