# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from ...checkpoints.settings import SECTION, Settings
from ...core import declaration, managed_files, node_packages
from ...core.frozen import replaced
from ...core.node_packages.distribution import InstallDistribution
from ...core.node_packages.types import DPKG
from ...core.options import as_section
from ...core.resource import Action, NodeError, Plan, Refusal, sentence
from . import texts
from .options import Desired
from .types import ENV_FILE, PROGRAM, FetchProgram, InstallProgram, RemoveProgram, State

_LIBRARY = "libsecret"


def plan(state: State, desired: Desired) -> Plan:
    if not desired.present:
        return _gone(state)
    try:
        text = texts.environment(desired, state.work, state.cores)
    except NodeError as error:
        return Plan(refusals=(Refusal(error.thing, error.reason, error.remedy),))
    packages = desired.packages_for(state.machine)
    wanted = (managed_files.Wanted(ENV_FILE, text),)
    refusals = managed_files.refusals(state.files, wanted, "move it away")
    refusals += node_packages.refusals(state.packages, packages)
    if desired.archive is not None and state.installed is not None and not state.ours:
        reason = "it is there and is not ours"
        refusals += (Refusal(PROGRAM, reason, "move it away, or leave source out, and it is used"),)
    if refusals:
        return Plan(refusals=refusals)
    there = (state.record.get("source"), state.record.get("program"))
    missing = desired.archive is not None and there != (desired.sha256, state.installed)
    actions: List[Action] = list(node_packages.fetch(state.packages, packages))
    if desired.archive is not None and missing:
        actions.append(FetchProgram(desired.archive))
    actions += _declare(state, desired)
    # Before what the node is looked at again for.
    actions += managed_files.write(state.files, wanted)
    actions += node_packages.install(state.packages, packages)
    if missing:
        actions.append(InstallProgram(PROGRAM, desired.sha256))
    elif desired.distribution and not state.program:
        actions.append(InstallDistribution(("azcopy",)))
    elif desired.archive is not None and _LIBRARY in state.fault:
        # A package brings what it needs; a file does not.
        name = "libsecret-1-0" if state.packages.manager == DPKG else "libsecret"
        actions.append(InstallDistribution((name,)))
    return Plan(tuple(actions), notes=_notes(state, desired, actions))


def _declare(state: State, desired: Desired) -> List[Action]:
    content: Dict[str, Any] = as_section(Settings, desired)
    content.update(managed_files.remembered(state.files, [ENV_FILE]))
    content.update(node_packages.remembered(state.packages, desired.packages_for(state.machine)))
    if state.record:
        content["azcopy"] = dict(state.record)
    step = declaration.plan({SECTION: state.declared}, SECTION, content)
    return [] if step is None else [step]


def _notes(state: State, desired: Desired, actions: List[Action]) -> Tuple[str, ...]:
    if any(isinstance(one, (InstallProgram, InstallDistribution, node_packages.InstallPackages)) for one in actions):
        return ()
    if not state.program:
        remedy = "give checkpoint_packages, checkpoint_source or checkpoint_distribution"
        return (sentence("azcopy", "this node has none, so nothing can be copied", remedy),)
    if state.fault:
        return (sentence(state.program, state.fault, "repair or install azcopy anew"),)
    return ()


def _gone(state: State) -> Plan:
    files = managed_files.remove(state.files, (ENV_FILE,) if state.declared else ())
    actions: List[Action] = list(files)
    notes: Tuple[str, ...] = ()
    if state.ours:
        actions.append(RemoveProgram(PROGRAM))
    elif state.record and state.installed is not None:
        notes = ("{0} stays: somebody replaced what was installed here".format(PROGRAM),)
    actions += node_packages.remove(state.packages)
    if state.declared:
        actions.append(declaration.Declare(SECTION, None))
    notes += managed_files.foreign_notes(state.files, (ENV_FILE,) if state.declared else ())
    return Plan(tuple(actions), notes=notes + node_packages.kept_notes(state.packages))


def after(state: State, actions: Tuple[Action, ...]) -> State:
    """What will be found when these steps were taken; for diff mode and for tests of the planner."""
    declared, program, installed = dict(state.declared), state.program, state.installed
    for action in actions:
        if isinstance(action, declaration.Declare):
            declared = dict(action.content or {})
        elif isinstance(action, InstallProgram):
            program, installed = action.path, "of " + action.sha256
            declared["azcopy"] = {"source": action.sha256, "program": installed, "former": state.installed or ""}
        elif isinstance(action, RemoveProgram):
            program, installed = "", None
        elif isinstance(action, InstallDistribution):
            program = program or "/usr/bin/azcopy"
    return replaced(
        state,
        files=managed_files.after(state.files, actions),
        packages=node_packages.after(state.packages, actions),
        declared=declared,
        program=program,
        installed=installed,
        fault="" if actions else state.fault,
    )
