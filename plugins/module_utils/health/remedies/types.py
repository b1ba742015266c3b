# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a remedy is decided by, and its steps."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from ...core.frozen import frozen
from ...core.resource import Action
from ...facts.fabric import IMEX_UNIT, MANAGER_UNIT
from ...slurm.breaker import Partition
from ...slurm.types import SlurmNode
from ..attempts import Attempt, Record
from ..types import Finding, Outcome

LOGS = "/var/lib/gpu_node/remedies"
PERSISTENCED = "nvidia-persistenced.service"
FABRIC_MANAGER, IMEX = MANAGER_UNIT, IMEX_UNIT
# Those that a finding may have restarted: of NVIDIA's driver, and with no job in them. Never slurmd.
SERVICES = (PERSISTENCED, FABRIC_MANAGER, IMEX, "nvidia-dcgm.service")


@frozen
class Gpu:
    """``name``: its UUID, else its PCI address, as nvidia-smi takes it. ``linked``: it has an active NVLink; None, as
    for ``architecture``: it does not tell. ``persistent``: persistence mode is on."""

    pci_address: str
    name: str
    label: str
    minor: Optional[int] = None
    architecture: Optional[str] = None
    linked: Optional[bool] = None
    persistent: bool = False


@frozen
class Cluster:
    """This node before slurmctld. ``jobs``: ``idle``, or why that cannot be said. ``remedied``: its partitions, with
    the nodes that had a remedy and have not come back since; ``latched``: those whose breaker is. ``no_reboot``:
    why Slurm must not reboot it, or ""."""

    node: SlurmNode
    jobs: str
    remedied: Tuple[Partition, ...] = ()
    latched: Tuple[Partition, ...] = ()
    no_reboot: str = "slurmctld was not asked"


@frozen
class State:
    """``cluster`` None: slurmctld did not answer, and ``unknown`` says why. ``findings``: (check, finding) of a passive
    check made now; ``kept``: findings of active checks that are still valid (:mod:`..gate.kept`), which passive checks
    do not report. ``proofs``: how often the pending validation of this node was started.

    ``units`` run, and a reset requires stopping them; ``beside`` runs, was not declared, and would be stopped too.
    ``beside_manager`` would be stopped along with the Fabric Manager. ``daemon_holds``: nvidia-persistenced switches
    persistence mode on when it starts, and off when it stops.
    """

    node: str
    outcome: Outcome
    findings: Tuple[Tuple[str, Finding], ...]
    record: Record
    now: float
    boot: str
    cluster: Optional[Cluster] = None
    unknown: str = ""
    gpus: Tuple[Gpu, ...] = ()
    switches: bool = False
    fabric_manager: bool = False
    beside_manager: Tuple[str, ...] = ()
    daemon_holds: bool = False
    units: Tuple[str, ...] = ()
    beside: Tuple[str, ...] = ()
    kept: Tuple[Tuple[str, Finding], ...] = ()
    proofs: int = 0


@frozen
class Planned:
    """``steps`` in their order, the last of which is the remedy; ``after`` come in any case, also when one of the steps
    failed. ``part``: what attempts are counted on; ``key``: of the finding. Without a remedy ``why`` says why not.
    ``latch``: why the breaker has to be latched. ``unfinished``: an attempt to be put in order first."""

    remedy: str = ""
    part: str = ""
    finding: str = ""
    steps: Tuple[Action, ...] = ()
    after: Tuple[Action, ...] = ()
    why: str = ""
    latch: str = ""
    unfinished: Optional[Attempt] = None
    key: str = ""

    def to_dict(self) -> Mapping[str, Any]:
        return {
            "remedy": self.remedy or None,
            "part": self.part or None,
            "finding": self.finding or None,
            "steps": [one.to_dict() for one in self.steps],
            "after": [one.to_dict() for one in self.after],
            "why": self.why or None,
            "latches": self.latch or None,
        }


@frozen
class Disrupting(Action):
    """Before one of these the node is looked at once more: it must be ours and without jobs still."""


@frozen
class Mark(Action):
    reason: str
    percent: float

    def describe(self) -> str:
        return "set the reason in Slurm to '{0}'".format(self.reason)


@frozen
class SaveLogs(Action):
    remedy: str

    def describe(self) -> str:
        return "save the kernel log, nvidia-smi -q, gpu_info and the verdict into a folder below {0}".format(LOGS)


@frozen
class StopUnits(Disrupting):
    units: Tuple[str, ...]

    def describe(self) -> str:
        return "stop {0}".format(", ".join(self.units))


@frozen
class StartUnits(Action):
    units: Tuple[str, ...]

    def describe(self) -> str:
        return "start {0} again".format(", ".join(self.units))


@frozen
class Persistence(Action):
    gpus: Tuple[str, ...]
    on: bool

    def describe(self) -> str:
        return "switch persistence mode {0} on {1}".format("on" if self.on else "off", ", ".join(self.gpus))


@frozen
class CheckFree(Action):
    """(label, minor number) of each GPU."""

    gpus: Tuple[Tuple[str, int], ...]

    def describe(self) -> str:
        return "check that no process has {0} open".format(", ".join(label for label, dummy in self.gpus))


@frozen
class ResetGpus(Disrupting):
    gpus: Tuple[str, ...]

    def describe(self) -> str:
        return "run nvidia-smi --gpu-reset -i {0}".format(",".join(self.gpus))


@frozen
class ApplyAgain(Action):
    def describe(self) -> str:
        return "apply the declared MIG layout and settings of the GPUs again"


@frozen
class RestartService(Disrupting):
    unit: str

    def describe(self) -> str:
        return "restart {0}".format(self.unit)


@frozen
class Reboot(Disrupting):
    def describe(self) -> str:
        return "have Slurm reboot this node; it stays drained"


@frozen
class Redeploy(Disrupting):
    argv: Tuple[str, ...]
    seconds: int

    def describe(self) -> str:
        """Without the arguments: they may contain an access key, and the journal has this sentence."""
        return "run {0} for at most {1} s, with the findings on its standard input".format(self.argv[0], self.seconds)
