# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which remedy is tried on this node now, with all its steps, or why none is. Pure.

Only on a node that the gate drained for its health, that has no job, and of which all is known. What a person took out
of service is left to them, and so is everything once the breaker is latched.

A finding names the least that may help (:class:`..types.Remedy`). That is tried first, if it is on; the next stronger
one that is on follows once it was tried often enough and the part fails still. Nothing is taken for helping: whether
the node comes back is for the gate's verdicts to say.
"""

from __future__ import annotations

from typing import Mapping, Optional, Sequence, Tuple, Union

from ...core.frozen import frozen
from ...core.resource import Action
from ...slurm import drain, states
from ...slurm.breaker import most
from ...slurm.slurmd import IDLE
from ..attempts import DAY_SECONDS, RELEASE, RESET_GPU, WEEK_SECONDS, Attempt
from ..gate.settings import REBOOT, REDEPLOY, REMEDIES, RESTART_SERVICE, Settings
from ..types import Certainty, Finding, Outcome, Remedy
from .types import (
    FABRIC_MANAGER,
    IMEX,
    PERSISTENCED,
    SERVICES,
    ApplyAgain,
    CheckFree,
    Cluster,
    Gpu,
    Mark,
    Persistence,
    Planned,
    Reboot,
    Redeploy,
    ResetGpus,
    RestartService,
    SaveLogs,
    StartUnits,
    State,
    StopUnits,
)

NODE = "node"
PERSON = "a person must look at it"
# What came up anew, as the Fabric Manager, takes a while before findings of it are gone.
SETTLE_SECONDS = 120.0
# All that a node may be, in the words of slurm.node.states, when a remedy is tried on it.
_MAY_BE = frozenset(("IDLE", "DRAIN", "CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE"))
_LEAST: Mapping[Remedy, str] = {
    Remedy.RESTART_SERVICE: RESTART_SERVICE,
    Remedy.RESET_GPU: RESET_GPU,
    Remedy.REBOOT: REBOOT,
    Remedy.REPLACE: REDEPLOY,
}
# nvidia-smi(1), --gpu-reset: before Ampere all GPUs that NVLinks connect are reset in the same command.
_TOGETHER = ("kepler", "maxwell", "pascal", "volta", "turing")


@frozen
class Choice:
    remedy: str
    part: str
    check: str
    finding: Finding

    @property
    def told(self) -> str:
        return "{0}: {1}".format(self.finding.thing, self.finding.reason)


def decide(state: State, settings: Settings) -> Planned:
    unfinished = state.record.unfinished
    if unfinished is not None:
        return _put_in_order(unfinished, state)
    why = held(state, settings)
    if why is not None:
        return Planned(why=why)
    choice = choose(state, settings)
    if isinstance(choice, str):
        return Planned(why=choice)
    # This one among them, whose record may be lost.
    latched = sorted({name for one in _cluster(state).latched for name in one.ours})
    if latched:
        text = "the breaker of {0} is latched in Slurm; {1} there"
        return Planned(why=text.format(", ".join(latched[:3]), RELEASE))
    latch = tripped(state, settings)
    if latch is not None:
        return Planned(why=latch, latch=latch, finding=choice.told)
    return _with_steps(choice, state, settings)


def held(state: State, settings: Settings) -> Optional[str]:
    """Why nothing is tried on this node, whatever was found; None: it may be."""
    if not settings.remedies:
        return "no remedy is on (health_gate_remedies)"
    if state.record.held:
        return "the breaker is latched: {0}; {1}".format(state.record.held, RELEASE)
    if state.outcome is not Outcome.FAIL:
        if not state.kept:
            return "nothing fails: its verdict is {0}".format(state.outcome.value)
        why = unproved(state, settings)
        if why is not None:
            return why
    if state.cluster is None:
        return "its state in Slurm is not known ({0})".format(state.unknown or "it was not asked for")
    node = state.cluster.node
    flags = states.normalised(node.flags)
    if not drain.is_for_health(node):
        return "it is not drained for its health by us, so it is left alone"
    odd = flags - _MAY_BE
    if odd or "IDLE" not in flags:
        return "its state in Slurm is {0}".format("+".join(sorted(flags)))
    if state.cluster.jobs != IDLE:
        return state.cluster.jobs or "nobody knows whether jobs run here"
    if not node.partitions:
        return "it is in no partition, so nobody can say how many others had a remedy"
    last = state.record.attempts[-1:]
    if last and last[0].counts and 0 <= state.now - (last[0].ended or 0.0) < SETTLE_SECONDS:
        return "the last remedy ended less than {0:g} s ago".format(SETTLE_SECONDS)
    return None


def unproved(state: State, settings: Settings) -> Optional[str]:
    """Why nothing would measure again, after a remedy, what only an active check found, so that nobody could say
    whether it helped; None: the gate does, with the first clean verdict."""
    if not (settings.proof and settings.resume):
        return "only an active check failed, and no proof would follow (health_gate_proof, health_gate_resume)"
    if state.proofs >= settings.proof_attempts:
        text = "only an active check failed, and the proof was tried {0} times; {1}"
        return text.format(state.proofs, PERSON)
    if state.outcome is Outcome.UNKNOWN:
        return "only an active check failed, and what a passive look tells is not known"
    return None


def _cluster(state: State) -> Cluster:
    if state.cluster is None:
        raise ValueError("held() has seen to that")
    return state.cluster


def choose(state: State, settings: Settings) -> Union[Choice, str]:
    """The strongest remedy that a finding needs: it does what the weaker ones would. Guesses move nothing."""
    kept = state.kept if unproved(state, settings) is None else ()
    wanted = [
        (REMEDIES.index(_LEAST[one.action]), check, one)
        for check, one in state.findings + kept
        if one.outcome is Outcome.FAIL and one.certainty is not Certainty.POSSIBLE and one.action in _LEAST
    ]
    if not wanted:
        return "no remedy is known for what fails; " + PERSON
    least, check, finding = max(wanted, key=lambda one: one[0])
    names = [name for name in REMEDIES[least:] if name == REMEDIES[least] or name != RESET_GPU or _gpu(state, finding)]
    if names[0] not in settings.remedies:
        text = "{0}: {1} is the least that may help, and it is not on (health_gate_remedies)"
        return text.format(finding.thing, names[0])
    without_reset = False
    for name in names:
        if name not in settings.remedies:
            continue
        if (
            name == RESTART_SERVICE
            and _service(check, finding) == FABRIC_MANAGER
            and RESET_GPU not in settings.remedies
        ):
            without_reset = True
            continue
        part = part_of(name, check, finding, state)
        if part is None:
            return "{0}: this is nothing that {1} is tried on; {2}".format(finding.thing, name, PERSON)
        if _tried(name, part, state) < settings.remedy_attempts:
            return Choice(name, part, check, finding)
    if without_reset and len(settings.remedies) == 1:
        return "{0}: a restart of {1} requires a reset of all GPUs, and {2} is not on (health_gate_remedies)".format(
            finding.thing, FABRIC_MANAGER, RESET_GPU
        )
    text = "{0}: each remedy that is on was tried {1} times within 7 days; {2}"
    return text.format(finding.thing, settings.remedy_attempts, PERSON)


def part_of(remedy: str, check: str, finding: Finding, state: State) -> Optional[str]:
    """What attempts are counted on. A reboot is of the node, whichever GPU it was for."""
    if remedy == RESTART_SERVICE:
        return _service(check, finding)
    if remedy == RESET_GPU:
        gpu = _gpu(state, finding)
        return None if gpu is None else "gpu:" + gpu.name
    return NODE


def _service(check: str, finding: Finding) -> Optional[str]:
    unit = finding.key
    if check == "gpu_fabric":
        unit = FABRIC_MANAGER
    elif finding.code == "recover_imex_domain":
        unit = IMEX
    return unit if unit in SERVICES else None


def _gpu(state: State, finding: Finding) -> Optional[Gpu]:
    return next((one for one in state.gpus if finding.key and finding.key in (one.pci_address, one.name)), None)


def _tried(remedy: str, part: str, state: State) -> int:
    found = state.record.within(WEEK_SECONDS, state.now)
    return sum(1 for one in found if (one.remedy, one.part) == (remedy, part))


def tripped(state: State, settings: Settings) -> Optional[str]:
    """Why the breaker is latched now; None: it is not."""
    today = len(state.record.within(DAY_SECONDS, state.now))
    if today >= settings.remedies_a_day:
        return "{0} remedies were tried on this node within a day, and it fails still".format(today)
    for one in _cluster(state).remedied:
        others = [name for name in one.ours if name != state.node]
        if len(others) + 1 > most(one.size, settings.remedied_percent):
            text = "{0} of {1} nodes of partition {2} had a remedy and have not come back, and {3:g} % may"
            return text.format(len(others), one.size, one.name, settings.remedied_percent)
    return None


def _put_in_order(attempt: Attempt, state: State) -> Planned:
    """An attempt that has not ended: its run was killed, or the reboot is still to come. What it stopped is started,
    whoever has the node by now."""
    same = attempt.boot == state.boot
    if same and attempt.remedy == REBOOT:
        if state.cluster is None:
            return Planned(why="a reboot was asked for, and its state in Slurm is not known")
        if states.rebooting(states.normalised(state.cluster.node.flags)):
            return Planned(why="a reboot was asked for, and is still to come")
    after: Tuple[Action, ...] = ()
    if same:
        after = _after(attempt.units, attempt.persistent) if attempt.units or attempt.persistent else ()
    why = "the {0} of {1} did not end".format(attempt.remedy, attempt.part)
    if not same:
        why = "the machine was started since the {0} of {1}".format(attempt.remedy, attempt.part)
    return Planned(after=after, why=why, unfinished=attempt)


def _with_steps(choice: Choice, state: State, settings: Settings) -> Planned:
    name = drain.HEALTH + "{0}{1}: ".format(drain.REMEDY, choice.remedy)
    mark = Mark(drain.reason_text(name + drain.finding(_cluster(state).node.reason or "")), settings.remedied_percent)
    begin: Tuple[Action, ...] = (mark, SaveLogs(choice.remedy))
    steps: Tuple[Action, ...] = ()
    after: Tuple[Action, ...] = ()
    if choice.remedy == RESET_GPU:
        made = _reset(choice, state)
        if isinstance(made, str):
            return Planned(why=made)
        steps, after = made
    elif choice.remedy == RESTART_SERVICE and choice.part == FABRIC_MANAGER:
        made = _restart_manager(choice, state)
        if isinstance(made, str):
            return Planned(why=made)
        steps, after = made
    elif choice.remedy == RESTART_SERVICE:
        steps = (RestartService(choice.part),)
    elif choice.remedy == REBOOT:
        if _cluster(state).no_reboot:
            return Planned(why=_cluster(state).no_reboot)
        steps = (Reboot(),)
    elif not settings.redeploy_command:
        return Planned(why="there is no command to redeploy with (health_gate_redeploy_command)")
    else:
        steps = (Redeploy(settings.redeploy_command, settings.redeploy_seconds),)
    return Planned(choice.remedy, choice.part, choice.told, begin + steps, after, key=choice.finding.key)


_Steps = Tuple[Tuple[Action, ...], Tuple[Action, ...]]


def _reset(choice: Choice, state: State) -> Union[str, _Steps]:
    gpus = targets(_gpu(state, choice.finding), state)
    if isinstance(gpus, str):
        return gpus
    return _reset_of(gpus, state.units, state.beside, choice, state)


def _restart_manager(choice: Choice, state: State) -> Union[str, _Steps]:
    """Multicast of NVLink works after a restart of the Fabric Manager only if all GPUs were reset while it was stopped
    (github.com/NVIDIA/nccl, issue 1488)."""
    gpus = tuple(one for one in state.gpus if one.linked is not False) or state.gpus
    if not gpus:
        return "{0}: its GPUs are not known, and a restart of {1} requires their reset".format(
            choice.finding.thing, FABRIC_MANAGER
        )
    units = tuple(dict.fromkeys((*state.units, FABRIC_MANAGER)))
    made = _reset_of(gpus, units, state.beside + state.beside_manager, choice, state)
    return made if isinstance(made, str) else ((*made[0], RestartService(FABRIC_MANAGER)), made[1])


def _reset_of(
    gpus: Sequence[Gpu], units: Tuple[str, ...], beside: Tuple[str, ...], choice: Choice, state: State
) -> Union[str, _Steps]:
    beside = tuple(one for one in beside if one not in units)
    if beside:
        text = "{0} would be stopped along with what is stopped for a reset: declare it among health_gate_remedy_units"
        return text.format(", ".join(beside))
    if any(one.minor is None for one in gpus):
        return "{0}: its device file is not known, so nobody can say who has it open".format(choice.finding.thing)
    # The daemon switches persistence mode off when it stops and on when it starts, unless an option disables this.
    daemon = PERSISTENCED in units and state.daemon_holds
    persistent = tuple(one.name for one in gpus if one.persistent and not daemon)
    names = tuple(one.name for one in gpus)
    steps: Tuple[Action, ...] = (StopUnits(units),) if units else ()
    steps += (Persistence(persistent, False),) if persistent else ()
    steps += (CheckFree(tuple((one.label, one.minor or 0) for one in gpus)), ResetGpus(names))
    return steps, _after(units, persistent)


def _after(units: Tuple[str, ...], persistent: Tuple[str, ...]) -> Tuple[Action, ...]:
    back: Tuple[Action, ...] = (StartUnits(units),) if units else ()
    back += (Persistence(persistent, True),) if persistent else ()
    return (*back, ApplyAgain())


def targets(gpu: Optional[Gpu], state: State) -> Union[str, Sequence[Gpu]]:
    """The GPUs that are reset for one: itself, or all that NVLinks connect, where they are reset together only."""
    if gpu is None:
        return "the GPU is not known; " + PERSON
    linked = [one for one in state.gpus if one.linked is not False]
    if gpu.linked is False or (not state.switches and len(state.gpus) == 1):
        return (gpu,)
    if gpu.linked is None or gpu.architecture is None:
        return "{0} does not tell its architecture or its NVLinks, so nobody knows what a reset takes along".format(
            gpu.label
        )
    alone = gpu.architecture not in _TOGETHER and (not state.switches or state.fabric_manager)
    return (gpu,) if alone else linked
