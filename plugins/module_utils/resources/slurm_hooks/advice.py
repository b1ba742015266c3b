# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What slurm.conf lacks for the hooks to work as they are meant to. Pure: sentences, nothing is changed."""

from __future__ import annotations

from typing import List

from ...slurm import hooks_conf, hosts, slurm_conf
from ...slurm.hooks_conf import EPILOG_NAME, PROLOG_NAMES
from ...slurm.syntax import Text
from ...slurm.types import LONGEST_SECONDS
from .options import Desired
from .types import State

_RECONFIGURE = "then run 'scontrol reconfigure'"


def advice(state: State, desired: Desired) -> List[str]:
    if state.conf is None:
        return _reached(state, desired)
    return _reached(state, desired) + _options(state, state.conf) + _time(state, desired, state.conf)


def _time(state: State, desired: Desired, text: Text) -> List[str]:
    """Slurm sets no limit by itself; one that is too short ends a hook in the middle. The last two came with 25.05."""
    longest = LONGEST_SECONDS + int(desired.grace_seconds)
    notes = []
    for key in ("PrologEpilogTimeout", "PrologTimeout", "EpilogTimeout"):
        value = (slurm_conf.option(text, key) or "").split(" ")[0]
        if value.isdigit() and int(value) <= longest:
            told = "{0} has {1}={2}, and a hook that waits for a driver or a disk may take {3} s: give it more, {4}"
            notes.append(told.format(_where(state), key, value, longest, _RECONFIGURE))
    return notes


def _reached(state: State, desired: Desired) -> List[str]:
    known = state.configured or state.running
    if known is None:
        reason = "neither slurm.conf nor slurmctld tells which Prolog= and Epilog= are set"
        if desired.slurm_conf and state.slurm_conf is None:
            reason += ": {0} does not exist; correct slurm_hooks_slurm_conf, or run this again when the file is there"
        return [reason.format(desired.slurm_conf)]
    notes = []
    for name, patterns, folder, file in (
        ("Prolog", known.prolog, desired.prolog_folder, PROLOG_NAMES[0]),
        ("Epilog", known.epilog, desired.epilog_folder, EPILOG_NAME),
    ):
        if not hooks_conf.reaches(patterns, "{0}/{1}".format(folder, file)):
            text = "{0} has no {1}= that reaches {2}: add the line '{1}={2}/*', {3}"
            notes.append(text.format(_where(state), name, folder, _RECONFIGURE))
    return notes


def _options(state: State, text: Text) -> List[str]:
    where = _where(state)
    notes: List[str] = []
    flags = slurm_conf.words(text, "PrologFlags")
    if not flags & slurm_conf.ALLOC_FLAGS:
        notes.append(
            "{0} has no PrologFlags=Alloc, so the prolog runs only before a job's first step on this node, and a shell "
            "of salloc gets none: add it, {1}".format(where, _RECONFIGURE)
        )
    if "nohold_on_prolog_fail" not in slurm_conf.words(text, "SchedulerParameters"):
        notes.append(
            "{0} has no SchedulerParameters=nohold_on_prolog_fail, so a job that a prolog turned away is held (launch "
            "failed requeued held) until somebody runs 'scontrol release': add it, {1}".format(where, _RECONFIGURE)
        )
    return notes + _power(state, text, where)


def _power(state: State, text: Text, where: str) -> List[str]:
    """A node that is drained and powered down loses its drain, or nobody sees it again (power_save.c)."""
    seconds = slurm_conf.power_saving(text, state.node_name or "")
    if seconds is None or "drain" in slurm_conf.words(text, "SuspendExcStates"):
        return []
    kept = slurm_conf.option(text, "SuspendExcNodes") or ""
    # ``gpu[01-10]:4`` leaves some four of them on, whichever; these are no promise to one node.
    plain = ",".join(word for word in hosts.items(kept) if ":" not in word)
    if state.node_name and hosts.holds(plain, state.node_name):
        return []
    then = "powered down after {0} idle seconds".format(seconds)
    if "idle_on_node_suspend" in slurm_conf.words(text, "SlurmctldParameters"):
        then += " and then idle again, sick or not (idle_on_node_suspend)"
    remedy = "add SuspendExcStates=DRAIN,DOWN"
    if state.slurm.controller is not None and state.slurm.controller < (23, 2):
        remedy = "add the node to SuspendExcNodes when it is drained"  # SuspendExcStates came with 23.02
    return ["{0} has power saving, so a drained node is {1}: {2}, {3}".format(where, then, remedy, _RECONFIGURE)]


def _where(state: State) -> str:
    return state.slurm_conf or "slurm.conf"
