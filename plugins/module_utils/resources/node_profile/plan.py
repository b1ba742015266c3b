# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the profile, compare, and decide what is declared; no I/O."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ...core import declaration
from ...core.resource import Plan, Refusal
from ...facts.nvml import pci
from ...facts.profile.choose import choose
from ...facts.profile.compare import compare, is_local
from ...facts.profile.types import SECTION
from ...facts.topology import Topology
from .manage import Facts, decide
from .options import Desired
from .types import State, Verdict


def plan(state: State, desired: Desired) -> Plan:
    verdict = judge(state, desired)
    notes = () if state.evidence is None else tuple(state.evidence.topology.notes)
    refusals = () if verdict is None else refused(verdict, desired)
    if refusals:
        return Plan(refusals=refusals, notes=notes)
    # Nothing of ours on a machine that is left alone.
    if desired.present and not (desired.declare and verdict is not None and verdict.management.roles):
        return Plan(notes=notes)
    declared = {} if state.declared is None else {SECTION: state.declared}
    action = declaration.plan(declared, SECTION, None if verdict is None else section(verdict))
    return Plan(() if action is None else (action,), notes=notes)


def refused(verdict: Verdict, desired: Desired) -> Tuple[Refusal, ...]:
    if not verdict.compared:
        known = Refusal("this machine", verdict.choice.reason, "name a profile, or write one (docs/profiles.md)")
        return (known,) if desired.require_known else ()
    serious = {"never": (), "fail": ("fail",), "warn": ("fail", "warn")}[desired.fail_on]
    return tuple(
        Refusal(
            one.subject,
            "the profile {0} has {1}, and the machine {2}".format(verdict.choice.name, one.expected, one.found),
            "repair the machine, or name another profile",
        )
        for one in verdict.differences
        if one.severity in serious
    )


def judge(state: State, desired: Desired) -> Optional[Verdict]:
    """The profile, and how the machine differs from it. None when nothing is wanted here."""
    if state.evidence is None:
        return None
    declared = str((state.declared or {}).get("name"))
    profiles = desired.every
    choice = choose(desired.name, profiles, state.evidence, declared)
    management = decide(facts(state.evidence.topology, choice.name, state.sections, desired), desired.wish)
    if not choice.known:
        return Verdict(choice, {}, False, (), management)
    data = profiles[choice.name]
    return Verdict(choice, data, True, compare(data, state.evidence.topology), management)


def facts(seen: Topology, name: str, sections: Tuple[str, ...], desired: Desired) -> Facts:
    """What decides whether the machine is managed."""
    scratch = [disk for disk in seen.nvme if is_local({"models": desired.scratch_models}, disk.model, None)]
    others = tuple("{0} ({1})".format(disk.model or "?", disk.name) for disk in seen.nvme if disk not in scratch)
    own = [gpu for gpu in seen.gpus if gpu.nvml or not pci.hands_over(gpu.driver)]
    given_away = len(seen.gpus) - len(own)
    # NVSwitches go to the guests with the GPUs.
    switches = 0 if given_away and not own else len(seen.nvswitches)
    return Facts(len(own), switches, name, len(scratch), others, sections, given_away)


def section(verdict: Verdict) -> Dict[str, Any]:
    """What the declaration keeps: the choice and the data that later checks at boot compare with.

    Neither differences nor reason nor source: they may change from run to run, and the declaration must not.
    """
    return {"name": verdict.choice.name, "data": dict(verdict.data)}
