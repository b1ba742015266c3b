# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the ranks of a script go, by the pinning library, in words that hold on any number of nodes. Pure."""

from __future__ import annotations

import re
import shlex
from typing import Tuple

from ...core.frozen import frozen, replaced
from ...core.managed_files import MARKER
from ...facts.topology import Topology
from ...placement import Placement, Request, place
from ...placement import render as pinning
from ...placement.machine import machine
from ...placement.render import hpl as render_hpl
from ...placement.render import openmpi as render_openmpi
from ...placement.render import srun as render_srun
from ...placement.render import torchrun as render_torchrun
from ...placement.render.rendered import Rendered

# The pinning library loads a launcher when it is asked for; Ansible packs for a node only what is imported by name.
_LAUNCHERS = {"hpl": render_hpl, "openmpi": render_openmpi, "srun": render_srun, "torchrun": render_torchrun}


@frozen
class Launch:
    """``words`` are already quoted for a shell; ``environment`` is exported before."""

    words: Tuple[str, ...]
    environment: Tuple[Tuple[str, str], ...] = ()
    wrapped: bool = False


def gpus(topology: Topology) -> int:
    """How many GPUs can get a rank: not one that was given to another driver."""
    return len(machine(topology, Request(ranks=1)).gpus)


def placed(topology: Topology, launcher: str, ranks: int, gpus: str, bind: str) -> Placement:
    """:raises Refused: when this machine has no room for them."""
    request = Request(ranks=ranks, gpus=gpus, bind=bind, share_cores=_crowded(topology, ranks, gpus))
    return place(topology, pinning.adapt(launcher, request))


def _crowded(topology: Topology, ranks: int, gpus: str) -> bool:
    """More GPUs than cores (a small virtual machine): each rank is beside its GPU all the same, on shared cores."""
    return gpus == "each" and ranks > topology.cpus.cores


def _rendered(topology: Topology, launcher: str, ranks: int, gpus: str, bind: str) -> Rendered:
    # GPUs by number: the UUIDs are those of one node.
    anywhere = replaced(topology, gpus=tuple(replaced(gpu, uuid=None) for gpu in topology.gpus))
    placement = placed(anywhere, launcher, ranks, gpus, bind)
    rendered: Rendered = _LAUNCHERS[launcher].render(placement, topology, "pin")
    return rendered


def srun(topology: Topology, ranks: int) -> Launch:
    """Masks of whole NUMA nodes: NCCL's threads and data loaders come and go.

    No --gpu-bind: the programs choose a device by their local rank, and need to see all of them.
    """
    rendered = _rendered(topology, "srun", ranks, "each", "numa")
    here_only = ("--nodes=", "--gpu-bind=")
    return Launch(tuple(shlex.quote(word) for word in rendered.arguments if not word.startswith(here_only)))


def mpirun(topology: Topology, ranks: int, gpus: str, bind: str, wrapper: str) -> Launch:
    """A mapping where it says the same on each of many nodes, otherwise the script ``wrapper``.

    A mapping fills a node before it goes to the next one, so it must fill it with exactly these ranks.
    """
    rendered = _rendered(topology, "openmpi", ranks, gpus, bind)
    for word in rendered.arguments if not _crowded(topology, ranks, gpus) else ():
        found = re.match(r"^ppr:(\d+):numa", word)
        if found and int(found.group(1)) * len(topology.numa_nodes) == ranks:
            return Launch(tuple(shlex.quote(one) for one in rendered.arguments), rendered.environment)
    order = (("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),) if gpus == "each" else ()
    words = ["--map-by", "ppr:{0}:node".format(ranks), "--bind-to", "none"]
    if order:
        words += ["-x", order[0][0]]
    return Launch(tuple(words), order, wrapped=bool(wrapper))


def wrapper_text(topology: Topology, ranks: int, gpus: str, bind: str) -> str:
    """The script that binds each rank by its local number and becomes the program."""
    rendered = _rendered(topology, "torchrun", ranks, gpus, bind)
    first, rest = rendered.files[0].text.split("\n", 1)
    return "{0}\n{1} Changes will be lost.\n{2}".format(first, MARKER, rest)


def threads(topology: Topology, ranks: int) -> int:
    """OMP_NUM_THREADS of a rank: its fair share of cores."""
    return min(rank.threads for rank in placed(topology, "torchrun", ranks, "each", "numa").ranks)


def hpl(topology: Topology, ranks: int) -> Launch:
    """NVIDIA's flags, a pair in each, and the threads of a rank."""
    rendered = _rendered(topology, "hpl", ranks, "each", "core")
    words = [shlex.quote(word) for word in rendered.arguments]
    pairs = tuple("{0} {1}".format(*words[place : place + 2]) for place in range(0, len(words), 2))
    return Launch(pairs, rendered.environment)
