# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from ...core import declaration, managed_files
from ...core.resource import Action, Plan, Refusal
from ...facts.topology import Topology
from ...placement import Refused
from . import launch
from .options import Desired
from .scripts import GPU_NAMES, NAMES, render
from .types import SECTION, State


def plan(state: State, desired: Desired) -> Plan:
    paths = ["{0}/{1}".format(desired.folder, name) for name in NAMES]
    if not desired.present or state.topology is None:
        return _absent(state, paths)
    told, gpus = _gpus(state, state.topology)
    try:
        wanted = render(state.topology, desired, state.profile, gpus if told is None else 0, state.scratch)
    except Refused as error:
        return Plan(refusals=(Refusal(error.thing, error.reason, error.remedy),))
    refusals = managed_files.refusals(state.files, wanted, "move it away, or give another folder")
    if refusals:
        return Plan(refusals=refusals)
    # What cannot be told today is no reason to take scripts away that were right yesterday.
    former = set(state.files.former)
    names = ["{0}/{1}".format(desired.folder, name) for name in GPU_NAMES]
    keep = [path for path in names if path in former and state.files.seen(path).ours] if told and gpus else []
    files = managed_files.write(state.files, wanted, keep=keep)
    content = managed_files.remembered(state.files, [one.path for one in wanted] + keep)
    declared = {SECTION: dict(state.declared)} if state.declared else {}
    declare = declaration.plan(declared, SECTION, content)
    actions: List[Action] = [] if declare is None else [declare]
    return Plan(tuple(actions + files), notes=(told,) if told else ())


def _gpus(state: State, topology: Topology) -> Tuple[Optional[str], int]:
    """(why there are no scripts for GPUs now, how many GPUs there are or should be)."""
    data: Dict[str, Any] = state.profile.get("data") or {}
    gpus = data.get("gpus")
    expected = gpus.get("count") if isinstance(gpus, dict) else None
    expected = expected if isinstance(expected, int) else 0
    seen = launch.gpus(topology)
    faults = ["GPU {0}: {1}".format(gpu.name, gpu.fault.rstrip(".")) for gpu in topology.gpus if gpu.fault]
    left = "the scripts of GPU jobs are left as they are; run it on a healthy node of this type"
    if faults:
        return "{0}, so {1}".format(faults[0], left), seen
    if seen < expected:
        return "{0} of the {1} GPUs of the profile are there, so {2}".format(seen, expected, left), expected
    if not seen:
        return (
            "this machine has no GPU, so only the scripts of MPI are here; run it on a node with GPUs for the others",
            0,
        )
    return None, seen


def _absent(state: State, paths: List[str]) -> Plan:
    actions = managed_files.remove(state.files, paths)
    if state.declared:
        actions.append(declaration.Declare(SECTION, None))
    return Plan(tuple(actions), notes=managed_files.foreign_notes(state.files, paths))
