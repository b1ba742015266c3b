# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of gres.conf: written, left to whom it belongs and compared, or not written, and why. Pure."""

from __future__ import annotations

import posixpath
from typing import Dict, List, Optional, Tuple

from ...core.frozen import frozen, replaced
from ...core.managed_files import MARKER, Wanted
from ...slurm import gres_compare as compare
from ...slurm import gres_conf, layout, slurm_conf, syntax
from ...slurm.gres_conf import product_type
from .options import Desired
from .types import State

# The first Slurm with MultipleFiles= in gres.conf, with gres/shard, and the first of which every release keeps a MIG
# instance whole beside shards (gres_c_s.c: _build_sharing_list; of 23.02 only 23.02.7 does): before it, a plugin that
# shares GPUs takes them apart on every node that it is loaded on, with shards or without.
MULTIPLE_FILES, SHARDS, SHARDS_BESIDE_MIG = (21, 8), (22, 5), (23, 11)
# SelectType= of slurm.conf(5), "Default is".
CONS_TRES_BY_DEFAULT = (23, 11)
_SHARED = frozenset(("shard", "mps"))


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
    why_not = _no_instances(state) if on else None
    if why_not is not None:
        unwritten = "MIG is on at {0}, and {1}, so gres.conf is not written".format(", ".join(on), why_not)
        return Gres(take_away=True, notes=(unwritten,))
    choice = _choice(state, desired)
    lines = _lines(state, desired, choice)
    shards, unshared = shards_per_gpu(state, desired)
    why = (() if choice.note is None else ("gres.conf: " + choice.note,)) + unshared
    read, alone = state.gres_conf, path not in state.files.shared
    if alone and (read.path is None or read.reads(path) or not _standard(path, state)):
        seen = state.files.seen(path)
        if not seen.foreign:
            told = why + _of_own_name(state, path)
            text = _text(lines, choice, shards)
            return Gres(Wanted(path, text), notes=told, lines=compare.lines(lines, None, shards))
        if path != read.path:
            return Gres(notes=("{0} is not ours, so it is left as it is; give another path".format(path),))
    whole = layout.registered(state.slurm, state.machine) if layout.wants_whole_sockets(state.slurm) else None
    found = compare.differences(lines, _theirs(state), whole, on, shards)
    shared = compare.lines(lines, state.node_name, shards)
    return Gres(
        take_away=not read.reads(path),
        notes=((_differs(state, path, found, shared),) if found else ()) + unshared,
        lines=shared,
        differences=found,
    )


def _standard(path: str, state: State) -> bool:
    """Whether a path is where slurmd would look, or used to; one of another name is a wish of the site."""
    return path == state.gres_conf.path or posixpath.basename(path) == "gres.conf"


def _choice(state: State, desired: Desired) -> layout.Choice:
    near = [gpu.cores for gpu in state.gpus or ()]
    slurm = state.slurm
    choice = layout.choose(near, state.machine, slurm, desired.gres_cores)
    if slurm.controller is None and slurm.slurmd is not None and slurm.slurmd < layout.WHOLE_SOCKETS:
        # slurmctld is only away: what was written while it answered is not rewritten for that.
        before = layout.choose(near, state.machine, replaced(slurm, controller=slurm.slurmd), desired.gres_cores)
        shards, dummy = shards_per_gpu(state, desired)
        if state.files.seen(desired.gres_file).text == _text(_lines(state, desired, before), before, shards):
            return before
    return choice


def _lines(state: State, desired: Desired, choice: layout.Choice) -> Tuple[compare.Line, ...]:
    """Beside MIG instances each line has a type: a job has to say how large a part of a GPU it wants."""
    gpus = state.gpus or ()
    auto = desired.gres_type == "auto" or (not desired.gres_type and any(gpu.mig for gpu in gpus))
    found: List[compare.Line] = []
    for gpu, cores in zip(gpus, choice.cores):
        kind = product_type(gpu.product) if auto else desired.gres_type or None
        if gpu.instances is None:
            found.append(compare.Line(gpu.file, kind, cores))
        for instance in gpu.instances or ():
            # A plus sign means something else in a job's request; Kubernetes has 1g.10gb.me as well.
            name = instance.name.replace("+", ".")
            found.append(compare.Line(gpu.file, "_".join(filter(None, (kind, name))), cores, instance.files))
    return tuple(found)


def _no_instances(state: State) -> Optional[str]:
    """Why this slurmd would not take a MIG instance for what it is."""
    slurmd = state.slurm.slurmd
    if slurmd is None or slurmd >= SHARDS_BESIDE_MIG:
        return None
    if slurmd < MULTIPLE_FILES:
        return "this slurmd knows no MIG instances (upgrade it to 21.08 or newer)"
    shared = _SHARED & slurm_conf.words(state.conf, "GresTypes") if state.conf is not None else frozenset()
    if shared:
        told = (
            "with {0} in GresTypes= this slurmd takes each device file of a MIG instance for a GPU (take it out there, "
        )
        return (told + "or upgrade to 23.11 or newer)").format(" and ".join(sorted(shared)))
    return None


def shards_per_gpu(state: State, desired: Desired) -> Tuple[int, Tuple[str, ...]]:
    """Into how many shards each whole GPU is divided, and why it is not as many as are asked for."""
    slurmd = state.slurm.slurmd
    if not desired.shards_per_gpu or slurmd is None:
        return desired.shards_per_gpu, ()
    if slurmd < SHARDS:
        return 0, ("this slurmd knows no shards of GPUs: upgrade it to 22.05 or newer, or leave shards_per_gpu out",)
    if slurmd < SHARDS_BESIDE_MIG and any(gpu.mig for gpu in state.gpus or ()):
        told = "with shards this slurmd takes each device file of a MIG instance for a GPU, so no shards are written"
        return 0, (told + ": upgrade it to 23.11 or newer, or leave shards_per_gpu out",)
    return desired.shards_per_gpu, ()


def gres_of(lines: Tuple[compare.Line, ...], shards: int) -> str:
    """What ``Gres=`` of slurm.conf has to be for these lines."""
    counts: Dict[Optional[str], int] = {}
    for line in lines:
        counts[line.type] = counts.get(line.type, 0) + 1
    words = [":".join(filter(None, ("gpu", kind, str(count)))) for kind, count in counts.items()]
    whole = sum(1 for line in lines if not line.capabilities)
    return ",".join(words + (["shard:{0}".format(shards * whole)] if shards and whole else []))


def configured(state: State, desired: Desired) -> Tuple[str, ...]:
    """What slurm.conf lacks for MIG instances and shards to be given to jobs. Slurm drains a node that has fewer than
    ``Gres=`` says, and ignores what it has beyond that."""
    gpus = state.gpus or ()
    shards, dummy = shards_per_gpu(state, desired)
    instances = any(gpu.instances for gpu in gpus)
    text, node = state.conf, state.slurm.node
    mig = any(gpu.mig for gpu in gpus)
    if text is None or not desired.gres_file or not (shards or mig) or (mig and _no_instances(state) is not None):
        return ()
    where, notes = state.slurm_conf or "slurm.conf", []
    lines = _lines(state, desired, _choice(state, desired))
    wanted = gres_of(lines, shards)
    # In a file of others the names of the types are theirs.
    ours = decide(state, desired).wanted is not None
    if node is not None and ours and not _covers(node.gres, wanted):
        notes.append(
            "{0} has Gres={1} for {2}, which is Gres={3}: write that there, then restart slurmctld and slurmd".format(
                where, node.gres or "(none)", state.node_name, wanted or "(none)"
            )
        )
    types = slurm_conf.words(text, "GresTypes")
    if shards and "shard" not in types:
        notes.append("{0} has no shard in GresTypes=, and slurmd passes over the shards: add it".format(where))
    select, slurmd = state.slurm.select.lower(), state.slurm.slurmd
    by_default = not select and (slurmd is None or slurmd >= CONS_TRES_BY_DEFAULT)
    if shards and not by_default and select != "select/cons_tres":
        notes.append("{0} has no SelectType=select/cons_tres, without which Slurm has no shards".format(where))
    if instances and not state.constrains_devices:
        notes.append(
            "a job can open all MIG instances and takes the first one: set TaskPlugin=task/cgroup in {0}, and "
            "ConstrainDevices=yes in the cgroup.conf beside it".format(where)
        )
    return tuple(notes)


def too_few(state: State, desired: Desired) -> bool:
    """Whether slurm.conf asks for more than our file will have, so that Slurm must not be told to read both."""
    node, wanted = state.slurm.node, decide(state, desired).wanted
    if node is None or wanted is None:
        return False
    has = gres_conf.gres_of(gres_conf.gpus(syntax.of(wanted.text), state.node_name or ""))
    return has is not None and gres_conf.fewer(has, node.gres)


def _covers(given: str, wanted: str) -> bool:
    """Whether ``Gres=`` gives out all of what is there: type by type, or all GPUs without a type."""
    for name in gres_conf.COUNTED:
        has, needs = gres_conf.by_type(given, name), gres_conf.by_type(wanted, name)
        if has != needs and not (set(has) == {""} and has[""] == sum(needs.values())):
            return False
    return True


_COMMENTS = {
    "numa": "# Cores: those of the NUMA node of each GPU, as Slurm counts them (Core L# of 'lstopo -l').",
    "sockets": "# Cores: those of the whole socket of each GPU; slurmctld 24.11 and newer takes no part of one.",
    "none": "# No Cores: a job may use each GPU from any core.",
}


def _text(lines: Tuple[compare.Line, ...], choice: layout.Choice, shards: int) -> str:
    head = [
        MARKER + " Changes will be lost.",
        _COMMENTS[choice.kind],
        "# AutoDetect would ask NVML for them, which on virtual machines often knows no NUMA node.",
        "AutoDetect=off",
    ]
    return "\n".join([*head, *compare.lines(lines, None, shards)]) + "\n"


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
    node, shared = state.slurm.node, path in state.files.shared
    listed = "; ".join("'{0}'".format(line) for line in lines)
    if read.configless:
        remedy = "beside slurm.conf on the host of slurmctld put {0}".format(listed)
        what = "which slurmctld hands out (configless)"
    elif shared and not state.files.seen(path).foreign:
        what = (
            "which nodes share, so that lines of ours without NodeName= would count for all of them and are not written"
        )
        remedy = "in place of its lines about this node put {0}".format(listed)
    elif read.text is None and read.path not in (None, path) and not shared and not _of_azslurm(state):
        missing = "slurmd reads {0}, which does not exist: set slurm_hooks_gres_file: {0}, or write {1} into it{2}"
        return missing.format(read.path, listed, "; then run 'scontrol reconfigure'")
    elif node is not None and node.cloud:
        what = "which is not ours and stays as it is"
        remedy = _azslurm(state, listed) if _of_azslurm(state) else "change it where it is made, to {0}".format(listed)
    else:
        what = "which is not ours and stays as it is"
        remedy = "in place of its lines about this node put {0}".format(listed)
        if read.path == path and state.files.seen(path).kind == "file" and not shared:
            remedy += ", or move it away and run this again"
    return "{0}, {1}, does not fit this machine: {2}; {3}; then run 'scontrol reconfigure'".format(
        read.path or path, what, "; ".join(found), remedy
    )


def _of_azslurm(state: State) -> bool:
    """The slurm.conf of CycleCloud includes what azslurm writes (cyclecloud-slurm: slurm.conf.template)."""
    conf = state.conf
    return conf is not None and any(posixpath.basename(one) == "azure.conf" for one in conf.included + conf.missing)


def _azslurm(state: State, listed: str) -> str:
    """It writes one line a node array, with ``Count=`` and ``File=``, and ``Gres=gpu:COUNT`` (cli.py: ``_partitions``,
    ``_generate_gres_conf``): neither MIG instances nor shards."""
    if any(gpu.mig for gpu in state.gpus or ()) or "Name=shard" in listed:
        return (
            "'azslurm scale' writes it anew and knows neither MIG instances nor shards, so do without them in this "
            "node array, or after each 'azslurm scale' put {0} into it and their Gres= into azure.conf by hand and "
            "restart slurmctld"
        ).format(listed)
    files = ",".join(gpu.file for gpu in state.gpus or ())
    return (
        "'azslurm scale' writes it anew: set slurm.gpu_device_config of the node array, its File=, to {0}, let the "
        "resource slurm_gpus, its Count=, be {1}, and run that"
    ).format(files, len(state.gpus or ()))
