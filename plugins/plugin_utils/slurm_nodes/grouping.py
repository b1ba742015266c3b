# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes are taken, and the groups that each of them is in. Pure."""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import plain
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.nearest import nearest
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, together
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import gres_conf
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import states as slurm_states
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import SlurmNode


def chosen(
    nodes: Sequence[SlurmNode], partitions: Sequence[str], states: Sequence[str], exclude_states: Sequence[str]
) -> Tuple[SlurmNode, ...]:
    """Those of these partitions, of one of these states and of none of the excluded; an empty list chooses all.

    :raises NodeError: there is no such partition, or no such state.
    """
    there = {partition for node in nodes for partition in node.partitions}
    for name in partitions:
        if name not in there:
            told = ", ".join(sorted(there)) or "none"
            raise NodeError("partition {0!r}".format(name), "no node is in it", "take one of: {0}".format(told))
    for name in (*states, *exclude_states):
        if name not in slurm_states.KNOWN:
            remedy = "take one of: {0}".format(", ".join(slurm_states.KNOWN))
            raise NodeError("state {0!r}".format(name), "Slurm has none", remedy)
    return tuple(
        node
        for node in nodes
        if (not partitions or set(partitions) & set(node.partitions))
        and (not states or set(states) & set(states_of(node)))
        and not set(exclude_states) & set(states_of(node))
    )


def states_of(node: SlurmNode) -> Tuple[str, ...]:
    """As sinfo words them."""
    return slurm_states.names(node.flags)


def gpus_of(node: SlurmNode) -> int:
    return sum(count for name, dummy, count in gres_conf.entries(node.gres) if name == "gpu")


def variables(node: SlurmNode) -> Dict[str, Any]:
    """The host variables, without their common beginning."""
    told = plain(node)
    del told["flags"], told["host"]
    told["states"] = list(states_of(node))
    told["gres"] = [
        {"name": name, "type": kind or None, "count": count} for name, kind, count in gres_conf.entries(node.gres)
    ]
    told["gpus"] = gpus_of(node)
    return {key: None if value == "" else value for key, value in told.items()}


def stored(node: SlurmNode) -> Dict[str, Any]:
    """For a cache of JSON."""
    return dict(plain(node), flags=sorted(node.flags))


def restored(told: Mapping[str, Any]) -> SlurmNode:
    """From what :func:`stored` and JSON made of it.

    :raises TypeError: this is something else.
    """
    given: Dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in told.items()}
    return SlurmNode(**dict(given, flags=frozenset(given["flags"])))


def refuse_unknown(given: Iterable[object], known: Iterable[str]) -> None:
    """:raises NodeError: there are options that this plugin has not."""
    names = sorted(known)
    wrong = [
        NodeError(
            "option {0!r}".format(str(one)),
            "this plugin has none of that name",
            nearest(str(one), names) + "'ansible-doc -t inventory trainyard.gpu_node.slurm_nodes' lists them",
        )
        for one in given
        if one not in names
    ]
    if wrong:
        raise together(wrong)


def refuse_loopback(nodes: Sequence[SlurmNode]) -> None:
    """What is loopback on the machine that was asked is the machine of Ansible here.

    :raises NodeError: one of these nodes is.
    """
    for node in nodes:
        for word in (node.name, node.address):
            if _loopback(word.lower()):
                raise NodeError(
                    "node {0}".format(node.name),
                    "{0!r} is not the node but this machine, since another one was asked".format(word),
                    "correct its NodeAddr in slurm.conf, or set allow_loopback if the tunnel to it ends here",
                )


def _loopback(word: str) -> bool:
    if word.split(".")[0] == "localhost" or re.fullmatch(r"127(\.[0-9]+)+", word):
        return True
    try:
        return ipaddress.ip_address(word.split("%")[0]).is_loopback
    except ValueError:
        return False


def groups_of(node: SlurmNode, prefix: str, gpu_group: str) -> List[str]:
    """``gpu_group`` has the nodes with GPUs that a machine is behind."""
    names = [("partition", one) for one in node.partitions]
    names += [("feature", one) for one in node.features]
    names += [("state", one) for one in states_of(node)]
    for name, kind, _dummy in gres_conf.entries(node.gres):
        names += [("gres", name), *([("gres", "{0}_{1}".format(name, kind))] if kind else [])]
    names += [("reservation", one) for one in node.reservation.split(",") if one]
    groups = ["{0}{1}_{2}".format(prefix, what, one) for what, one in names]
    if gpu_group and gpus_of(node) and not slurm_states.away(node.flags):
        groups.append(gpu_group)
    return list(dict.fromkeys(_names(groups)))


def _names(groups: Iterable[str]) -> Iterable[str]:
    """Names of groups are what names of variables are."""
    for one in groups:
        name = re.sub(r"[^A-Za-z0-9_]", "_", one)
        yield "_" + name if name[:1].isdigit() else name
