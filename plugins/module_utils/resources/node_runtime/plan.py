# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import List

from ...core.resource import Action, Plan, Refusal
from ...facts.nvml.binding import RUNTIME
from .types import (
    COMMAND,
    Desired,
    InstallZipapp,
    LinkCommand,
    RemoveCommand,
    RemovePages,
    RemoveZipapp,
    State,
    WritePages,
)

MODE = 0o755


def plan(state: State, desired: Desired) -> Plan:
    ours = state.command == RUNTIME
    if desired.sha256 is None:
        removals: List[Action] = []
        if ours:
            removals.append(RemoveCommand())
        if state.our_pages:
            removals.append(RemovePages(state.our_pages))
        if state.mode is not None or (state.folder_exists and state.folder_empty_otherwise):
            removals.append(RemoveZipapp())
        return Plan(tuple(removals))
    if state.command is not None and not ours:
        return Plan(
            refusals=(
                Refusal(
                    COMMAND,
                    "it exists and is not our link ({0})".format(state.command),
                    "move it away, then run again",
                ),
            )
        )
    actions: List[Action] = []
    if state.sha256 != desired.sha256 or state.mode != MODE or state.fault:
        actions.append(InstallZipapp(desired.sha256))
    if actions or state.stale_pages:
        actions.append(WritePages())
    if not ours:
        actions.append(LinkCommand())
    return Plan(tuple(actions))
