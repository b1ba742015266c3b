# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine of this type must look like: choose its profile, compare, and declare the choice on the node.

Front ends use :func:`run`. The profiles themselves are data, handed in by the caller; ``schema`` checks them.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Dict, Mapping, Optional, Tuple

from ...core import declaration
from ...core.host import Host
from ...core.resource import Action, NodeError, Outcome, Plan, converge
from ...facts import sysfs, topology
from ...facts.nvml import pci
from ...facts.nvml.session import CALL_TIMEOUT_SECONDS
from ...facts.profile import cloud, schema
from ...facts.profile.choose import check_name, choose
from ...facts.profile.compare import compare, is_local
from ...facts.profile.types import AUTO, SECTION, UNKNOWN, Choice, Difference, Evidence, Metadata, Profile
from .manage import Facts, Management, Wish, decide
from .types import State, Verdict

__all__ = [
    "AUTO",
    "SECTION",
    "UNKNOWN",
    "Choice",
    "Desired",
    "Difference",
    "Evidence",
    "Facts",
    "Management",
    "Metadata",
    "State",
    "Verdict",
    "Wish",
    "choose",
    "compare",
    "decide",
    "diff",
    "judge",
    "observe",
    "plan",
    "run",
]


@dataclasses.dataclass(frozen=True)
class Desired:
    """What is wanted. ``declare`` false leaves the node's declaration as it is; ``present`` false takes ours out.

    ``scratch_models``: patterns of disks that are scratch material, whatever the profile says.
    """

    present: bool = True
    name: str = AUTO
    profiles: Mapping[str, Profile] = dataclasses.field(default_factory=dict)
    declare: bool = True
    metadata: str = AUTO
    metadata_url: str = cloud.URL
    metadata_timeout_seconds: float = cloud.TIMEOUT_SECONDS
    ask_nvml: bool = True
    wish: Wish = Wish()
    scratch_models: Tuple[str, ...] = ()
    call_timeout_seconds: float = CALL_TIMEOUT_SECONDS

    def check(self) -> None:
        """:raises NodeError: when something of it cannot be: told before anything is looked at."""
        for name in sorted(self.profiles):
            for problem in schema.problems(self.profiles[name], name)[:1]:
                raise NodeError(
                    "profile {0!r}".format(name), problem, "correct its file (docs/profiles.md says what it may hold)"
                )
        if not 0 < self.metadata_timeout_seconds <= 60:
            raise NodeError(
                "metadata_timeout_seconds {0:g}".format(self.metadata_timeout_seconds),
                "it is out of range",
                "give more than 0 and at most 60",
            )
        if not 0 < self.call_timeout_seconds <= 600:
            raise NodeError(
                "call_timeout_seconds {0:g}".format(self.call_timeout_seconds),
                "it is out of range",
                "give more than 0 and at most 600",
            )
        if self.present:
            check_name(self.name, self.profiles)


def observe(host: Host, desired: Desired) -> State:
    """Look at the machine, and at what was declared for it."""
    sections = declaration.read(host)
    declared = sections.get(SECTION)
    if not desired.present:
        return State(None, declared)
    dmi = sysfs.dmi(host)
    # A profile named explicitly needs no cloud to choose it.
    mode = desired.metadata if desired.name == AUTO or desired.metadata == cloud.ALWAYS else cloud.NEVER
    metadata = cloud.read(mode, dmi, desired.metadata_url, desired.metadata_timeout_seconds)
    seen = topology.look(host, desired.ask_nvml, desired.call_timeout_seconds)
    return State(Evidence(tuple(sorted(dmi.items())), metadata, seen), declared, tuple(sorted(sections)))


def judge(state: State, desired: Desired) -> Optional[Verdict]:
    """The profile, and how the machine differs from it. Pure. None when nothing is wanted here."""
    if state.evidence is None:
        return None
    declared = str((state.declared or {}).get("name"))
    choice = choose(desired.name, desired.profiles, state.evidence, declared)
    management = decide(facts(state.evidence.topology, choice.name, state.sections, desired), desired.wish)
    if not choice.known:
        return Verdict(choice, {}, False, (), management)
    data = desired.profiles[choice.name]
    return Verdict(choice, data, True, compare(data, state.evidence.topology), management)


def facts(seen: topology.Topology, name: str, sections: Tuple[str, ...], desired: Desired) -> Facts:
    """What decides whether the machine is managed. Pure."""
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


def plan(state: State, desired: Desired) -> Plan:
    if desired.present and not desired.declare:
        return Plan()
    verdict = judge(state, desired)
    if verdict is not None and not verdict.management.roles:
        return Plan()  # nothing of ours on a machine that is left alone
    wanted = None if verdict is None else section(verdict)
    declared = {} if state.declared is None else {SECTION: state.declared}
    action = declaration.plan(declared, SECTION, wanted)
    return Plan(() if action is None else (action,))


def run(host: Host, desired: Desired, check_mode: bool = False) -> Tuple[Outcome[State], Optional[Verdict]]:
    """Choose, compare and declare. The machine is looked at once; the declaration is read again after writing.

    :raises NodeError: an unknown name, a profile that is not valid, a declaration that cannot be read or written.
    """
    desired.check()
    first = observe(host, desired)

    def look() -> State:
        return dataclasses.replace(first, declared=declaration.read(host).get(SECTION))

    def apply(action: Action) -> None:
        if isinstance(action, declaration.Declare):
            declaration.apply(host, action)

    outcome = converge(look, lambda state: plan(state, desired), apply, check_mode)
    return outcome, judge(outcome.after, desired)


def diff(outcome: Outcome[State]) -> Dict[str, str]:
    """The declared section before and after; in check mode the one that would be written."""
    after = outcome.after.declared
    for action in outcome.plan.actions:
        if isinstance(action, declaration.Declare):
            after = action.content
    return {"before": _text(outcome.before.declared), "after": _text(after)}


def _text(declared: Optional[Mapping[str, Any]]) -> str:
    return json.dumps({SECTION: declared}, indent=2, sort_keys=True) + "\n"
