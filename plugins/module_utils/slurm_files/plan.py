# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Dict, List, Optional, Tuple

from .. import declaration, managed_files
from ..managed_files import MARKER, Wanted, WriteFile
from ..resource import Action, Plan
from ..slurm_job.types import SECTION
from ..sysfs import format_cpulist
from . import conf
from .types import EPILOG_NAME, PROLOG_NAMES, Desired, State

_ELSEWHERE = "give a path of its own, and let the file that is there say 'Include' with that path"
_PENDING = "Slurm reads {0} at 'scontrol reconfigure' or when slurmd starts again; nothing was restarted"


def plan(state: State, desired: Desired) -> Plan:
    if not desired.present:
        return _absent(state, desired)
    if state.absent is not None:
        return Plan(skipped=state.absent)
    refusals = managed_files.refusals(state.files, desired.hook_files(), "move it away, or give another folder")
    if refusals:
        return Plan(refusals=refusals)
    wanted, notes = _files(state, desired)
    actions: List[Action] = []
    declared = {SECTION: dict(state.declared)} if state.declared else {}
    declare = declaration.plan(declared, SECTION, _section(state, desired))
    if declare is not None:
        actions.append(declare)
    actions += managed_files.write(state.files, wanted, keep=desired.paths())
    return Plan(tuple(actions), notes=tuple(notes + _slurm_notes(state, desired, actions)))


def _section(state: State, desired: Desired) -> Dict[str, Any]:
    """What the hooks read, and what ``state: absent`` has to take away again."""
    hooks = dataclasses.asdict(desired.hooks)
    if state.scontrol is not None:
        hooks["scontrol"] = state.scontrol
    return dict(hooks, **managed_files.remembered(state.files, desired.paths()))


def _files(state: State, desired: Desired) -> Tuple[List[Wanted], List[str]]:
    """The wanted files, and what to tell of those that are not written."""
    files = list(desired.hook_files())
    notes: List[str] = []
    if not (desired.gres_file or desired.features_file):
        return files, notes
    if state.gpus is None or not state.gpus:
        what = "this machine has no GPU" if state.gpus is not None else "the GPUs cannot be told now"
        reason = " ({0})".format(state.gpus_reason.rstrip(".")) if state.gpus_reason else ""
        notes.append("{0}{1}, so gres.conf and the node features are left as they are".format(what, reason))
        return files, notes
    for path, text in ((desired.gres_file, gres_text(state, desired)), (desired.features_file, features_text(state))):
        if not path:
            continue
        seen = state.files.seen(path)
        if seen.foreign:
            what = "is a symbolic link" if seen.kind == "link" else "is not ours"
            notes.append("{0} {1}, so it is left as it is; {2}".format(path, what, _ELSEWHERE))
        else:
            files.append(Wanted(path, text))
    return files, notes


def product_type(product: Optional[str]) -> Optional[str]:
    """``NVIDIA A100-SXM4-40GB`` as Slurm sites name it: ``a100``; ``NVIDIA GeForce RTX 4090``: ``rtx4090``."""
    words = [word.lower() for word in re.findall(r"[A-Za-z0-9]+", product or "")]
    words = [word for word in words if word not in ("nvidia", "tesla", "geforce", "quadro")]
    return "".join(words[: 2 if words[0] in ("rtx", "gtx") else 1]) if words else None


def gres_text(state: State, desired: Desired) -> str:
    lines = [
        MARKER + " Changes will be lost.",
        "# Cores: those of the NUMA node of each GPU, with the numbers that 'lstopo -l' shows as Core L#.",
        "# AutoDetect would ask NVML for them, which on virtual machines often knows no NUMA node.",
        "AutoDetect=off",
    ]
    for gpu in sorted(state.gpus or (), key=lambda one: one.minor):
        words = ["Name=gpu"]
        kind = product_type(gpu.product) if desired.gres_type == "auto" else desired.gres_type
        if kind:
            words.append("Type=" + kind)
        words.append("File=/dev/nvidia{0}".format(gpu.minor))
        if gpu.cores:
            words.append("Cores=" + format_cpulist(gpu.cores))
        lines.append(" ".join(words))
    return "\n".join(lines) + "\n"


def features(state: State) -> Tuple[str, ...]:
    """What a job may ask for with --constraint."""
    names = ["gpu_node", "numa{0}".format(state.numa_nodes)]
    if state.gpus:
        names.append("gpus{0}".format(len(state.gpus)))
        for product in sorted({gpu.product for gpu in state.gpus if gpu.product}):
            names.append(product_type(product) or "")
            names.append(re.sub(r"[^a-z0-9_.-]+", "_", re.sub(r"^nvidia\s+", "", product.lower())).strip("_"))
    return tuple(dict.fromkeys(name for name in names if name))


def features_text(state: State) -> str:
    return "{0} Changes will be lost. For Feature= in slurm.conf.\n{1}\n".format(MARKER, ",".join(features(state)))


def _slurm_notes(state: State, desired: Desired, actions: List[Action]) -> List[str]:
    notes: List[str] = []
    known = state.configured or state.running
    for name, folder, file in (
        ("Prolog", desired.prolog_folder, PROLOG_NAMES[0]),
        ("Epilog", desired.epilog_folder, EPILOG_NAME),
    ):
        if known is None:
            continue
        patterns = known.prolog if name == "Prolog" else known.epilog
        if not conf.reaches(patterns, "{0}/{1}".format(folder, file)):
            notes.append(
                "{0} has no {1}= that reaches {2}: add the line '{1}={2}/*', then run 'scontrol reconfigure'".format(
                    state.slurm_conf or "slurm.conf", name, folder
                )
            )
    if known is None:
        notes.append("neither slurm.conf nor slurmctld tells which Prolog= and Epilog= are set")
    return notes + [_PENDING.format(path) for path in pending(state, desired, actions)]


def pending(state: State, desired: Desired, actions: List[Action]) -> List[str]:
    """Which files Slurm has not read yet as they are, or will be after these actions."""
    found = [one.path for one in actions if isinstance(one, WriteFile) and one.path == desired.gres_file]
    if state.configured is not None and state.running is not None:
        prolog = "{0}/{1}".format(desired.prolog_folder, PROLOG_NAMES[0])
        epilog = "{0}/{1}".format(desired.epilog_folder, EPILOG_NAME)
        if (conf.reaches(state.configured.prolog, prolog) and not conf.reaches(state.running.prolog, prolog)) or (
            conf.reaches(state.configured.epilog, epilog) and not conf.reaches(state.running.epilog, epilog)
        ):
            found.append(state.slurm_conf or "slurm.conf")
    return found


def _absent(state: State, desired: Desired) -> Plan:
    actions = managed_files.remove(state.files, desired.paths())
    if state.declared:
        actions.append(declaration.Declare(SECTION, None))
    notes = managed_files.foreign_notes(state.files, desired.paths())
    if not actions and not notes and state.absent is not None:
        return Plan(skipped=state.absent)
    return Plan(tuple(actions), notes=notes)
