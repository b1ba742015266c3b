# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes and findings for the tests of remedies."""

from __future__ import annotations

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.attempts import Attempt, Record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.settings import REMEDIES, Settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.remedies.types import Cluster, Gpu, State
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import (
    Certainty,
    Finding,
    Outcome,
    Remedy,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.breaker import Partition
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import SlurmNode

NOW = 1_800_000_000.0
BOOT, EARLIER = "boot-2", "boot-1"
FOUND = "GPU 3 (0000:0b:00.0): it asks for a reset"
OURS = "gpu_node: health: " + FOUND
GPUS = tuple(
    Gpu("0000:{0:02x}:00.0".format(8 + i), "GPU-{0}".format(i), "GPU {0}".format(i), i, "ampere", True)
    for i in range(8)
)
SICK = GPUS[3]


def finding(action=Remedy.RESET_GPU, key=SICK.pci_address, code="", outcome=Outcome.FAIL, certainty=Certainty.CERTAIN):
    return Finding(outcome, "GPU 3 (0000:0b:00.0)", "it asks for a reset", "reset it", action, certainty, key, code)


RESET = ("gpu_recovery_action", finding())
REBOOT = ("gpu_xid", finding(Remedy.REBOOT))
REPLACE = ("gpu_ecc", finding(Remedy.REPLACE))
MANAGER = ("gpu_fabric", finding(Remedy.RESTART_SERVICE, code="state"))


def service(unit):
    return ("service_running", finding(Remedy.RESTART_SERVICE, unit))


def cluster(flags=("IDLE", "DRAIN"), reason=OURS, jobs="idle", remedied=(), latched=(), size=20, no_reboot=""):
    return Cluster(
        SlurmNode(frozenset(flags), reason, ("gpu",)),
        jobs,
        (Partition("gpu", size, tuple(remedied)),),
        (Partition("gpu", size, tuple(latched)),),
        no_reboot,
    )


def state(*findings, **changes):
    made = State(
        node="gpu00",
        outcome=Outcome.FAIL,
        findings=findings or (RESET,),
        record=Record(),
        now=NOW,
        boot=BOOT,
        cluster=cluster(),
        gpus=GPUS,
        switches=True,
        fabric_manager=True,
        units=("nvidia-persistenced.service",),
        daemon_holds=True,
    )
    return replaced(made, **changes)


def settings(*remedies, **changes):
    chosen = remedies or REMEDIES
    return Settings(remedies=chosen, **dict({"redeploy_command": ("/opt/site/redeploy",)}, **changes))


def attempt(remedy="reset_gpu", part="gpu:GPU-3", hours=1.0, boot=BOOT, ended=True, **more):
    time = NOW - hours * 3600
    return Attempt(remedy, part, time, boot, FOUND, ended=time + 60 if ended else None, outcome="", **more)


def tried(*given):
    return Record(tuple(given))
