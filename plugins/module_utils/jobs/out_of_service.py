# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take this node out of service for good, by itself, and say whether it is empty then.

It is drained first and looked at then: between a look and a drain a job could begin.
"""

from __future__ import annotations

from typing import Optional

from ..core.frozen import frozen
from ..core.host import Host
from ..core.resource import NodeError
from ..slurm import drain, on_node, places
from ..slurm.client import Slurm
from ..slurm.commands import NoSuchNode
from ..slurm.types import Jobs, SlurmNode
from . import gpus_in_use

# A person decided it for this node, by a date or by a command; the others are counted against it all the same.
_PERCENT = 100.0
_UNKNOWN_NODE = (
    "slurmd runs here, so this is a node of Slurm, under another name or in no partition ({0}); stop slurmd when no "
    "job is on the node"
)
_DOWN = "it is down and not drained, so it may return to service in the middle ({0}); drain it by scontrol"


@frozen
class Out:
    """``drained``: by us, now. ``why`` it may not be worked on yet; "": it is out of service and empty."""

    drained: bool = False
    why: str = ""


def busy(here: Jobs) -> str:
    """Which job is on a node; "": none is. Pure."""
    if not here.told:
        return "Slurm does not tell which jobs are on it"
    return "job {0} is on it".format(sorted(here.names)[0]) if here.names else ""


def held(host: Host, here: Jobs, nvml: bool = True) -> str:
    """Why a node is not empty, by its jobs and by its GPUs (``nvml`` as in :func:`gpus_in_use.why_not`); "": it is.

    :raises NodeError: that is not told.
    """
    return busy(here) or gpus_in_use.why_not(host, nvml)


def take_out(host: Host, slurm: Slurm, reason: str, nvml: bool = True) -> Out:
    """:raises NodeError: slurmctld cannot be asked, or refuses."""
    drained = False
    if on_node.has_slurm(host, slurm):
        try:
            node = slurm.look()
        except NoSuchNode as error:
            if places.running(host):
                return Out(why=_UNKNOWN_NODE.format(error.reason))
            # Slurm's commands exist here, and slurmctld has no such node.
            return Out(why=_held(host, on_node.here(host), nvml))
        if not drain.is_drained(node):
            if drain.out_of_service(node):
                return Out(why=_DOWN.format("+".join(sorted(node.flags))))
            back = slurm.drain(node, reason, _PERCENT)
            if back is not None and not drain.is_drained(slurm.look()):
                return Out(why=back)
            drained = back is None
        here, notes = on_node.look(host, slurm, ())
        return Out(drained, " ".join(notes) or _held(host, here, nvml))
    return Out(why=_held(host, on_node.here(host), nvml))


def _held(host: Host, here: Jobs, nvml: bool) -> str:
    """As :func:`held`, for a caller who has to know what was drained all the same."""
    try:
        return held(host, here, nvml)
    except NodeError as error:
        return str(error)


def node_of(host: Host, slurm: Slurm) -> Optional[SlurmNode]:
    """None: it is none of Slurm's nodes.

    :raises NodeError: slurmctld cannot be asked.
    """
    if not on_node.has_slurm(host, slurm):
        return None
    try:
        return slurm.look()
    except NoSuchNode:
        return None
