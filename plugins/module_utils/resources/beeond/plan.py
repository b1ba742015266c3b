# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from ...core import declaration, managed_files
from ...core.managed_files import MARKER, MakeFolder, Wanted
from ...core.options import as_section
from ...core.resource import Action, Plan, Refusal
from ...slurm.beeond import rules
from ...slurm.types import LONGEST_SECONDS
from .options import Desired
from .types import AUTH, PATHS, SECTION, BuildClient, RemoveAuth, State, WriteAuth

_DOCS = "see docs/beeond.md"


def wanted() -> Tuple[Wanted, ...]:
    text = MARKER + " See docs/beeond.md.\nconnAuthFile = {0}\n".format(AUTH)
    return tuple(Wanted(path, text) for path in PATHS)


def plan(state: State, desired: Desired) -> Plan:
    if not desired.present:
        return _absent(state)
    if not state.slurm:
        return Plan(skipped="Slurm is not installed on this node")
    refusals = managed_files.refusals(state.files, wanted(), "move it away") + _refusals(state, desired)
    if refusals:
        return Plan(refusals=refusals)
    actions: List[Action] = []
    declare = declaration.plan({SECTION: state.declared}, SECTION, _section(state, desired))
    if declare is not None:
        actions.append(declare)
    if not state.point_there:
        actions.append(MakeFolder(desired.mount_point))
    actions += managed_files.write(state.files, wanted())
    if state.auth != "same":
        actions.append(WriteAuth())
    if _build(state):
        actions.append(BuildClient(state.kernel, state.ofed))
    return Plan(tuple(actions), notes=tuple(_notes(state, desired)))


def _build(state: State) -> bool:
    """Once for each kernel, and anew for another OFED and when the package asks for it."""
    return state.forced or not state.module or dict(state.built) != dict(state.wanted)


def _refusals(state: State, desired: Desired) -> Tuple[Refusal, ...]:
    found: List[Refusal] = []
    if state.missing:
        remedy = "install it from the repository of BeeGFS 7, " + _DOCS
        found.append(Refusal("package " + " and ".join(state.missing), "it is not installed", remedy))
    elif rules.release_wrong(state.release):
        remedy = "install beeond and beegfs-client of BeeGFS {0}, {1}".format(rules.RELEASE, _DOCS)
        found.append(Refusal("package beegfs-client", rules.release_wrong(state.release), remedy))
    elif _build(state) and not state.headers:
        reason = "its headers are not installed, so the client of BeeGFS cannot be built"
        found.append(Refusal("kernel " + state.kernel, reason, "install the kernel headers of this version"))
    if state.point_wrong:
        remedy = "give beeond_mount_point another folder, or have root alone write to this one"
        found.append(Refusal("beeond_mount_point " + desired.mount_point, state.point_wrong, remedy))
    if state.auth == "missing" and not desired.auth_secret:
        reason = "it is empty, and BeeGFS does not start without a key"
        found.append(Refusal("option auth_secret", reason, "give it from a vault, the same on all nodes"))
    if state.jobs and state.declared and state.declared.get("mount_point") != desired.mount_point:
        reason = "job {0} has a shared scratch below the former one".format(state.jobs[0])
        found.append(Refusal("beeond_mount_point " + desired.mount_point, reason, "wait until it is over"))
    return tuple(found)


def _section(state: State, desired: Desired) -> Dict[str, Any]:
    content: Dict[str, Any] = as_section(rules.Settings, desired)
    content.update(managed_files.remembered(state.files, PATHS))
    made = content["made_folders"]
    if not state.point_there and desired.mount_point not in made:
        made.append(desired.mount_point)
    if state.built:
        content["built"] = dict(state.built)
    return content


def _notes(state: State, desired: Desired) -> List[str]:
    notes = []
    longest = LONGEST_SECONDS + int(rules.longest_seconds(desired))
    if state.timeout_seconds and state.timeout_seconds <= longest:
        text = "PrologEpilogTimeout of slurm.conf is {0} s, and a prolog that starts a shared scratch may take {1} s"
        notes.append(text.format(state.timeout_seconds, longest))
    if not state.hooks:
        notes.append("the prolog and epilog of slurm_hooks are not declared here, and they start and stop it")
    return notes


def _absent(state: State) -> Plan:
    if state.jobs:
        reason = "job {0} has one on this node, or has left something of it".format(state.jobs[0])
        return Plan(refusals=(Refusal("shared scratch", reason, "wait until it is over, " + _DOCS),))
    if not state.declared and not any(state.files.seen(path).ours for path in PATHS):
        return Plan(notes=managed_files.foreign_notes(state.files, PATHS))
    actions: List[Action] = [] if state.auth == "missing" else [RemoveAuth()]
    actions += managed_files.remove(state.files, PATHS)
    if state.declared:
        actions.append(declaration.Declare(SECTION, None))
    return Plan(tuple(actions), notes=managed_files.foreign_notes(state.files, PATHS))
