# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gres.conf that is not ours, against what this machine is: what differs, in words. Pure.

It is for clusters whose gres.conf belongs to somebody else, such as CycleCloud, which writes it at each
``azslurm scale``, and configless ones, where slurmctld hands it out.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Optional, Sequence, Tuple

from ..core.frozen import frozen
from ..facts.sysfs import format_cpulist, parse_cpulist
from .gres_conf import Gpus
from .layout import Cores, Sockets

# The device files of one GPU or MIG instance.
Key = FrozenSet[str]


@frozen
class Line:
    """What we would write of one GPU, or of one MIG instance, which has ``capabilities``; ``cores`` empty: no
    ``Cores=``."""

    file: str
    type: Optional[str] = None
    cores: Cores = ()
    capabilities: Tuple[str, ...] = ()

    @property
    def files(self) -> Tuple[str, ...]:
        return (self.file, *self.capabilities)

    @property
    def key(self) -> Key:
        return frozenset(self.files)


def differences(
    ours: Sequence[Line], theirs: Gpus, whole: Optional[Sockets] = None, mig: Sequence[str] = (), shards: int = 0
) -> Tuple[str, ...]:
    """``whole``: the sockets of which slurmctld wants whole ones; None: it takes any cores. ``mig``: the device files
    of GPUs in MIG mode. ``shards``: so many of each whole GPU are wanted.

    ``Cores=`` that the other file leaves out are no difference: without them Slurm takes the GPU from any core.
    """
    if theirs.errors:
        return tuple(theirs.errors)
    told: List[str] = []
    if not theirs.lines:
        return ("it has no line about the GPUs of this node",) if theirs.autodetect in (None, "off") else ()
    listed: Dict[Key, Tuple[Optional[str], Optional[str]]] = {}
    for line in theirs.lines:
        if line.files is None:
            told.append("a File= in it is no list of names, at which slurmd ends")
        if line.multiple and not mig:
            told.append("it lists MultipleFiles, the devices of a MIG instance, and MIG is off")
            continue
        if line.count is not None and not line.multiple and line.files and line.count != len(line.files):
            told.append("Count={0} beside {1} device files, at which slurmd ends".format(line.count, len(line.files)))
        for key in [frozenset(line.files or ())] if line.multiple else [frozenset((one,)) for one in line.files or ()]:
            listed[key] = (line.type, line.cores)
    known = {line.key: line for line in ours}
    divided = sorted(one for key in listed for one in key if len(key) == 1 and one in mig)
    if divided:
        told.append("it lists {0} as whole GPUs, and MIG is on there".format(", ".join(divided)))
    gone = [_named(key) for key in listed if key not in known and not (len(key) == 1 and key <= set(mig))]
    missing = [_named(line.key) for line in ours if line.key not in listed]
    if gone:
        told.append(
            "it lists {0}, which this machine does not have, and slurmd does not start then".format(", ".join(gone))
        )
    if missing and any(line.files for line in theirs.lines):
        told.append("it does not list {0}, which no job gets".format(", ".join(missing)))
    if shards and not theirs.shards:
        told.append("it has no line with Name=shard")
    other = [(kind or "(none)", known[key].type) for key, (kind, dummy) in listed.items() if key in known]
    other = [(theirs_, own) for theirs_, own in other if own is not None and theirs_ != own]
    if other:
        told.append(
            "it has Type={0} where slurm_hooks_gres_type is {1}".format(
                *(", ".join(sorted({pair[side] or "" for pair in other})) for side in (0, 1))
            )
        )
    return tuple(told + _cores(listed, known, whole))


def _named(key: Key) -> str:
    """The GPU's own file comes first: /dev/nvidia0 before those in /dev/nvidia-caps."""
    return "+".join(sorted(key, key=lambda file: (file.count("/"), len(file), file)))


def _cores(
    listed: Dict[Key, Tuple[Optional[str], Optional[str]]], known: Dict[Key, Line], whole: Optional[Sockets]
) -> List[str]:
    told: List[str] = []
    for key in listed:
        text = listed[key][1]
        if text is None or key not in known:
            continue
        file = _named(key)
        cores = parse_cpulist(text)
        if whole is not None and whole.around(cores) != cores:
            told.append(
                "{0} has Cores={1}, which is part of a socket of {2} cores, and for that slurmctld 24.11 and newer "
                "takes the node out of service (INVALID_REG)".format(file, text, whole.cores)
            )
        elif known[key].cores and cores != known[key].cores:
            told.append("{0} has Cores={1}, and its own are {2}".format(file, text, format_cpulist(known[key].cores)))
    return told


def lines(ours: Sequence[Line], node: Optional[str] = None, shards: int = 0) -> Tuple[str, ...]:
    """The lines of gres.conf, one a GPU; for a file that all nodes share (``node``), neighbours that agree in one.

    ``shards``: so many of each whole GPU.
    """
    rows: List[Tuple[List[str], Line]] = []
    for line in ours:
        last = rows[-1][1] if rows else None
        alike = last is not None and (last.type, last.cores) == (line.type, line.cores)
        if node is not None and alike and last is not None and not last.capabilities and not line.capabilities:
            rows[-1][0].append(line.file)
        else:
            rows.append((list(line.files), line))
    shared = [line.file for line in ours if shards and not line.capabilities]
    head = "NodeName={0} ".format(node) if node else ""
    return tuple(_words(files, line, node) for files, line in rows) + tuple(
        "{0}Name=shard Count={1} File={2}".format(head, shards, file) for file in shared
    )


def _words(files: Sequence[str], line: Line, node: Optional[str]) -> str:
    words = ["NodeName=" + node] if node else []
    words.append("Name=gpu")
    if line.type:
        words.append("Type=" + line.type)
    words.append(("MultipleFiles=" if line.capabilities else "File=") + ",".join(files))
    if line.cores:
        words.append("Cores=" + format_cpulist(line.cores))
    return " ".join(words)
