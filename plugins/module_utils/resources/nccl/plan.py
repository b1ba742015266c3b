# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ...core import declaration, managed_files
from ...core.managed_files import MakeFolder, RemoveFile, Seen, Wanted
from ...core.resource import Action, Plan, Refusal
from ...core.systemd.timer import touched
from ...core.systemd.units import ReloadSystemd
from . import sysctl, texts, topology_file
from .notes import notes, wants_peermem
from .options import Desired
from .types import (
    ASIDE,
    CONF,
    LIMITS,
    MODULES,
    PATHS,
    PROFILE,
    SECTION,
    SLURMD,
    SYSCTL,
    TOPOLOGY,
    KeepAside,
    PutBack,
    State,
)


def plan(state: State, desired: Desired) -> Plan:
    if not desired.present:
        return _absent(state)
    path, text, told = topology_file.topology(state, desired)
    wanted = _wanted(state, desired, path, text)
    refusals = topology_file.refusals(state, desired) + _refusals(state, desired, wanted)
    if refusals:
        return Plan(refusals=tuple(refusals))
    return Plan(tuple(_actions(state, desired, wanted)), notes=tuple(told + notes(state, desired)))


def _wanted(state: State, desired: Desired, path: Optional[str], text: Optional[str]) -> List[Wanted]:
    """The topology file comes before the line that names it."""
    every = (
        (TOPOLOGY, text),
        (CONF, texts.conf(desired, path)),
        (PROFILE, texts.environment(desired.variables)),
        (LIMITS, texts.limits(desired.limits)),
        (SLURMD, texts.slurmd(desired.limits) if desired.slurmd_limits and state.slurmd.installed else None),
        (SYSCTL, texts.sysctl(sysctl.in_file(state, desired.sysctl))),
        (MODULES, texts.modules() if wants_peermem(state, desired) and state.peermem.installed else None),
    )
    return [Wanted(one, content) for one, content in every if content is not None]


def _has_conf(wanted: List[Wanted]) -> bool:
    return any(one.path == CONF for one in wanted)


def _refusals(state: State, desired: Desired, wanted: List[Wanted]) -> List[Refusal]:
    others = [one for one in wanted if one.path != CONF]
    found = list(managed_files.refusals(state.files, others, "move it away, or switch this part off"))
    seen = state.files.seen(CONF)
    if not _has_conf(wanted) or not seen.foreign:
        return found
    if seen.kind == "other":
        found.append(Refusal(CONF, "it is there and is no file", "move it away"))
    elif not desired.replace_foreign:
        reason = "it is there and is not ours (an image or a person wrote it)"
        remedy = "set replace_foreign (nccl_replace_foreign), which keeps it as {0}, or move it away".format(ASIDE)
        found.append(Refusal(CONF, reason, remedy))
    elif state.aside and not _kept_already(state, seen):
        reason = "it is not ours, and {0} holds another one already".format(ASIDE)
        found.append(Refusal(CONF, reason, "look at both and move one of them away"))
    return found


def _kept_already(state: State, seen: Seen) -> bool:
    """Whether nothing is lost when this file of somebody else's goes: it says nothing, or the kept one says the same.

    Azure's images empty and rewrite /etc/nccl.conf at each boot, through our file.
    """
    return seen.kind == "file" and (not seen.text.strip() or seen.text == state.aside_text)


def _actions(state: State, desired: Desired, wanted: List[Wanted]) -> List[Action]:
    """What is to be undone later is declared before it is done, and forgotten only when it is undone."""
    keeps = _has_conf(wanted) and state.files.seen(CONF).foreign and not state.aside
    section = _section(state, desired, wanted, keeps)
    steps: List[Action] = [KeepAside(CONF, ASIDE)] if keeps else []
    steps += managed_files.write(state.files, wanted)
    if not _has_conf(wanted):
        steps += _put_back(state, steps)
    undone = sysctl.restore(state, list(desired.sysctl))
    steps += _reload(state, steps) + undone + sysctl.changes(state, desired.sysctl)
    during = dict(section)
    if undone:
        during["sysctl"] = dict(sysctl.remembered(state.declared), **section.get("sysctl", {}))
    if any(isinstance(one, PutBack) for one in steps):
        during["kept_aside"] = ASIDE
    declared = {SECTION: dict(state.declared)} if state.declared else {}
    first = declaration.plan(declared, SECTION, during)
    last = declaration.plan({SECTION: during}, SECTION, section)
    return [one for one in (first, *steps, last) if one is not None]


def _section(state: State, desired: Desired, wanted: List[Wanted], keeps: bool) -> Dict[str, Any]:
    content: Dict[str, Any] = managed_files.remembered(state.files, [one.path for one in wanted])
    # Most parts can be switched off, so a folder that is missing is not always made.
    made = [one.path for one in managed_files.write(state.files, wanted) if isinstance(one, MakeFolder)]
    content["made_folders"] = list(dict.fromkeys([*state.files.made_folders, *made]))
    if keeps or (_has_conf(wanted) and _ours_aside(state)):
        content["kept_aside"] = ASIDE
    kept = sysctl.remember(state, desired.sysctl)
    if kept:
        content["sysctl"] = kept
    return content


def _ours_aside(state: State) -> bool:
    """Whether it was we who put a file there."""
    return state.aside and state.declared.get("kept_aside") == ASIDE


def _put_back(state: State, steps: List[Action]) -> List[Action]:
    """The file that was there before us returns once ours is gone."""
    gone = state.files.seen(CONF).kind == "missing" or RemoveFile(CONF) in steps
    return [PutBack(CONF, ASIDE)] if gone and _ours_aside(state) else []


def _reload(state: State, steps: List[Action]) -> List[Action]:
    return [ReloadSystemd()] if touched(steps, (SLURMD,)) or state.slurmd.stale else []


def _absent(state: State) -> Plan:
    steps = managed_files.remove(state.files, PATHS)
    steps += _put_back(state, steps)
    steps += _reload(state, steps) + sysctl.restore(state)
    if state.declared:
        steps.append(declaration.Declare(SECTION, None))
    return Plan(tuple(steps), notes=managed_files.foreign_notes(state.files, PATHS))
