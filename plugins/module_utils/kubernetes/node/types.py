# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node as the API of its cluster sees it, what is asked for it, and what is done to it."""

from __future__ import annotations

import enum
import re
from typing import Any, Dict, Optional, Tuple

from ...core.frozen import frozen
from ...core.resource import Action, NodeError
from ...slurm import drain
from ...slurm.node import reason as reasons
from ...slurm.node.types import Outcome, Owner, check_seconds, check_wish
from ..kubectl import NAME

#: Whose a cordon is, and why: a text of the same form as the reason of a drain of ours in Slurm.
ANNOTATION = "trainyard.io/gpu-node-drain"
_OURS = drain.PREFIX + drain.ROLLING
WAITS = "waits for its pods"
# In our annotation, behind "; before: ". Kubernetes itself keeps no reason.
_BEFORE = "cordoned by somebody else"


class Busy(enum.Enum):
    """What becomes of a node with pods that hold GPUs, when the time to wait for them is over."""

    LEAVE = "leave"
    DRAIN = "drain"
    EVICT = "evict"


@frozen
class Pod:
    """A pod that has not ended, of no DaemonSet and not from a file of the kubelet. ``managed``: something makes it
    anew elsewhere. ``local``: it has data in an emptyDir. ``leaving``: it is being deleted. ``held``: what the API said
    when it did not evict it."""

    namespace: str
    name: str
    uid: str = ""
    gpus: bool = False
    managed: bool = True
    local: bool = False
    leaving: bool = False
    held: str = ""

    @property
    def label(self) -> str:
        return "{0}/{1}".format(self.namespace, self.name)


@frozen
class State:
    """``version``: the resourceVersion of the node. ``annotation``: ours, which tells nothing on a node that is not
    cordoned."""

    registered: bool = True
    cordoned: bool = False
    ready: bool = True
    annotation: Optional[str] = None
    version: str = ""
    pods: Tuple[Pod, ...] = ()

    @property
    def owner(self) -> Owner:
        if not self.cordoned:
            return Owner.NOBODY
        return Owner.ROLLING if (self.annotation or "").startswith(_OURS) else Owner.SOMEBODY

    @property
    def ours(self) -> Optional[reasons.Ours]:
        """What our cordon tells of itself, where there is one."""
        return reasons.read(self.annotation or "") if self.owner is Owner.ROLLING else None

    @property
    def before(self) -> Optional[str]:
        """Not None: the node was cordoned before us, and stays so."""
        if self.ours is not None:
            return self.ours.before
        return None if self.owner is Owner.NOBODY else _BEFORE

    def told(self) -> Dict[str, Any]:
        flags = [("unregistered", not self.registered), ("cordoned", self.cordoned), ("ready", self.ready)]
        return {
            "node_state": [name for name, holds in flags if holds and (self.registered or name == "unregistered")],
            "node_reason": self.annotation if self.cordoned else None,
            "pods": [pod.label for pod in self.with_gpus],
        }

    @property
    def with_gpus(self) -> Tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if pod.gpus)


@frozen
class Desired:
    """``drained``: cordoned and without pods that hold GPUs, or else in service again. ``evict_seconds``: how long pods
    that are evicted may take to end. ``evict_unmanaged``, ``delete_emptydir_data``: evict pods that nothing makes anew,
    and such that lose data by it. The rest is as for a node of Slurm."""

    name: str
    drained: bool = True
    reason: str = "being converged"
    busy: Busy = Busy.LEAVE
    wait_seconds: float = 0.0
    evict_seconds: float = 300.0
    evict_unmanaged: bool = False
    delete_emptydir_data: bool = False
    others: bool = False
    run: str = ""
    take_over: bool = False
    active: bool = False
    owes: str = ""

    def __post_init__(self) -> None:
        if len(self.name) > 253 or not re.fullmatch(NAME, self.name):
            remedy = "give the name that 'kubectl get nodes' has"
            raise NodeError("name {0!r}".format(self.name), "this is not the name of one node", remedy)
        check_wish(self.reason, self.run, self.owes, self.wait_seconds)
        check_seconds("evict_seconds", self.evict_seconds)

    @property
    def failed(self) -> bool:
        return self.reason.startswith(reasons.FAILED)

    def text(self, before: Optional[str] = None, waits: bool = False, owes: bool = False) -> str:
        """Our annotation. Who waits for pods with no run beside it may be taken by each."""
        owes = owes or (self.failed and self.active)
        if waits and self.run and not self.failed:
            return reasons.written(WAITS, None, owes, before)
        return reasons.written(self.reason, self.run, owes, before)

    def proof(self) -> str:
        """Our annotation on a node whose health owes a proof. No gate puts it back: any run takes it."""
        return reasons.written("waits for a proof: " + drain.finding(self.owes))


@frozen
class Cordon(Action):
    """``reason``: our annotation."""

    reason: str

    def describe(self) -> str:
        return "cordon it ({0})".format(self.reason)


@frozen
class Release(Action):
    """``cordoned``: it was so before us."""

    cordoned: bool = False

    def describe(self) -> str:
        return "take our annotation away, and leave it cordoned" if self.cordoned else "uncordon it"


@frozen
class Evict(Action):
    pods: Tuple[Pod, ...]

    def describe(self) -> str:
        return "evict " + ", ".join(pod.label for pod in self.pods)


@frozen
class Decision:
    """The next step: an action, an outcome with its reason, or neither, which is to wait."""

    action: Optional[Action] = None
    outcome: Optional[Outcome] = None
    why: str = ""
