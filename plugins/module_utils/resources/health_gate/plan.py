# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from ...core import declaration, folder_given, managed_files, mounts
from ...core.frozen import replaced
from ...core.managed_files import RemoveFile
from ...core.options import as_section, private
from ...core.resource import Action, Plan, Refusal
from ...core.systemd.units import ReloadSystemd
from ...health import overrules, silences
from ...health.gate import node_status
from ...health.gate.settings import SECTION, Settings
from .options import JOURNAL_FOLDER, Desired
from .types import UNIT, State

HEALTH = "health"

_DRAINED = (
    "this node is drained for its health, and nothing resumes it any more: "
    "run 'scontrol update NodeName=NAME State=UNDRAIN' when it is well"
)


def plan(state: State, desired: Desired) -> Plan:
    if not desired.present:
        return _absent(state, desired)
    wanted = desired.wanted(state.slurmd)
    refusals = managed_files.refusals(state.files, wanted, "move it away, or give another path")
    refusals += tuple(
        Refusal(path, "it is there and is not ours", "move it away, or give another path")
        for path in desired.outputs
        if state.files.seen(path).foreign
    )
    if state.timer.running:
        refusals += _folders(state)
    if refusals:
        return Plan(refusals=refusals)
    paths = [one.path for one in wanted] + list(desired.outputs)
    actions: List[Action] = _declare(state.declared, desired, managed_files.remembered(state.files, paths))
    if not desired.timer:
        actions += UNIT.stopped(state.timer)
    files = managed_files.write(state.files, wanted, keep=desired.outputs)
    actions += files
    if desired.timer:
        actions += UNIT.started(state.timer, UNIT.touched(files))
    elif state.timer.running and (state.timer.stale or UNIT.touched(files)):
        actions.append(ReloadSystemd())
    return Plan(tuple(actions), notes=tuple(_notes(state, desired)))


def _folders(state: State) -> Tuple[Refusal, ...]:
    """In an image they may be made later: what cannot be used is a note there."""
    scratch = mounts.of_scratch(state.declared.get("nvme_scratch"))
    found = (
        folder_given.refusal("{0}_{1}".format(SECTION, option), folder, option == JOURNAL_FOLDER, scratch)
        for option, folder in state.folders
    )
    return tuple(one for one in found if one is not None)


def _declare(declared: Mapping[str, Any], desired: Desired, remembered: Mapping[str, Any]) -> List[Action]:
    """Both sections; the gate's last, so that it never works by settings that are not there yet."""
    gate: Dict[str, Any] = dict(as_section(Settings, desired), **remembered)
    steps = (
        declaration.plan(declared, HEALTH, desired.health_section() or None),
        declaration.plan(declared, SECTION, gate, private(Desired)),
    )
    return [one for one in steps if one is not None]


def _notes(state: State, desired: Desired) -> List[str]:
    found = [one.to_dict() for one in desired.silences]
    known, dummy = silences.of_node({"silences": [dict(one, nodes=[]) for one in found]}, "")
    notes = list(silences.ended(known, state.now))
    for option, folder in state.folders:
        notes += folder_given.missing("{0}_{1}".format(SECTION, option), folder)
    notes += [] if state.timer.running else [str(one) for one in _folders(state)]
    notes += overrules.ended(
        {overrules.NAME: [dict(overrules.to_dict(one), nodes=[]) for one in desired.overrules]}, "", state.now
    )
    if state.slurmd and desired.program and not desired.by_timer and state.program != desired.program:
        where = state.slurm_conf or "slurm.conf"
        if state.slurm_conf is None:
            text = (
                "slurmd is installed, but this node has no slurm.conf in any of its usual places, so Slurm keeps no "
                "job away by a verdict: install it, or let slurmd fetch it, then converge the node again"
            )
        elif state.program is None:
            text = (
                "{0} has no HealthCheckProgram=, so Slurm does not check idle nodes: add the lines "
                "'HealthCheckProgram={1}', 'HealthCheckInterval=300' and 'HealthCheckNodeState=ANY,CYCLE', "
                "then run 'scontrol reconfigure'"
            )
        elif state.program in state.healthagent:
            text = (
                "{0} has CycleCloud's healthagent as HealthCheckProgram= ({2}); it drains and resumes with its own "
                "reason and leaves ours alone: let the timer drain and resume for us (health_gate_by_timer)"
            )
        else:
            text = (
                "{0} has another HealthCheckProgram= ({2}): let that one call {1}, "
                "or let the timer drain and resume (health_gate_by_timer)"
            )
        notes.append(text.format(where, desired.program, state.program))
    hooks = [path for path in state.healthagent if path != state.program]
    if hooks:
        text = (
            "CycleCloud's healthagent runs checks of its own at each job ({0}); what fails there is drained with "
            "Slurm's reason 'Prolog error' or 'Epilog error', which nothing of ours resumes: look at 'health -s', then "
            "resume that node yourself"
        )
        notes.append(text.format(", ".join(hooks)))
    return notes


def _absent(state: State, desired: Desired) -> Plan:
    """State files go, too: they tell of nothing that anybody still looks at."""
    more: List[Action] = []
    if state.left:
        more += [RemoveFile(path) for path in state.left]
        own = [node_status.FOLDER] if node_status.PATH in state.left else []
        more += [managed_files.RemoveFolder(path) for path in (*own, "/var/lib/gpu_node/health")]
    if HEALTH in state.declared:
        more.append(declaration.Declare(HEALTH, None))
    declared = state.declared.get(SECTION) or {}
    paths = [*([desired.program] if desired.program else []), *desired.outputs]
    found = UNIT.absent(state.files, declared, state.timer, more, paths)
    return replaced(found, notes=(*found.notes, _DRAINED)) if state.drained else found
