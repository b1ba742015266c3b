# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ...core import declaration, managed_files
from ...core.managed_files import MARKER, RemoveFile, Seen, Wanted, WriteFile
from ...core.options import as_section
from ...core.resource import Action, Plan, Refusal
from ...slurm import hooks_conf
from ...slurm.gres_conf import product_type
from ...slurm.hooks_conf import EPILOG_NAME, PROLOG_NAMES
from ...slurm.types import SECTION, Settings
from .advice import advice
from .gres import configured, decide, too_few
from .job_folders import MakeJobFolders
from .options import Desired
from .types import Reconfigure, State

_CLOSE = "let only root and SlurmUser write there (chown root, chmod go-w), and look at what lies in it"
_PENDING = "Slurm reads {0} at 'scontrol reconfigure' or when slurmd starts again; nothing was restarted"
_SHARED_FEATURES = (
    "{0}: nodes share that folder, so the features of one are not written for all; for {1} put Feature={2} into "
    "slurm.conf, and set slurm_hooks_features_file to a path of the node itself, or to none"
)


def plan(state: State, desired: Desired) -> Plan:
    if not desired.present:
        return _absent(state, desired)
    if state.absent is not None:
        return Plan(skipped=state.absent)
    refusals = _refusals(state, desired)
    if refusals:
        return Plan(refusals=refusals)
    wanted, keep, notes = _files(state, desired)
    actions: List[Action] = []
    declared = {SECTION: dict(state.declared)} if state.declared else {}
    declare = declaration.plan(declared, SECTION, _section(state, desired))
    if declare is not None:
        actions.append(declare)
    open_hooks = dict(state.trust.hooks)
    # A file of ours that no declaration remembers is taken away all the same where it is wanted no more.
    former = tuple(dict.fromkeys(state.files.former + desired.paths()))
    files = dataclasses.replace(_without(state.files, open_hooks), former=former)
    for action in managed_files.write(files, wanted, keep=keep):
        if isinstance(action, WriteFile) and action.path in open_hooks:
            actions.append(RemoveFile(action.path))  # a file that is written over keeps its owner
        actions.append(action)
    if state.job_folders is not None:
        actions.append(MakeJobFolders(state.job_folders))
    left = unread(state, desired, actions)
    few = desired.gres_file in left and too_few(state, desired)
    if left and desired.reconfigure and state.scontrol is not None and not few:
        actions.append(Reconfigure(state.scontrol, left))
        left = ()
    # gres.conf is for the restart of slurmd at the end of the run (slurm/slurmd.py).
    pending_notes = [_PENDING.format(path) for path in left if path != desired.gres_file]
    return Plan(tuple(actions), notes=tuple(notes + _trust_notes(state) + advice(state, desired) + pending_notes))


def _refusals(state: State, desired: Desired) -> Tuple[Refusal, ...]:
    foreign = managed_files.refusals(state.files, desired.hook_files(), "move it away, or give another folder")
    return foreign + tuple(
        Refusal(folder, "{0}, and Slurm runs what lies there as root".format(fault), _CLOSE)
        for folder, fault in state.trust.folders
    )


def _without(files: managed_files.Files, paths: Mapping[str, str]) -> managed_files.Files:
    found = tuple((path, Seen() if path in paths else seen) for path, seen in files.found)
    return dataclasses.replace(files, found=found)


def _trust_notes(state: State) -> List[str]:
    notes = ["{0}: {1}, so it is written anew as root's".format(path, fault) for path, fault in state.trust.hooks]
    return notes + [
        "{0}: {1}, and whoever may write there can replace hooks that Slurm runs as root: {2}".format(
            path, fault, _CLOSE
        )
        for path, fault in state.trust.above
    ]


def _section(state: State, desired: Desired) -> Dict[str, Any]:
    """What the hooks and gpu_settings read, and what ``state: absent`` has to take away again."""
    hooks = as_section(Settings, desired)
    if state.scontrol is not None:
        hooks["scontrol"] = state.scontrol
    if desired.slurm_conf:
        hooks["slurm_conf"] = desired.slurm_conf
    return dict(hooks, **managed_files.remembered(state.files, desired.paths()))


def _files(state: State, desired: Desired) -> Tuple[List[Wanted], List[str], List[str]]:
    """(the wanted files, paths where ours from an earlier run stay, what to tell of those that are not written)."""
    files = list(desired.hook_files())
    keep = list(desired.paths())
    notes: List[str] = []
    if not (desired.gres_file or desired.features_file):
        return files, keep, notes
    if state.gpus is None or not state.gpus:
        what = "this machine has no GPU" if state.gpus is not None else "the GPUs cannot be told now"
        reason = " ({0})".format(state.gpus_reason.rstrip(".")) if state.gpus_reason else ""
        notes.append("{0}{1}, so gres.conf and the node features are left as they are".format(what, reason))
        return files, keep, notes
    gres = decide(state, desired)
    notes += gres.notes + configured(state, desired)
    if gres.wanted is not None:
        files.append(gres.wanted)
    elif gres.take_away:
        keep.remove(desired.gres_file)
    if desired.features_file:
        if state.files.seen(desired.features_file).foreign:
            notes.append("{0} is not ours, so it is left as it is; give another path".format(desired.features_file))
        elif desired.features_file not in state.files.shared:
            files.append(Wanted(desired.features_file, features_text(state)))
        elif state.files.seen(desired.features_file).text != features_text(state):
            names = ",".join(features(state))
            notes.append(_SHARED_FEATURES.format(desired.features_file, state.node_name, names))
    return files, keep, notes


def features(state: State) -> Tuple[str, ...]:
    """What a job may ask for with --constraint."""
    names = ["gpu_node", "numa{0}".format(state.numa_nodes)]
    if state.gpus:
        whole = sum(1 for gpu in state.gpus if not gpu.mig)
        names += ["gpus{0}".format(whole)] if whole else []
        names += ["mig"] if whole < len(state.gpus) else []
        instances = {instance.name for gpu in state.gpus for instance in gpu.instances or ()}
        names += ["mig-" + name.replace("+", ".") for name in sorted(instances)]
        for product in sorted({gpu.product for gpu in state.gpus if gpu.product}):
            names.append(product_type(product) or "")
            names.append(re.sub(r"[^a-z0-9_.-]+", "_", re.sub(r"^nvidia\s+", "", product.lower())).strip("_"))
    return tuple(dict.fromkeys(name for name in names if name))


def features_text(state: State) -> str:
    return "{0} Changes will be lost. For Feature= in slurm.conf.\n{1}\n".format(MARKER, ",".join(features(state)))


def unread(state: State, desired: Desired, actions: Sequence[Action] = ()) -> Tuple[str, ...]:
    """Which files Slurm has not read as they are, or will be after these actions.

    Of gres.conf our own counts, which slurmd has read if it began after that was written: it tells nobody what it read.
    """
    if any(isinstance(one, Reconfigure) for one in actions):
        return ()
    path = desired.gres_file
    touched = path in [one.path for one in actions if isinstance(one, (WriteFile, RemoveFile))]
    seen = state.files.seen(path)
    # The clock of a file server is another one.
    ours = path not in state.files.shared and (
        seen.ours or (seen.kind == "missing" and decide(state, desired).take_away)
    )
    stale = (touched and state.slurmd.started is not None) or (ours and state.slurmd.stale)
    found = [path] if path and stale and state.gres_conf.reads(path) else []
    if state.configured is not None and state.running is not None:
        prolog = "{0}/{1}".format(desired.prolog_folder, PROLOG_NAMES[0])
        epilog = "{0}/{1}".format(desired.epilog_folder, EPILOG_NAME)
        if (
            hooks_conf.reaches(state.configured.prolog, prolog) and not hooks_conf.reaches(state.running.prolog, prolog)
        ) or (
            hooks_conf.reaches(state.configured.epilog, epilog) and not hooks_conf.reaches(state.running.epilog, epilog)
        ):
            found.append(state.slurm_conf or "slurm.conf")
    return tuple(found)


def _absent(state: State, desired: Desired) -> Plan:
    actions = managed_files.remove(state.files, desired.paths())
    if state.declared:
        actions.append(declaration.Declare(SECTION, None))
    notes = managed_files.foreign_notes(state.files, desired.paths())
    if not actions and not notes and state.absent is not None:
        return Plan(skipped=state.absent)
    return Plan(tuple(actions), notes=notes)
