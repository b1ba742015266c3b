# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which sockets slurmctld has of a node, and which ``Cores=`` of its GPUs it takes. Pure.

From 24.11.0 on slurmctld wants ``Cores=`` to cover whole sockets, and takes a node with half a one out of service
(``INVALID_REG``; gres.c: ``_check_core_range_matches_sock``). Its sockets are those that slurmd registers with
(slurmd.c: ``_read_config``), which are not always those of slurm.conf. What cannot be told is left out, because a GPU
without ``Cores=`` may be used from any core.
"""

from __future__ import annotations

import re
from typing import FrozenSet, Optional, Sequence, Tuple

from ..core.frozen import frozen
from .slurm_conf import Node

Cores = Tuple[int, ...]
WHOLE_SOCKETS = (24, 11)
# slurmctld 24.11 takes slurmds back to this one (slurm_protocol_common.h: SLURM_MIN_PROTOCOL_VERSION).
OLDEST_BESIDE_IT = (23, 2)


@frozen
class Machine:
    """What is there, counted: cores with an online CPU, online CPUs, packages, NUMA nodes with CPUs, level-3 caches."""

    cores: int = 0
    cpus: int = 0
    packages: int = 0
    numa_nodes: int = 0
    l3_groups: int = 0


@frozen
class Sockets:
    """Sockets as Slurm counts them: so many, each of so many cores."""

    sockets: int
    cores: int

    @property
    def all(self) -> int:
        return self.sockets * self.cores

    def around(self, cores: Cores) -> Cores:
        """These cores, and the others of their sockets."""
        touched = sorted({core // self.cores for core in cores})
        return tuple(core for one in touched for core in range(one * self.cores, (one + 1) * self.cores))


@frozen
class Slurm:
    """What decides: versions, the node's line, and words of slurm.conf in small letters.

    ``controller`` is None while slurmctld does not answer; ``parameters`` are SlurmdParameters.
    """

    slurmd: Optional[Tuple[int, int]] = None
    controller: Optional[Tuple[int, int]] = None
    node: Optional[Node] = None
    parameters: FrozenSet[str] = frozenset()
    select: str = ""


@frozen
class Choice:
    """Slurm's numbers of the cores of each GPU, in the order given; empty ones: no ``Cores=``. ``note``: why so.

    ``kind``: numa, sockets or none.
    """

    kind: str
    cores: Tuple[Cores, ...]
    note: Optional[str] = None


def version(text: Optional[str]) -> Optional[Tuple[int, int]]:
    """``slurm 24.11.5``, Debian's ``slurm-wlm 22.05.8``, or the bare number, as (24, 11)."""
    found = re.search(r"(?:^|\s)(\d{2})\.(\d{2})\.\d", text or "")
    return (int(found.group(1)), int(found.group(2))) if found else None


def wants_whole_sockets(slurm: Slurm) -> bool:
    """It is slurmctld that checks. While it does not answer, an old slurmd may belong to a new one."""
    if slurm.controller is not None:
        return slurm.controller >= WHOLE_SOCKETS
    return slurm.slurmd is None or slurm.slurmd >= OLDEST_BESIDE_IT


def registered(slurm: Slurm, machine: Machine) -> Optional[Sockets]:
    """The sockets that slurmd registers with; None where slurm.conf has no line about this node."""
    node = slurm.node
    if node is None or not machine.cores:
        return None
    actual = _actual(slurm, machine)
    overrides = "config_overrides" in slurm.parameters
    if node.sockets == node.cpus == machine.cpus and node.cores == node.threads == 1:
        return Sockets(node.sockets, 1)  # CPUs= and nothing else: each CPU is a socket
    if not overrides and machine.cpus < node.cpus:
        return actual
    tracked = slurm.select.lower() != "select/linear"
    if not overrides and tracked and actual.all == node.sockets * node.cores:
        return actual
    return Sockets(node.sockets, node.cores)


def _actual(slurm: Slurm, machine: Machine) -> Sockets:
    sockets = machine.packages
    if "l3cache_as_socket" in slurm.parameters:
        sockets = machine.l3_groups
    elif "numa_node_as_socket" in slurm.parameters:
        sockets = machine.numa_nodes
    sockets = max(1, sockets)
    return Sockets(sockets, max(1, machine.cores // sockets))


def choose(near: Sequence[Cores], machine: Machine, slurm: Slurm, wish: str = "auto") -> Choice:
    """``near``: hwloc's numbers of the cores near each GPU. ``wish``: auto, sockets or none."""
    nothing = tuple(() for dummy in near)
    if wish == "none" or not near or not any(near):
        return Choice("none", nothing)
    if not all(near):
        return Choice("none", nothing, "Cores are left out: the NUMA node is not known of every GPU")
    must = wants_whole_sockets(slurm)
    whole = must or wish == "sockets"
    because = _taker(slurm) if must else "slurm_hooks_gres_cores is sockets"
    sockets = registered(slurm, machine)
    if sockets is None:
        why = "slurm.conf has no NodeName line of this node, which would tell its sockets"
        return Choice("none", nothing, _left_out(because, why)) if whole else Choice("numa", tuple(near))
    if sockets.all == machine.cpus and sockets.all != machine.cores:
        threads = machine.cpus // machine.cores  # each CPU counts as a core, siblings one after the other
        near = [tuple(core * threads + one for core in cores for one in range(threads)) for cores in near]
    elif sockets.all != machine.cores:
        why = "slurm.conf gives this node {0} of {1}, and it has {2}".format(
            _count(sockets.sockets, "socket"), _count(sockets.cores, "core"), _count(machine.cores, "core")
        )
        return Choice("none", nothing, _left_out(because, why)) if whole else Choice("numa", tuple(near))
    around = tuple(sockets.around(cores) for cores in near)
    if around == tuple(near):
        return Choice("numa", around)
    if not whole:
        return Choice("numa", tuple(near), _BEFORE_UPGRADE)
    layout = "Slurm counts {0} of {1} here".format(_count(sockets.sockets, "socket"), _count(sockets.cores, "core"))
    if all(len(cores) == sockets.all for cores in around):
        return Choice("none", nothing, _left_out(because, layout + ", so that Cores would name the whole machine"))
    return Choice("sockets", around, _WIDENED.format(because, layout, _remedy(machine)))


_BEFORE_UPGRADE = (
    "Cores name NUMA nodes, which are parts of sockets here: before slurmctld is upgraded to 24.11 or newer, set "
    "slurm_hooks_gres_cores to sockets and run this again on every node, or it takes the nodes out of service "
    "(INVALID_REG)"
)
_WIDENED = "Cores name the whole socket of each GPU, not its NUMA node: {0}, and {1}; for NUMA nodes {2}"


def _left_out(because: str, why: str) -> str:
    return "Cores are left out: {0}, and {1}".format(because, why)


def _taker(slurm: Slurm) -> str:
    if slurm.controller is None:
        return "slurmctld does not answer, and from 24.11 on it takes whole sockets only"
    return "slurmctld {0}.{1:02} takes whole sockets only".format(*slurm.controller)


def _remedy(machine: Machine) -> str:
    if machine.cores % max(1, machine.numa_nodes):
        return "jobs can use gpunode pin"
    return (
        "set SlurmdParameters=numa_node_as_socket and, for this node, Sockets={0} CoresPerSocket={1} in slurm.conf, "
        "restart slurmctld and every slurmd, and run this again".format(
            machine.numa_nodes, machine.cores // max(1, machine.numa_nodes)
        )
    )


def _count(number: int, what: str) -> str:
    return "{0} {1}{2}".format(number, what, "" if number == 1 else "s")
