# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of gres.conf: written, left to whom it belongs and compared, or not written, and why. Pure."""

from __future__ import annotations

import posixpath
from typing import List, Optional, Tuple

from ...core.frozen import frozen, replaced
from ...core.managed_files import MARKER, Wanted
from ...slurm import gres_conf
from ...slurm.gres_conf import product_type
from . import compare, layout
from .options import Desired
from .types import State


@frozen
class Gres:
    """``wanted`` None: it is not written. ``take_away``: one of ours from an earlier run must not stay either."""

    wanted: Optional[Wanted] = None
    take_away: bool = False
    notes: Tuple[str, ...] = ()
    lines: Tuple[str, ...] = ()
    differences: Tuple[str, ...] = ()


def decide(state: State, desired: Desired) -> Gres:
    """For a node whose GPUs are known, and there are some."""
    path = desired.gres_file
    if not path or not state.gpus:
        return Gres()
    on = [gpu.file for gpu in state.gpus if gpu.mig]
    if on:
        return _with_mig(state, on)
    choice = _choice(state, desired)
    lines = _lines(state, desired, choice)
    why = () if choice.note is None else ("gres.conf: " + choice.note,)
    read = state.gres_conf
    if read.path is None or read.reads(path) or not _standard(path, state):
        seen = state.files.seen(path)
        if not seen.foreign:
            told = why + _of_own_name(state, path)
            return Gres(Wanted(path, _text(lines, choice)), notes=told, lines=compare.lines(lines))
        if path != read.path:
            return Gres(notes=("{0} is not ours, so it is left as it is; give another path".format(path),))
    whole = layout.registered(state.slurm, state.machine) if layout.wants_whole_sockets(state.slurm) else None
    found = compare.differences(lines, _theirs(state), whole)
    shared = compare.lines(lines, state.node_name)
    return Gres(
        take_away=not read.reads(path),
        notes=(_differs(state, path, found, shared),) if found else (),
        lines=shared,
        differences=found,
    )


def _standard(path: str, state: State) -> bool:
    """Whether a path is where slurmd would look, or used to; one of another name is somebody's own wish."""
    return path == state.gres_conf.path or posixpath.basename(path) == "gres.conf"


def _choice(state: State, desired: Desired) -> layout.Choice:
    near = [gpu.cores for gpu in state.gpus or ()]
    slurm = state.slurm
    choice = layout.choose(near, state.machine, slurm, desired.gres_cores)
    if slurm.controller is None and slurm.slurmd is not None and slurm.slurmd < layout.WHOLE_SOCKETS:
        # slurmctld is only away: what was written while it answered is not rewritten for that.
        before = layout.choose(near, state.machine, replaced(slurm, controller=slurm.slurmd), desired.gres_cores)
        if state.files.seen(desired.gres_file).text == _text(_lines(state, desired, before), before):
            return before
    return choice


def _lines(state: State, desired: Desired, choice: layout.Choice) -> Tuple[compare.Line, ...]:
    return tuple(
        compare.Line(
            gpu.file, product_type(gpu.product) if desired.gres_type == "auto" else desired.gres_type or None, cores
        )
        for gpu, cores in zip(state.gpus or (), choice.cores)
    )


_COMMENTS = {
    "numa": "# Cores: those of the NUMA node of each GPU, as Slurm counts them (Core L# of 'lstopo -l').",
    "sockets": "# Cores: those of the whole socket of each GPU; slurmctld 24.11 and newer takes no part of one.",
    "none": "# No Cores: a job may use each GPU from any core.",
}


def _text(lines: Tuple[compare.Line, ...], choice: layout.Choice) -> str:
    head = [
        MARKER + " Changes will be lost.",
        _COMMENTS[choice.kind],
        "# AutoDetect would ask NVML for them, which on virtual machines often knows no NUMA node.",
        "AutoDetect=off",
    ]
    return "\n".join([*head, *compare.lines(lines)]) + "\n"


def _of_own_name(state: State, path: str) -> Tuple[str, ...]:
    """Of a file that Slurm reads only where gres.conf includes it."""
    read = state.gres_conf
    if read.path is None or path == read.path:
        return ()
    node = state.slurm.node
    if not read.reads(path):
        return (
            "Slurm reads {0}, and nothing in that includes {1}: leave slurm_hooks_gres_file at its default where each "
            "node has a gres.conf of its own; else copy the lines into {0}".format(read.path, path),
        )
    if node is not None and node.cloud:
        return (
            "{0} includes {1}, and slurmctld itself reads gres.conf for CLOUD nodes: where its host has no {1} it ends "
            "within a minute of a restart or 'scontrol reconfigure'; take the Include out, and copy the lines".format(
                read.path, path
            ),
        )
    return ()


def _theirs(state: State) -> gres_conf.Gpus:
    text = state.gres_conf.text
    return gres_conf.gpus(text, state.node_name or "") if text is not None else gres_conf.Gpus()


def _differs(state: State, path: str, found: Tuple[str, ...], lines: Tuple[str, ...]) -> str:
    read = state.gres_conf
    node = state.slurm.node
    listed = "; ".join("'{0}'".format(line) for line in lines)
    if read.configless:
        remedy = "beside slurm.conf on the host of slurmctld put {0}".format(listed)
        what = "which slurmctld hands out (configless)"
    elif node is not None and node.cloud:
        what = "which is not ours and stays as it is"
        remedy = (
            "change it where it is made, as 'azslurm scale' writes it anew (File= is slurm.gpu_device_config of the "
            "node array), to {0}".format(listed)
        )
    else:
        what = "which is not ours and stays as it is"
        remedy = "in place of its lines about this node put {0}".format(listed)
        if read.path == path and state.files.seen(path).kind == "file":
            remedy += ", or move it away and run this again"
    return "{0}, {1}, does not fit this machine: {2}; {3}; then run 'scontrol reconfigure'".format(
        read.path, what, "; ".join(found), remedy
    )


def _with_mig(state: State, on: List[str]) -> Gres:
    listed = compare.whole_ones(_theirs(state), on)
    ours = state.files.seen(state.gres_conf.path or "").ours
    found: Tuple[str, ...] = ()
    if listed and not ours:
        found = ("it lists {0} as whole GPUs, and MIG is on there".format(", ".join(listed)),)
    note = (
        "MIG is on at {0}, and a line about the whole GPU would give a job the GPU and none of its instances, so "
        "gres.conf is not written{1}: put AutoDetect=nvml there (for a slurmd that was built with NVML; else a line "
        "with MultipleFiles= for each instance), and Gres=gpu:PROFILE:COUNT into slurm.conf"
    )
    kept = "; {0}, which is not ours, lists {1} so".format(state.gres_conf.path, ", ".join(listed)) if found else ""
    return Gres(take_away=True, notes=(note.format(", ".join(on), kept),), differences=found)
