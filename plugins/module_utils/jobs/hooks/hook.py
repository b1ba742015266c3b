# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run of a hook: its steps, each with a time limit, all of them within one budget.

PrologEpilogTimeout of slurm.conf ends a hook in the middle, so a hook ends by itself before: its steps share
:data:`BUDGET_SECONDS` (an epilog also the grace period of processes), and what a finding costs in Slurm has
:data:`SETTLE_SECONDS` of its own. A site that sets PrologEpilogTimeout gives it more than
``slurm.types.LONGEST_SECONDS``.
"""

from __future__ import annotations

import contextlib
import signal
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple, TypeVar

from ...core.frozen import plain
from ...core.host import Host
from ...core.options import of_section
from ...core.resource import NodeError
from ...slurm import drain
from ...slurm.types import SECTION, Settings

BUDGET_SECONDS = 55.0
# A few questions to slurmctld, which answers in milliseconds or not at all.
SETTLE_SECONDS = 30.0
Tell = Callable[[str], None]
Value = TypeVar("Value")


class Report:
    """What a hook did. ``finding`` is what the node was, or should be, drained for; ``notes`` were told already.
    ``raised`` and ``returned`` are GPUs by PCI address. No dataclass: to define one costs a prolog 3 ms."""

    def __init__(self) -> None:
        self.finding: Optional[str] = None
        self.decision: Optional[drain.Decision] = None
        self.folder: Optional[str] = None
        self.raised: Tuple[str, ...] = ()
        self.returned: Tuple[str, ...] = ()
        self.ended: Tuple[int, ...] = ()
        self.notes: List[str] = []

    def to_dict(self) -> Dict[str, Any]:
        return {name: plain(value) for name, value in vars(self).items()}


class Hook:
    """``tell`` gets a sentence for the logs."""

    def __init__(self, host: Host, tell: Tell, budget_seconds: float = BUDGET_SECONDS) -> None:
        self.host = host
        self.report = Report()
        self._tell = tell
        self.declared: Dict[str, Dict[str, Any]] = {}
        self._deadline = time.monotonic() + budget_seconds
        self._settle_seconds = SETTLE_SECONDS

    def tell(self, text: str) -> None:
        self.report.notes.append(text)
        self._tell(text)

    def section(self, name: str) -> Optional[Mapping[str, Any]]:
        return self.declared.get(name)

    @property
    def settings(self) -> Settings:
        return of_section(Settings, self.section(SECTION))

    def more_time(self, seconds: float) -> None:
        self._deadline += seconds

    def left(self) -> float:
        """Seconds that all further steps have together."""
        return max(0.0, self._deadline - time.monotonic())

    def step(self, what: str, seconds: float, act: Callable[[], Value]) -> Optional[Value]:
        """A step that may fail, take too long, or find no time left, without holding the job: then None."""
        return self._guarded(what, min(seconds, self._deadline - time.monotonic()), act)

    def settle(self, what: str, act: Callable[[], Value]) -> Optional[Value]:
        """What findings cost in Slurm: it has time of its own."""
        before = time.monotonic()
        try:
            return self._guarded(what, self._settle_seconds, act)
        finally:
            self._settle_seconds -= time.monotonic() - before

    def _guarded(self, what: str, seconds: float, act: Callable[[], Value]) -> Optional[Value]:
        if seconds <= 0:
            self.tell("{0}: no time is left for it in this hook".format(what))
            return None
        try:
            with time_limit(seconds, what):
                return act()
        except NodeError as error:
            self.tell("{0} ({1})".format(error, what))
        except Exception as error:  # a bug of ours must neither hold a job nor drain a node
            self.tell("{0}: {1}: {2}; report this as a bug.".format(what, type(error).__name__, error))
        return None

    def conclude(self, node: str) -> int:
        """Drain the node where something was found; the exit status for slurmd, which drains for another one than 0.

        So it is 0 where too many nodes are drained by us, and this one is left in service.
        """
        finding = self.report.finding
        if finding is None:
            return 0
        from ...health.gate.settings import SECTION as GATE  # loaded only where a node is about to be drained
        from ...health.gate.settings import Settings as Gate
        from ...slurm.client import Slurm

        percent = of_section(Gate, self.section(GATE)).drained_percent
        slurm = Slurm(self.host, node, self.settings.scontrol)
        done = self.settle("draining the node", lambda: slurm.settle(finding, percent))
        if done is None:
            return 1
        self.report.decision, before = done
        if self.report.decision.action != drain.LEAVE:
            return 1
        text = "the node is left as it is, {0} (reason: {1})"
        self.tell(text.format(self.report.decision.why, before.reason or "none"))
        return 1 if drain.out_of_service(before) else 0


@contextlib.contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """:raises NodeError: in whatever stands within, when it takes longer. For the main thread, one at a time."""

    def up(dummy: int, frame: object) -> None:
        raise NodeError(what, "it took longer than {0:.3g} s".format(seconds), "look at the kernel log of the node")

    before = signal.signal(signal.SIGALRM, up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
