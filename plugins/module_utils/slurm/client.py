# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The few calls to slurmctld that a node makes for itself, and only when something is wrong: Slurm's own advice is to
make none in a prolog or epilog, as a thousand nodes would make them at once."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Callable, Dict, List, Optional, Tuple

from ..core.host import Host
from ..core.resource import NodeError
from . import drain
from .commands import ANSWER_SECONDS, Commands, NoSuchNode
from .types import SlurmNode

if TYPE_CHECKING:
    from . import breaker

# slurmctld's times have whole seconds: after this all that it drained in the same second as us can be seen.
SETTLE_SECONDS = 2.5

# A GPU server may take ten minutes to start. slurm.conf's own default of ResumeTimeout is one.
REBOOT_SECONDS = 900
# What holds a node though its state may be IDLE: a suspended job gives its cores back and resumes.
HOLDING = "RUNNING,SUSPENDED,COMPLETING,CONFIGURING,STOPPED,SIGNALING,STAGE_OUT"
# In a federation they would tell of nodes of the same name in other clusters, which update does not change.
_LOCAL = ("-h", "--local")
_ALL = (*_LOCAL, "-a")
TAKEN = "somebody else has changed it in Slurm meanwhile"


class Slurm(Commands):
    """One node as slurmctld sees it. ``pause`` waits; tests hand in one that does not."""

    def __init__(
        self,
        host: Host,
        node: str,
        program: str = "scontrol",
        pause: Callable[[float], None] = time.sleep,
        seconds: float = ANSWER_SECONDS,
    ) -> None:
        super().__init__(host, program, seconds)
        self.node = node
        self._pause = pause

    def job(self, job_id: int, detail: bool = False) -> str:
        """What slurmctld says of one job, or that it knows none. ``detail``: with what it has on each of its nodes."""
        done = self.ask("scontrol", "show", "job", *(["-d"] if detail else []), str(job_id))
        return done.stdout + done.stderr

    def holders(self) -> Tuple[Tuple[str, Optional[int]], ...]:
        """The jobs that hold this node, each with the number of its user, if squeue prints one.

        :raises NodeError: no Slurm, no answer, or no such node.
        """
        found = [line.strip().partition("|") for line in self._squeue("%A|%U")]
        return tuple((job, int(uid) if uid.isdigit() else None) for job, dummy, uid in found if job)

    def jobs(self) -> Tuple[str, ...]:
        """The jobs that hold this node, as people write them: 12_3 is a task of an array.

        :raises NodeError: as :meth:`holders`.
        """
        return tuple(line.strip() for line in self._squeue("%i") if line.strip())

    def _squeue(self, form: str) -> List[str]:
        return self.run("squeue", *_ALL, "-o", form, "-t", HOLDING, "--nodelist=" + self.node).splitlines()

    def look(self) -> SlurmNode:
        """Its states, reason and partitions: cheap in a large cluster.

        :raises NoSuchNode: no partition has it.
        :raises NodeError: no Slurm, or no answer."""
        found = self.every("-n", self.node)
        if not found:
            raise NoSuchNode(
                "node " + self.node,
                "slurmctld has no node of this name in a partition",
                "give the name that slurm.conf has with --node",
            )
        return next(iter(found.values()))

    def every(self, *chosen: str) -> Dict[str, SlurmNode]:
        """All nodes that have a partition, or those that such options of sinfo choose."""
        from . import nodes  # loaded only where slurmctld is asked

        return nodes.of_columns(self.run("sinfo", *_ALL, "-N", *chosen, "-O", nodes.COLUMNS))

    def show(self) -> SlurmNode:
        """All that slurmctld tells of it, which costs it an answer with all nodes.

        :raises NoSuchNode: it has none of that name.
        :raises NodeError: no Slurm, or no answer."""
        from . import nodes

        return nodes.parse(self.run("scontrol", "show", "node", self.node), "scontrol show node " + self.node)[0]

    def settle(self, finding: Optional[str], percent: float, owes: str = "") -> Tuple[drain.Decision, SlurmNode]:
        """Drain or resume this node, or leave it, by what was found on it; returns what was done, and what was before.
        ``owes``: the reason to leave it drained with where it would be resumed, for the gate.

        :raises NodeError: slurmctld cannot be asked or refuses.
        """
        node = self.look()
        decision = drain.decide(node, finding)
        if decision.action == drain.RESUME and owes:
            decision = drain.Decision(drain.DRAIN, decision.why + ", and its health owes a proof", owes)
        if decision.action == drain.DRAIN:
            reason = decision.reason or ""
            if drain.is_ours(node):
                self.update("State=DRAIN", "Reason=" + reason)
            else:
                held = self.drain(node, reason, percent)
                if held is not None:
                    decision = drain.Decision(drain.LEAVE, held)
        elif decision.action == drain.RESUME:
            if not self.undrain(drain.kind(node) or ""):
                decision = drain.Decision(drain.LEAVE, TAKEN)
        return decision, node

    def drain(self, node: SlurmNode, reason: str, percent: float) -> Optional[str]:
        """Drain this node, unless more than a share of its partitions would be; returns why it was not.

        This is the only way from being in service to a drain of ours on this node.
        """
        from . import breaker  # loaded only where a node is about to be drained

        held = breaker.full(self._partitions(node), percent)
        if held is not None:
            return held
        if drain.out_of_service(self.look()):
            return TAKEN
        self.update("State=DRAIN", "Reason=" + reason)
        self._pause(SETTLE_SECONDS)
        ours = drain.read(reason)
        kind = "" if ours is None else ours.kind
        try:
            held = breaker.surplus(self.node, self._partitions(node), percent)
        except NodeError:  # who cannot see that it is among the first is none of them; it is asked again later
            self._withdraw(kind)
            raise
        if held is not None and not self.undrain(kind):
            return None  # somebody else has it now
        return held

    def _withdraw(self, kind: str) -> None:
        """Slurm may take an update and still not answer: then our drain of a moment ago is what is there."""
        try:
            self.undrain(kind)
        except NodeError:
            self.update("State=UNDRAIN", "Reason=" + drain.RESUMED)

    def undrain(self, kind: str) -> bool:
        """End a drain of ours of this kind; returns whether it was there still. RESUME would also end that a node is
        down (scontrol(1))."""
        return self._end("UNDRAIN", kind)

    def resume(self, kind: str) -> bool:
        """The same, and that it is down."""
        return self._end("RESUME", kind)

    def _end(self, state: str, kind: str) -> bool:
        if drain.kind(self.look()) != kind:
            return False
        # Where Slurm clears the reason, it clears this one too.
        self.update("State=" + state, "Reason=" + drain.RESUMED)
        return True

    def reword(self, seen: SlurmNode, *words: str) -> bool:
        """Update a node that is as it was seen; returns whether it is."""
        now = self.look()
        if (now.reason, drain.out_of_service(now)) != (seen.reason, drain.out_of_service(seen)):
            return False
        self.update(*words)
        return True

    def keep_powered(self, wanted: bool) -> None:
        """Let Slurm not power this node down, or let it again.

        :raises NodeError: this Slurm does not know that (it does since 23.02), or refuses.
        """
        sign = "+" if wanted else "-"
        self.run("scontrol", "update", "SuspendExcNodes{0}={1}".format(sign, self.node))

    def update(self, *words: str) -> None:
        self.run("scontrol", "update", "NodeName=" + self.node, *words)

    def reservation(self, name: str) -> Optional[str]:
        """What slurmctld says of one, its times in seconds since 1970; None: there is none of that name.

        :raises NodeError: slurmctld cannot be asked.
        """
        done = self.ask("scontrol", "-o", "show", "reservation", name, times="%s")
        told = done.stdout + done.stderr
        if done.returncode == 0 and "ReservationName=" in told:
            return told
        if "not found" in told or "No reservations" in told:
            return None
        reason = "slurmctld does not tell of it ({0})".format(done.message)
        raise NodeError("reservation " + name, reason, "look at 'scontrol show reservation'")

    def reserve(self, name: str, start: float, new: bool) -> None:
        """Keep jobs that would not end before ``start`` away from this node, and all jobs from then on; or move that.

        MAINT may lie over other reservations, and IGNORE_JOBS takes the node with the jobs that it has. ``uts`` gives
        a time without a zone (parse_time.c; create, update and show are the same in 22.05 and 24.11). UNLIMITED comes
        to a year at the least. A start that has passed is refused.

        :raises NodeError: slurmctld refuses, or does not answer.
        """
        words = ["ReservationName=" + name, "StartTime=uts{0}".format(int(start)), "Duration=UNLIMITED"]
        if new:
            words += ["Nodes=" + self.node, "Users=root", "Flags=MAINT,IGNORE_JOBS"]
        self.run("scontrol", *(("create", "reservation") if new else ("update",)), *words)

    def unreserve(self, name: str) -> None:
        """:raises NodeError: slurmctld refuses, or does not answer."""
        if self.reservation(name) is not None:
            self.run("scontrol", "delete", "ReservationName=" + name)

    def marked(self, node: SlurmNode, *prefixes: str) -> Tuple[Tuple[breaker.Partition, ...], ...]:
        """The partitions of this node, once for each prefix, with the nodes whose reason begins with it.

        :raises NodeError: slurmctld cannot be asked.
        """
        from . import breaker

        if not node.partitions:
            return tuple(() for dummy in prefixes)
        wanted = ["-p", ",".join(node.partitions)]
        sizes = self.run("sinfo", *_LOCAL, *wanted, "-o", breaker.SIZES)
        drained = self.run("sinfo", *_LOCAL, "-N", *wanted, "-t", "drain", "-o", breaker.DRAINED)
        return tuple(breaker.partitions(node.partitions, sizes, drained, prefix) for prefix in prefixes)

    def no_reboot(self) -> str:
        """Why Slurm must reboot no node; "": it may.

        :raises NodeError: slurmctld cannot be asked.
        """
        told = self.run("scontrol", "show", "config")
        program = re.search(r"^RebootProgram\s*=\s*(\S+)", told, re.MULTILINE)
        if program is None or program.group(1) == "(null)":
            return "slurm.conf has no RebootProgram, so Slurm reboots no node"
        seconds = re.search(r"^ResumeTimeout\s*=\s*(\d+)", told, re.MULTILINE)
        if seconds is not None and int(seconds.group(1)) < REBOOT_SECONDS:
            text = "slurm.conf has ResumeTimeout={0}, and a node that takes longer to start is set down: give it {1} s"
            return text.format(seconds.group(1), REBOOT_SECONDS)
        return ""

    def reboot(self) -> None:
        """Reboot this node, which is drained, and leave it drained with its reason.

        Neither ASAP nor nextstate=: with either slurmctld has a state for it after the boot and takes the drain away
        (proc_req.c: _slurm_rpc_reboot_nodes, node_mgr.c: validate_node_specs, the same in 22.05, 24.11 and 26.05).
        The drain stays only where the node is back within ResumeTimeout: afterwards slurmctld sets it down, and 22.05
        clears the drain then.

        :raises NodeError: there is no RebootProgram, or slurmctld refuses.
        """
        self.run("scontrol", "reboot", self.node)

    def _partitions(self, node: SlurmNode) -> Tuple[breaker.Partition, ...]:
        return self.marked(node, drain.PREFIX)[0]
