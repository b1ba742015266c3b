# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all scripts have: a header that tells what they do, Slurm's directives, and pieces that several need.

Scripts are started by ``sbatch``, which copies them elsewhere, so whatever they call stands in them as a whole path.
"""

from __future__ import annotations

import posixpath
import textwrap
from typing import Any, List, Mapping, Sequence, Tuple

from ....core.frozen import frozen
from ....core.managed_files import MARKER
from ....core.mounts import SCRATCH
from ....facts.topology import Topology
from ....slurm.gres_conf import product_type
from ..options import Desired

_WIDTH = 116
_SMALL_MEMORY = "4G"
SHARED = "Submit it from a folder that all nodes see."

#: Where a step has a container image: its options, and what the container gets to see of the node.
CONTAINER = """\
# The container sees what NCCL reads on the node: its settings, and the files that these name.
mounts=({mounts})
for file in /etc/nccl.conf $(sed -n -E 's/^NCCL_(TOPO|GRAPH)_FILE=//p' /etc/nccl.conf 2>/dev/null); do
  if [ -e "$file" ]; then
    mounts+=("$file:$file:ro")
  fi
done
container=(--container-image="$image")
if [ "${{#mounts[@]}}" -gt 0 ]; then
  container+=(--container-mounts="$(IFS=,; echo "${{mounts[*]}}")")
fi
"""

#: An MPI in PATH, by the module where there are modules.
MODULE = """\
if ! command -v mpirun >/dev/null && command -v module >/dev/null; then
  set +u  # the functions of module systems read what may be unset
  module load {module}
  set -u
fi
"""

_MPIRUN_NODES = """\
where=()
if [ -n "${{SLURM_JOB_ID:-}}" ]; then
  nodes=$SLURM_JOB_NUM_NODES
  export SLURM_WHOLE=1  # mpirun's own step gets all CPUs of each node
{otherwise}fi
"""
_HOSTFILE = """\
  # A line a node, each once, with as many slots as it has ranks.
  hostfile=$(mktemp)
  trap 'rm -f "$hostfile"' EXIT
  awk '!/^[[:space:]]*(#|$)/ && !seen[$1]++ {{ print $1 " slots={ranks}" }}' "$1" >"$hostfile"
  shift
  nodes=$(wc -l <"$hostfile")
  where=(--hostfile "$hostfile")
"""
HOSTFILE_NEEDED = (
    """\
else
  if [ $# -eq 0 ]; then
    echo "usage: $0 HOSTFILE (a host name a line), or submit it with sbatch" >&2
    exit 2
  fi
"""
    + _HOSTFILE
)
HOSTFILE_OR_HERE = (
    """\
elif [ "${{1:-}}" = --hostfile ] && [ $# -ge 2 ]; then
  shift
"""
    + _HOSTFILE
    + """\
else
  nodes=1
"""
)

#: What a user has set reaches every rank.
PASSED = """\
passed=()
for name in "${!NCCL_@}" "${!UCX_@}" LD_LIBRARY_PATH; do
  if [ -n "${!name:-}" ]; then
    passed+=(-x "$name")
  fi
done
"""


@frozen
class Made:
    """What a script is made for: ``ranks`` on each node, of which each has one of ``gpus`` (0: no GPU).

    ``wrapper`` is the path of the script that binds a rank, ``scratch`` where a node has its fast disks.
    """

    topology: Topology
    desired: Desired
    profile: Mapping[str, Any]
    ranks: int
    gpus: int
    wrapper: str
    scratch: str = SCRATCH

    @property
    def slurm_gpus(self) -> str:
        """``[TYPE:]COUNT``, empty without GPUs."""
        kind = self.desired.gres_type
        if kind == "auto":
            kind = next((product_type(gpu.product) or "" for gpu in self.topology.gpus if gpu.product), "")
        return "{0}{1}".format(kind + ":" if kind else "", self.gpus) if self.gpus else ""

    def path(self, name: str) -> str:
        return "{0}/{1}".format(self.desired.folder, name)

    @property
    def machine(self) -> str:
        """``ranks`` and GPUs of a node, and its profile where it has one."""
        what = "{0} GPU(s)".format(self.gpus) if self.gpus else "{0} CPU(s)".format(len(self.topology.cpus.online))
        name = self.profile.get("name")
        known = "of profile {0}".format(name) if isinstance(name, str) and name != "unknown" else "of unknown type"
        return "nodes {0} with {1}, {2} rank(s) on each".format(known, what, self.ranks)


@frozen
class Header:
    """``submit``, ``expect`` and ``read``: sentences or commands, one a line."""

    title: str
    submit: Sequence[str]
    expect: Sequence[str]
    read: Sequence[str]


def script(
    made: Made, name: str, header: Header, tasks_per_node: int, body: Sequence[str], small: bool = False
) -> Tuple[str, str]:
    """(name, text). ``tasks_per_node``: what Slurm is asked for, which need not be the number of ranks. ``small``: a
    part of one node without GPUs will do."""
    lines = ["#!/bin/bash -l", MARKER + " Changes will be lost; work on a copy.", "#"]
    lines += _wrapped("", header.title)
    lines += ["#"]
    for label, entries in (("Submit:", header.submit), ("Expect:", header.expect), ("Read:", header.read)):
        for place, entry in enumerate(entries):
            lines += _wrapped("" if place else label, entry, 8)
    lines += _wrapped("Made for", "any node." if small else made.machine + ".", 8)
    lines += ["#SBATCH " + one for one in _directives(made, name, tasks_per_node, small)]
    lines += ["set -euo pipefail", ""]
    return name, "\n".join(lines) + "\n" + "\n".join(part.rstrip("\n") + "\n" for part in body)


def _wrapped(label: str, text: str, indent: int = 0) -> List[str]:
    first = "# " + (label.ljust(indent) + " " if indent else "")
    # A command that is too long stays on its line, so that it can be copied.
    if text.startswith("sbatch ") or text.startswith("/"):
        return [first + text]
    return textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent="#".ljust(len(first)))


def _directives(made: Made, name: str, tasks_per_node: int, small: bool) -> List[str]:
    desired = made.desired
    found = [
        "--job-name=" + name.split(".")[0],
        "--nodes={0}".format(1 if small else desired.nodes),
        "--ntasks-per-node={0}".format(tasks_per_node),
        # Masks of CPUs need the whole node. It has all CPUs and GPUs of it, so no --cpus-per-task, which srun would
        # take over as --exact from 23.11 on; memory has to be asked for (sbatch(1): --exclusive).
        *(() if small else ("--exclusive",)),
    ]
    for option, value in (
        ("mem", _SMALL_MEMORY if small else desired.memory),
        ("time", desired.time),
        ("output", posixpath.join(desired.log_folder, "%x-%j.out")),
        ("error", posixpath.join(desired.log_folder, "%x-%j.err") if desired.error_file else ""),
        ("gpus-per-node", "" if small else made.slurm_gpus),
        ("partition", desired.partition),
        ("account", desired.account),
    ):
        if value:
            found.append("--{0}={1}".format(option, value))
    return [*found, *desired.directives]


def container(made: Made, more: Sequence[str] = ()) -> str:
    """``more``: mounts that the script makes itself, as shell words."""
    words = ['"{0}"'.format(one) for one in (*made.desired.mounts, *more)]
    return CONTAINER.format(mounts=" ".join(words))


def submits(made: Made, name: str, arguments: str = "") -> Tuple[str, ...]:
    """Two nodes first: what is wrong there is wrong on a hundred."""
    path = made.path(name) + (" " + arguments if arguments else "")
    nodes = "node" if made.desired.nodes == 1 else "nodes"
    return (
        "sbatch {0}    # {1} {2}".format(path, made.desired.nodes, nodes),
        "sbatch --nodes=1 {0}    # one node, or any number".format(path),
    )


def exports(environment: Sequence[Tuple[str, str]]) -> str:
    return "".join("export {0}={1}\n".format(name, value) for name, value in environment)


def command(words: Sequence[str]) -> str:
    """One command over several lines."""
    return " \\\n  ".join(words) + "\n"


def mpirun_nodes(made: Made, otherwise: str) -> str:
    """$nodes and ${where[@]}: those of a job, or as ``otherwise`` has it outside of Slurm."""
    return _MPIRUN_NODES.format(otherwise=otherwise.format(ranks=made.ranks))
