# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Section ``health_gate`` of the declaration: what a verdict is to do on this node."""

from __future__ import annotations

from typing import Any, Mapping, Tuple

from ...core.frozen import replaced
from ...core.options import found, option, options
from ...core.systemd import UNIT
from ..attempts import RESET_GPU

SECTION = "health_gate"
RESTART_SERVICE, REBOOT, REDEPLOY = "restart_service", "reboot", "redeploy"
# From the weakest to the strongest.
REMEDIES = (RESTART_SERVICE, RESET_GPU, REBOOT, REDEPLOY)
# Held while a remedy of :mod:`..remedies` runs.
REMEDY_LOCK = "health_remedy"
# Held while the active checks run that this node owes. Neither begins while the other runs.
PROOF_LOCK = "health_proof"
REMEDY_UNIT = "gpu-node-remedy.service"
FILE = (
    r"|/(?!(?:.*/)?\.\.(?:/|$))[A-Za-z0-9._/+@-]*[A-Za-z0-9._+@-]",
    "absolute path of a file",
    "use letters, digits and ._/+@- after a slash",
)


@options
class Settings:
    """The options that the gate needs. ``scontrol``: its path; ``left_out``: patterns of checks that section ``health``
    leaves out. Empty paths and names: that part is off."""

    drain: bool = option(True, "Drain this node in Slurm for a failing verdict.")
    resume: bool = option(True, "Resume, after clean verdicts, what was drained for its health.")
    drain_after: int = option(1, "How many failing verdicts in a row drain. In a prolog one does.", bounds=(1, 20))
    resume_after: int = option(
        3,
        "How many clean verdicts in a row resume. Those that looked less far than the failing one do not count.",
        bounds=(1, 20),
    )
    resumes_a_day: int = option(
        3,
        "A node that was resumed so often within a day stays drained until a person resumes it.",
        bounds=(1, 100),
    )
    proof: bool = option(
        True,
        [
            "Have a node that went out for a fault pass the active checks of what failed before it is resumed, as the "
            "table in docs/health_gate.md says. Clean passive verdicts are asked for beside them.",
            "They run in C(gpu-node-health-proof.service), on a node that was drained for its health and has no job.",
            "With V(false) clean passive verdicts are enough.",
        ],
    )
    proof_attempts: int = option(
        3,
        "How often these checks are started, an hour apart, before the node waits for a person.",
        bounds=(1, 24),
    )
    proof_seconds: float = option(
        0.0,
        [
            "Time budget of these checks together, in seconds; with 0 they take the time that they need.",
            "A check that it does not cover is still owed, and the next attempt runs it. A check whose shortest useful "
            "run is longer never passes, and the node waits for a person.",
        ],
        bounds=(0, 86400),
    )
    unknown_drains: bool = option(False, "Count a verdict V(unknown) as a failing one. It never counts as a clean one.")
    drained_percent: float = option(
        20.0,
        [
            "Share of a partition, in percent of its machines, that may be drained by us at a time, for whatever "
            "reason of ours. One node may in any case.",
            "Beyond it a failing prolog of ours lets the job start. The drains of C(rolling.yml) count, and have "
            "limits of their own.",
            "V(0) drains none.",
        ],
        bounds=(0, 100),
        unit="percent",
    )
    prolog: bool = option(
        True,
        "Run the quick checks before each job, and keep the job away from a sick node. Needs the hooks of "
        "M(trainyard.gpu_node.slurm_hooks).",
    )
    epilog: bool = option(False, "Run the quick checks after each job as well.")
    interval_seconds: int = option(
        300,
        "Time between two runs of the timer. Labels expire after two and a half of them.",
        bounds=(30, 65535),
        unit="seconds",
    )
    keep_powered: bool = option(
        False,
        [
            "Keep a node that is drained for its health powered on, by C(SuspendExcNodes) of Slurm 23.02 or later. It "
            "is taken out of there when it is no more drained for its health, and only if it was put there by this.",
            "Without it, a cluster that powers idle nodes down takes the machine away, and starts another one when a "
            "job needs it.",
        ],
    )
    keepalive: Tuple[str, ...] = option(
        (),
        [
            "A command, as a list, that is run once when this node was drained, such as one that opens a ticket.",
            "To keep the node powered on use O(keep_powered).",
        ],
        private=True,
    )
    remedies: Tuple[str, ...] = option(
        (),
        [
            "What this node tries by itself on a part that failed, once it is drained for its health and has no job. "
            "None by default.",
            "V(restart_service): a service of NVIDIA's driver that a finding names. V(reset_gpu): the GPU that failed, "
            "by C(nvidia-smi --gpu-reset). V(reboot): by C(scontrol reboot); the node stays drained. V(redeploy): "
            "O(redeploy_command).",
            "The least that may help has to be among them. The next stronger one that is among them follows when it "
            "was tried O(remedy_attempts) times. The node comes back by its verdicts only.",
        ],
        choices=REMEDIES,
    )
    remedy_attempts: int = option(2, "How often one remedy is tried on the same part within 7 days.", bounds=(1, 10))
    remedies_a_day: int = option(
        4,
        "After so many remedies within a day the breaker is latched when one more is wanted: none is tried until a "
        "person runs C(gpunode remedy release --by NAME).",
        bounds=(1, 50),
    )
    remedied_percent: float = option(
        10.0,
        "Share of a partition, in percent of its machines, that may have had a remedy and not come back at a time. One "
        "node may in any case. Beyond it the breaker of the node that wants one more is latched, and no other node "
        "tries any.",
        bounds=(1, 100),
        unit="percent",
    )
    remedy_units: Tuple[str, ...] = option(
        (),
        "Units that hold GPUs open and work for nobody, as C(nvidia-dcgm.service). They are stopped for a reset and "
        "started again after it, as C(nvidia-persistenced.service) is in any case. Not one that runs jobs or "
        "containers.",
        form=UNIT,
    )
    redeploy_command: Tuple[str, ...] = option(
        (),
        [
            "A command of the site, as a list, that has this machine replaced. Root runs it, so the file and the "
            "folders above it must be root's, and nobody else may write to them.",
            "It gets C(node), C(findings) and C(attempts) as JSON on its standard input.",
        ],
        private=True,
    )
    redeploy_seconds: int = option(900, "Time limit of that command.", bounds=(10, 7200), unit="seconds")
    textfile: str = option(
        "",
        "File for the textfile collector of Prometheus' node exporter, in a folder that is there. Empty for none.",
        form=FILE,
    )
    labels_file: str = option(
        "",
        "File for the local source of Node Feature Discovery, in a folder that is there. Its labels expire. Empty for "
        "none.",
        form=FILE,
    )
    journal_folder: str = option(
        "",
        [
            "Folder on a file system that nodes share, where the history of each GPU, disk and port is kept too, so "
            "that it survives a redeploy and goes with a part to another node. Root of the nodes must be able to write "
            "there, and users must not. It has to be there; one on a tmpfs or on the scratch is refused.",
            "Empty keeps it in C(/var/lib/gpu_node/health/journal.json) alone.",
        ],
        form=FILE,
    )
    kubernetes_node: str = option(
        "",
        "Name of this node in Kubernetes. With it, taint and condition are written as commands of kubectl into "
        "C(/var/lib/gpu_node/health/kubernetes.json). Nothing runs them.",
        form=(
            "[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?",
            "name of a node",
            "use the name that 'kubectl get nodes' shows",
        ),
    )
    scontrol: str = found("scontrol")
    left_out: Tuple[str, ...] = found(())


def left_out(declared: Mapping[str, Mapping[str, Any]]) -> Tuple[str, ...]:
    """The patterns of checks that section ``health`` leaves out."""
    given = declared.get("health", {}).get("without", [])
    return tuple(one for one in given if isinstance(one, str)) if isinstance(given, list) else ()


def applied(settings: Settings, declared: Mapping[str, Mapping[str, Any]], node: str, now: float) -> Settings:
    """The current settings of the gate on this node: with the checks that are left out, and without validation if an
    administrator waives it."""
    section = declared.get("health", {})
    settings = replaced(settings, left_out=left_out(declared))
    if settings.proof and section.get("overrules"):
        from .. import overrules  # seldom wanted

        if overrules.held(section, node, now) is not None:
            return replaced(settings, proof=False)
    return settings
