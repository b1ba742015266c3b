# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""slurm.conf: the line of one node and single options, with Slurm's own rules for what is left out. Pure."""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Optional, Tuple

from ..core.frozen import frozen
from . import hosts, syntax

# Each of these makes the prolog run when the job gets its nodes (read_config.c: prolog_str2flags).
ALLOC_FLAGS = frozenset(("alloc", "contain", "x11", "nohold", "deferbatch", "runinjob", "forcerequeueonfail"))


@frozen
class Node:
    """``NodeName=`` of one node, completed as ``read_config.c: _parse_nodename`` does it; ``cores`` are a socket's."""

    cpus: int = 1
    sockets: int = 1
    cores: int = 1
    threads: int = 1
    gres: str = ""
    state: str = ""

    @property
    def cloud(self) -> bool:
        return self.state.lower() == "cloud"


def node(text: syntax.Text, name: str) -> Optional[Node]:
    """None where slurm.conf does not name it, as with a dynamic node (``slurmd -Z``)."""
    keys = _keys(text, name)
    return None if keys is None else _completed(keys)


def node_name(text: syntax.Text, host_name: str) -> Optional[str]:
    """The NodeName of a host, by ``NodeHostname=`` where the two differ."""
    for names, keys in _nodes(text):
        if names.lower() == "default":
            continue
        if hosts.holds(keys.get("nodehostname", names), host_name):
            both = hosts.names(names), hosts.names(keys.get("nodehostname", names))
            found = dict(zip(both[1] or (), both[0] or ())).get(host_name)
            return found or host_name
    return None


def has_nodes(text: syntax.Text) -> bool:
    return bool(_nodes(text))


def _nodes(text: syntax.Text) -> Tuple[Tuple[str, Dict[str, str]], ...]:
    return syntax.records(text, "nodename")


def _keys(text: syntax.Text, name: str) -> Optional[Dict[str, str]]:
    """The keys of one node, with those of the DEFAULT lines before it."""
    default: Dict[str, str] = {}
    for names, keys in _nodes(text):
        if names.lower() == "default":
            default.update(keys)
        elif hosts.holds(names, name):
            return dict(default, **keys)
    return None


def _completed(keys: Dict[str, str]) -> Node:
    def number(*names: str) -> Optional[int]:
        found = next((keys[name] for name in names if name in keys), None)
        return max(1, int(found)) if found is not None and found.isdigit() else None

    cores, threads, boards = number("corespersocket") or 1, number("threadspercore") or 1, number("boards") or 1
    cpus, on_board = number("cpus", "procs"), number("socketsperboard")
    sockets = number("sockets") if on_board is None else boards * on_board
    if sockets is None:
        fits = cpus is not None and cpus >= cores * threads and cpus % (cores * threads) == 0
        sockets = cpus // (cores * threads) if fits and cpus is not None else boards
    if cpus not in (sockets, sockets * cores, sockets * cores * threads):
        cpus = sockets * cores * threads
    return Node(cpus or 1, sockets, cores, threads, keys.get("gres", ""), keys.get("state", ""))


def option(text: syntax.Text, key: str) -> Optional[str]:
    """The last value of an option; None where it is not set. scontrol tells ``(null)`` and ``(none)`` for that."""
    found = [value for value in syntax.values(text, key.lower()) if value.lower() not in ("(null)", "(none)")]
    return found[-1] if found else None


def words(text: syntax.Text, key: str) -> FrozenSet[str]:
    """The words of an option with commas, in small letters."""
    return frozenset(word.strip().lower() for word in (option(text, key) or "").split(",") if word.strip())


def power_saving(text: syntax.Text, name: str) -> Optional[int]:
    """After how many idle seconds this node is powered down; None: never.

    power_save.c, 22.05 to 26.05: the longest SuspendTime of the node's partitions counts, and without one that of the
    cluster; from 26.05 on, that of the node's own line comes first. -1 and INFINITE mean never.
    """
    if option(text, "SuspendProgram") is None:
        return None
    own = (_keys(text, name) or {}).get("suspendtime")
    found = [own] if own is not None else _suspend_times(text, name) or [option(text, "SuspendTime") or ""]
    values = [value.split(" ")[0] for value in found]
    return max(int(value) for value in values) if all(value.isdigit() for value in values) else None


def _suspend_times(text: syntax.Text, name: str) -> List[str]:
    """SuspendTime of the node's partitions. Slurm does not take it from PartitionName=DEFAULT, but Nodes= it does."""
    found: List[str] = []
    nodes = ""
    for partition, keys in syntax.records(text, "partitionname"):
        if partition.lower() == "default":
            nodes = keys.get("nodes", nodes)
        elif "suspendtime" in keys and _in_list(text, keys.get("nodes", nodes), name):
            found.append(keys["suspendtime"])
    return found


def _in_list(text: syntax.Text, nodes: str, name: str) -> bool:
    """Whether ``Nodes=`` of a partition means this node: by its name, as ALL, or by a node set."""
    if nodes.upper() == "ALL" or hosts.holds(nodes, name):
        return True
    keys = _keys(text, name) or {}
    features = (keys.get("features") or keys.get("feature") or "").split(",")
    return any(
        hosts.holds(nodes, node_set) and (hosts.holds(one.get("nodes", ""), name) or one.get("feature") in features)
        for node_set, one in syntax.records(text, "nodeset")
    )
