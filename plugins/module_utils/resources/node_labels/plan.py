# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import Tuple

from ...core import folder_given
from ...core.frozen import replaced
from ...core.managed_files import RemoveFile
from ...core.resource import Plan, Refusal
from ...metrics.labels.settings import FOLDER
from . import texts
from .options import Desired
from .types import SECTION, UNIT, State

_NOBODY = (
    "nobody would read the labels: there is no folder {0} of Node Feature Discovery (install it in the cluster, or "
    "give node_labels_file)".format(FOLDER)
)


def plan(state: State, desired: Desired) -> Plan:
    if not desired.present:
        return _gone(state)
    if not state.file:
        gone = _gone(state)
        if gone.actions or gone.notes:
            return Plan(gone.actions, notes=(*gone.notes, _NOBODY))
        return Plan(skipped=_NOBODY)
    wanted = texts.wanted(state.file, desired)
    more = [RemoveFile(one) for one in state.left if one != state.file]
    section = {"file": state.file}
    found = UNIT.present(state.files, state.declared, state.timer, wanted, section, _refusals(state, desired), more)
    missing = () if state.folder is None else folder_given.missing(SECTION + "_file", state.folder)
    return found if found.refusals else replaced(found, notes=missing)


def _refusals(state: State, desired: Desired) -> Tuple[Refusal, ...]:
    found: Tuple[Refusal, ...] = ()
    if state.file == state.gate:
        reason = "the labels of the health gate go there (health_gate_labels_file)"
        found += (Refusal(state.file, reason, "give node_labels_file another path"),)
    elif state.foreign:
        found += (Refusal(state.file, "it is there and is not ours", "move it away, or give another path"),)
    if desired.gfd and state.gfd:
        reason = "GPU feature discovery has its file there and writes the labels nvidia.com/* itself"
        found += (
            Refusal(state.gfd, reason, "set node_labels_gfd to false, or remove GPU feature discovery and its file"),
        )
    return found


def _gone(state: State) -> Plan:
    """Nothing of it is wanted, or nobody reads it. The labels go with their file, at the next look of its reader."""
    return UNIT.absent(state.files, state.declared, state.timer, [RemoveFile(path) for path in state.left])
