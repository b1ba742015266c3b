# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out what :mod:`.plan` decides: the calls to slurmctld, and the history on this node.

A healthy node asks slurmctld once an hour, and the first time after its history was lost: a thousand nodes run this
within a minute.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Callable, Dict, List, Optional

from .. import declaration
from ..health.types import Verdict
from ..host import Host
from ..resource import NodeError
from ..slurm_job import drain
from ..slurm_job.drain import DRAIN, LEAVE, RESUME
from ..slurm_job.slurm import TIMEOUT_SECONDS, found_program
from . import cluster, history, plan
from .settings import SECTION, Settings

# slurmctld's times have whole seconds: after this all that it drained in the same second as us can be seen.
SETTLE_SECONDS = 2.5
_LOCK_SECONDS = 20.0
_KEEPALIVE_SECONDS = 10.0
Tell = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Report:
    """``in_service``: whether jobs may still come here; None where slurmctld was not asked."""

    decision: plan.Decision
    in_service: Optional[bool] = None

    def to_dict(self) -> Dict[str, Any]:
        return dataclasses.asdict(self)


class Gate:
    """This node before slurmctld. ``pause`` waits; tests hand in one that does not."""

    def __init__(self, host: Host, node: str, tell: Tell, pause: Callable[[float], None] = time.sleep) -> None:
        self.host = host
        self.node = node
        self.settings = Settings.from_section(declaration.read(host).get(SECTION))
        self._tell = tell
        self._pause = pause

    def settle(self, verdict: Verdict, at_once: bool = False) -> Report:
        """``at_once``: one failing verdict is enough, as before a job.

        :raises NodeError: slurmctld cannot be asked or refuses; the verdict is in the history all the same.
        """
        settings = dataclasses.replace(self.settings, drain_after=1) if at_once else self.settings
        with self.host.lock(SECTION, _LOCK_SECONDS):
            known = history.read(self.host).added(history.Entry.of(verdict))
            history.write(self.host, known)
            if plan.sick(known, settings) is None and known.in_service(verdict.time):
                return Report(plan.Decision(LEAVE, "nothing is wrong with it"))
            if found_program(self.host, self.settings.scontrol) is None:
                return Report(plan.Decision(LEAVE, "there is no Slurm on this node"))
            return self._settle(known, settings, verdict.time)

    def _settle(self, known: history.History, settings: Settings, now: float) -> Report:
        nodes = self._look()
        state = nodes[self.node].state
        partitions = cluster.partitions_of(nodes.values(), self.node)
        decision = plan.decide(state, known, partitions, settings, now)
        drained = drain.is_for_health(state)
        in_service = not drain.out_of_service(state)
        if decision.action == DRAIN:
            # Written first: whatever happens next, this node has to be looked at again.
            history.write(self.host, known.acted(DRAIN, None))
            self._update("State=DRAIN", "Reason=" + (decision.reason or ""))
            back = self._too_many(settings)
            drained, in_service = back is None, back is not None
            decision = back or decision
            if back is None:
                self._keep_alive()
        elif decision.action == RESUME:
            self._update("State=UNDRAIN")
            drained, in_service = False, True
        history.write(self.host, known.acted("" if decision.action == LEAVE else decision.action, drained))
        return Report(decision, in_service)

    def _too_many(self, settings: Settings) -> Optional[plan.Decision]:
        """Whether others were drained at the same time, and this node was therefore given back."""
        self._pause(SETTLE_SECONDS)
        nodes = self._look()
        back = plan.taken_back(self.node, cluster.partitions_of(nodes.values(), self.node), settings)
        if back is None or not drain.is_for_health(nodes[self.node].state):
            return None
        self._update("State=UNDRAIN")
        return dataclasses.replace(back, action=LEAVE)

    def _look(self) -> Dict[str, cluster.Node]:
        nodes = cluster.parse(self._run(["-a", "show", "nodes"]))
        if self.node not in nodes:
            raise NodeError(
                "node " + self.node,
                "slurmctld has no node of this name",
                "give the name that slurm.conf has with --node",
            )
        return nodes

    def _update(self, *words: str) -> None:
        self._run(["update", "NodeName=" + self.node, *words])

    def _run(self, arguments: List[str]) -> str:
        program = found_program(self.host, self.settings.scontrol) or self.settings.scontrol
        # Times are compared as text, so their form must be the one that sorts.
        argv = ["env", "SLURM_TIME_FORMAT=standard", program, *arguments]
        return self.host.run(argv, timeout_seconds=TIMEOUT_SECONDS).stdout

    def _keep_alive(self) -> None:
        """What keeps a machine for repair that its cloud would take away. That it fails changes nothing here."""
        if self.settings.keepalive:
            try:
                self.host.run(self.settings.keepalive, timeout_seconds=_KEEPALIVE_SECONDS)
            except NodeError as error:
                self._tell(str(error))
