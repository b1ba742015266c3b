# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gres.conf that is not ours, against what this machine is: what differs, in words. Pure.

It is for clusters whose gres.conf belongs to somebody else, such as CycleCloud, which writes it at each
``azslurm scale``, and configless ones, where slurmctld hands it out.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

from ...core.frozen import frozen
from ...facts.sysfs import format_cpulist, parse_cpulist
from ...slurm.gres_conf import Gpus
from .layout import Cores, Sockets


@frozen
class Line:
    """What we would write of one GPU; ``cores`` empty: no ``Cores=``."""

    file: str
    type: Optional[str] = None
    cores: Cores = ()


def differences(ours: Sequence[Line], theirs: Gpus, whole: Optional[Sockets] = None) -> Tuple[str, ...]:
    """``whole``: the sockets of which slurmctld wants whole ones; None: it takes any cores.

    ``Cores=`` that the other file leaves out are no difference: without them Slurm takes the GPU from any core.
    """
    if theirs.errors:
        return tuple(theirs.errors)
    told: List[str] = []
    if not theirs.lines:
        return ("it has no line about the GPUs of this node",) if theirs.autodetect in (None, "off") else ()
    listed: Dict[str, Tuple[Optional[str], Optional[str]]] = {}
    for line in theirs.lines:
        if line.files is None:
            told.append("a File= in it is no list of names, at which slurmd ends")
        if line.multiple:
            told.append("it lists MultipleFiles, the devices of a MIG instance, and MIG is off")
        if line.count is not None and not line.multiple and line.files and line.count != len(line.files):
            told.append("Count={0} beside {1} device files, at which slurmd ends".format(line.count, len(line.files)))
        for file in line.files or ():
            listed[file] = (line.type, line.cores)
    known = {line.file: line for line in ours}
    gone = [file for file in listed if file not in known]
    missing = [line.file for line in ours if line.file not in listed]
    if gone:
        told.append(
            "it lists {0}, which this machine does not have, and slurmd does not start then".format(", ".join(gone))
        )
    if missing and any(line.files for line in theirs.lines):
        told.append("it does not list {0}, which no job gets".format(", ".join(missing)))
    types = {kind for file, (kind, dummy) in listed.items() if known.get(file) and kind != known[file].type}
    if types and any(line.type for line in ours):
        told.append(
            "it has Type={0} where slurm_hooks_gres_type is {1}".format(
                ", ".join(sorted(kind or "(none)" for kind in types)), ours[0].type
            )
        )
    return tuple(told + _cores(listed, known, whole))


def whole_ones(theirs: Gpus, mig: Sequence[str]) -> Tuple[str, ...]:
    """Of ``mig``, the device files of GPUs in MIG mode, those that are listed as if a job could have the whole GPU."""
    return tuple(file for line in theirs.lines if not line.multiple for file in line.files or () if file in mig)


def _cores(
    listed: Dict[str, Tuple[Optional[str], Optional[str]]], known: Dict[str, Line], whole: Optional[Sockets]
) -> List[str]:
    told: List[str] = []
    for file in listed:
        text = listed[file][1]
        if text is None or file not in known:
            continue
        cores = parse_cpulist(text)
        if whole is not None and whole.around(cores) != cores:
            told.append(
                "{0} has Cores={1}, which is part of a socket of {2} cores, and for that slurmctld 24.11 and newer "
                "takes the node out of service (INVALID_REG)".format(file, text, whole.cores)
            )
        elif known[file].cores and cores != known[file].cores:
            told.append("{0} has Cores={1}, and its own are {2}".format(file, text, format_cpulist(known[file].cores)))
    return told


def lines(ours: Sequence[Line], node: Optional[str] = None) -> Tuple[str, ...]:
    """The lines of gres.conf, one a GPU; for a file that all nodes share (``node``), neighbours that agree in one."""
    rows: List[Tuple[List[str], Line]] = []
    for line in ours:
        last = rows[-1][1] if rows else None
        if node is not None and last is not None and (last.type, last.cores) == (line.type, line.cores):
            rows[-1][0].append(line.file)
        else:
            rows.append(([line.file], line))
    return tuple(_words(files, line, node) for files, line in rows)


def _words(files: Sequence[str], line: Line, node: Optional[str]) -> str:
    words = ["NodeName=" + node] if node else []
    words.append("Name=gpu")
    if line.type:
        words.append("Type=" + line.type)
    words.append("File=" + ",".join(files))
    if line.cores:
        words.append("Cores=" + format_cpulist(line.cores))
    return " ".join(words)
