# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts in the results of tasks, why there is none, and the table; of the callback and of the play."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible import constants as C
from ansible.utils.display import Display

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import SCHEMA

from . import model, table

# The name of a verdict's form, without its version: what an older or newer node says is shown as far as it goes.
_FORM = SCHEMA.rpartition("/")[0] + "/"
_COLOURS = {
    "fail": C.COLOR_ERROR,
    "none": C.COLOR_UNREACHABLE,
    "unknown": C.COLOR_WARN,
    "warn": C.COLOR_CHANGED,
    "pass": C.COLOR_OK,
}


def verdict(content: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The last verdict in what a task returned."""
    found = None
    for one in [content, *model.mappings(content.get("results"))]:
        facts, health = one.get("ansible_facts"), one.get("health")
        for value in (
            one.get("verdict"),
            facts.get("health_check") if isinstance(facts, Mapping) else None,
            # The module node, which converges a whole node.
            health.get("verdict") if isinstance(health, Mapping) else None,
        ):
            if isinstance(value, Mapping) and str(value.get("schema")).startswith(_FORM):
                found = value
    return found


def unreached(content: Mapping[str, Any]) -> str:
    return "it was not reached ({0})".format(_words(content))


def failed(content: Mapping[str, Any]) -> str:
    return "the run failed on it before its verdict ({0})".format(_words(content))


def show(report: model.Report) -> None:
    display = Display()
    display.banner("NODE HEALTH")
    for outcome, line in table.rows(report):
        display.display(line, color=_COLOURS.get(outcome))


def _words(content: Mapping[str, Any]) -> str:
    # Ansible puts this before each error of a task since 2.19; here it tells nothing.
    return model.text(content.get("msg") or "without a word").removeprefix("Task failed: ").rstrip(".")
