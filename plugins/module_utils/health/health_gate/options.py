# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the gate on a node."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Mapping, Tuple

from ...core import program_words, timer_unit
from ...core.boot_unit import UNIT
from ...core.managed_files import Wanted
from ...core.options import option, options, state
from ...core.resource import NodeError
from .. import overrules, registry, thresholds
from ..gate.settings import RANGES, REDEPLOY, REMEDIES, REMEDY_UNIT, Settings
from ..settings import check
from ..silences import ENFORCED, Entry, check_of, parse
from ..types import Cost
from . import texts
from .inner import Checks, Overrule, Silence
from .types import PROGRAM, PROOF, SERVICE, TIMER

_FILE = (
    r"|/(?!(?:.*/)?\.\.(?:/|$))[A-Za-z0-9._/+@-]*[A-Za-z0-9._+@-]",
    "absolute path of a file",
    "use letters, digits and ._/+@- after a slash",
)


JOURNAL_FOLDER = "journal_folder"


def _given(value: Any) -> Any:
    """Without what a module's arguments name and nobody gave."""
    if isinstance(value, (list, tuple)):
        return [_given(one) for one in value]
    if isinstance(value, Mapping):
        return {name: _given(one) for name, one in value.items() if one is not None}
    return value


def _silences(given: Any) -> Tuple[Entry, ...]:
    return tuple(parse(_given(one)) for one in given)


def _overrules(given: Any) -> Tuple[Entry, ...]:
    return tuple(overrules.parse(_given(one)) for one in given)


@options
class Desired:
    """:raises NodeError: something of it cannot be."""

    _for_absent = ("program", "textfile", "labels_file")

    present: bool = state(
        [
            "V(absent) removes the gate's files, its sections of the declaration and what checks have found.",
            "A node that is drained stays drained; a note tells of it.",
        ]
    )
    silences: Tuple[Entry, ...] = option(
        (),
        "Known faults that do not count until a date. One that has ended is told.",
        inner=Silence,
        read=_silences,
    )
    thresholds: Mapping[str, Any] = option(
        {},
        [
            "Limits of measured figures in place of those of the profile and of the checks.",
            "By the name of the figure, with C(better) (C(higher) or C(lower)), C(warn) and C(fail).",
        ],
    )
    without: Tuple[str, ...] = option((), "Ids of checks, or patterns of them, that are not run on this node.")
    observe: Tuple[str, ...] = option(
        (),
        [
            "Checks that are only observed. What they find is told as C(observed), drains nothing, and changes neither "
            "the outcome of the node nor an exit status.",
            "Ids of checks, or patterns of them, V(ib_*), or names of findings as in O(silences), V(gpu_xid/xid_94/*). "
            "V(*) observes all of them. A pattern behind V(!) counts whatever the others say, V(!gpu_lost); a list of "
            "nothing but these observes no check and is refused.",
            "For a check that the site does not act on yet. For a known fault use O(silences), which has an owner and "
            "a date.",
        ],
    )
    settings: Mapping[str, Any] = option({}, "Settings of single checks.", inner=Checks, read=_given)
    drain: bool = option(True, "Drain this node in Slurm for a failing verdict.")
    resume: bool = option(True, "Resume, after clean verdicts, what was drained for its health.")
    drain_after: int = option(
        1, "How many failing verdicts in a row drain. In a prolog one does.", bounds=RANGES["drain_after"]
    )
    resume_after: int = option(
        3,
        "How many clean verdicts in a row resume. Those that looked less far than the failing one do not count.",
        bounds=RANGES["resume_after"],
    )
    resumes_a_day: int = option(
        3,
        "A node that was resumed so often within a day stays drained until a person resumes it.",
        bounds=RANGES["resumes_a_day"],
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
        bounds=RANGES["proof_attempts"],
    )
    proof_seconds: float = option(
        0.0,
        [
            "Time budget of these checks together, in seconds; with 0 they take the time that they need.",
            "A check that it does not cover is still owed, and the next attempt runs it. A check whose shortest useful "
            "run is longer never passes, and the node waits for a person.",
        ],
        bounds=RANGES["proof_seconds"],
    )
    overrules: Tuple[Entry, ...] = option(
        (),
        "Nodes that come back without that proof until a date. Each is told in every verdict while it holds.",
        inner=Overrule,
        read=_overrules,
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
        bounds=RANGES["drained_percent"],
        unit="percent",
    )
    prolog: bool = option(
        True,
        "Run the quick checks before each job, and keep the job away from a sick node. Needs the hooks of "
        "M(trainyard.gpu_node.slurm_hooks).",
    )
    epilog: bool = option(False, "Run the quick checks after each job as well.")
    program: str = option(
        PROGRAM,
        "The script for C(HealthCheckProgram=) of slurm.conf, written where slurmd is installed. Empty for none.",
        form=_FILE,
    )
    timer: bool = option(True, "Have a systemd timer run the passive checks.")
    interval_seconds: int = option(
        300,
        "Time between two runs of the timer. Labels expire after two and a half of them.",
        bounds=RANGES["interval_seconds"],
        unit="seconds",
    )
    by_timer: bool = option(
        False,
        "Let the timer drain and resume too, where C(HealthCheckProgram=) of the cluster is somebody else's.",
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
    remedy_attempts: int = option(
        2, "How often one remedy is tried on the same part within 7 days.", bounds=RANGES["remedy_attempts"]
    )
    remedies_a_day: int = option(
        4,
        "After so many remedies within a day the breaker is latched when one more is wanted: none is tried until a "
        "person runs C(gpunode remedy release --by NAME).",
        bounds=RANGES["remedies_a_day"],
    )
    remedied_percent: float = option(
        10.0,
        "Share of a partition, in percent of its machines, that may have had a remedy and not come back at a time. One "
        "node may in any case. Beyond it the breaker of the node that wants one more is latched, and no other node "
        "tries any.",
        bounds=RANGES["remedied_percent"],
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
    redeploy_seconds: int = option(
        900, "Time limit of that command.", bounds=RANGES["redeploy_seconds"], unit="seconds"
    )
    textfile: str = option(
        "",
        "File for the textfile collector of Prometheus' node exporter, in a folder that is there. Empty for none.",
        form=_FILE,
    )
    labels_file: str = option(
        "",
        "File for the local source of Node Feature Discovery, in a folder that is there. Its labels expire. Empty for "
        "none.",
        form=_FILE,
    )
    journal_folder: str = option(
        "",
        [
            "Folder on a file system that nodes share, where the history of each GPU, disk and port is kept too, so "
            "that it survives a redeploy and goes with a part to another node. Root of the nodes must be able to write "
            "there, and users must not. It has to be there; one on a tmpfs or on the scratch is refused.",
            "Empty keeps it in C(/var/lib/gpu_node/health/journal.json) alone.",
        ],
        form=_FILE,
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

    def __post_init__(self) -> None:
        if not self.present:
            return
        if self.textfile and not self.textfile.endswith(".prom"):
            raise NodeError(
                "option textfile",
                "{0!r} does not end with .prom".format(self.textfile),
                "give one that does, as node exporter reads no other",
            )
        if REDEPLOY in self.remedies and not self.redeploy_command:
            raise NodeError(
                "option remedies", "redeploy has no command", "give redeploy_command, or leave redeploy out"
            )
        program_words.check("option redeploy_command", self.redeploy_command)
        check(self.settings)
        thresholds.declared(self.thresholds)
        # On the node a name that means nothing would leave the gate without any check.
        registry.chosen(Cost.ACTIVE, (), self.without)
        # One that means no check would count, though somebody believes that it is only observed.
        registry.known([check_of(one) for one in self.observe])
        # One that means no check would silence nothing. "*" alone may cover the "/" after the name of the check.
        named = [one.finding for one in self.silences if "/" in one.finding or "*" not in one.finding]
        registry.known([one.partition("/")[0] for one in named])
        if self.observe and all(one.startswith(ENFORCED) for one in self.observe):
            reason = "all of its entries begin with {0!r}, so no check is observed".format(ENFORCED)
            raise NodeError("option observe", reason, "add '*' to observe all but these, or leave it out")
        try:
            json.dumps([self.settings, self.thresholds], allow_nan=False)
        except (TypeError, ValueError) as error:
            raise NodeError(
                "option settings", "it is no JSON ({0})".format(error), "use texts, numbers, lists"
            ) from error

    @property
    def gate(self) -> Settings:
        """What a verdict is to do, as the hooks read it."""
        return Settings(
            drain=self.drain,
            resume=self.resume,
            prolog=self.prolog,
            epilog=self.epilog,
            unknown_drains=self.unknown_drains,
            drain_after=self.drain_after,
            resume_after=self.resume_after,
            resumes_a_day=self.resumes_a_day,
            proof=self.proof,
            proof_attempts=self.proof_attempts,
            proof_seconds=self.proof_seconds,
            drained_percent=self.drained_percent,
            keep_powered=self.keep_powered,
            keepalive=self.keepalive,
            remedies=self.remedies,
            remedy_attempts=self.remedy_attempts,
            remedies_a_day=self.remedies_a_day,
            remedied_percent=self.remedied_percent,
            remedy_units=self.remedy_units,
            redeploy_command=self.redeploy_command,
            redeploy_seconds=self.redeploy_seconds,
            textfile=self.textfile,
            labels_file=self.labels_file,
            kubernetes_node=self.kubernetes_node,
            journal_folder=self.journal_folder,
            interval_seconds=self.interval_seconds,
        )

    def wanted(self, slurmd: bool) -> Tuple[Wanted, ...]:
        """The whole files. The script is there for Slurm only."""
        files = []
        if self.timer:
            files.append(Wanted(timer_unit.path(SERVICE), texts.service(self.by_timer)))
            files.append(Wanted(timer_unit.path(TIMER), texts.timer(self.interval_seconds)))
        if self.proof and slurmd:
            files.append(Wanted(timer_unit.path(PROOF), texts.proof()))
        if self.remedies and slurmd:
            files.append(Wanted(timer_unit.path(REMEDY_UNIT), texts.remedy(self.redeploy_seconds)))
        if self.program and slurmd:
            files.append(Wanted(self.program, texts.PROGRAM, 0o755))
        return tuple(files)

    @property
    def outputs(self) -> Tuple[str, ...]:
        """What a run of checks writes for other programs, with our mark."""
        return tuple(path for path in (self.textfile, self.labels_file) if path)

    @property
    def folders(self) -> Tuple[Tuple[str, str], ...]:
        """(option, folder) of those that have to be there."""
        if not self.present:
            return ()
        files = (("textfile", self.textfile), ("labels_file", self.labels_file))
        found = [(name, os.path.dirname(path)) for name, path in files if path]
        return (*found, *([(JOURNAL_FOLDER, self.journal_folder)] if self.journal_folder else []))

    def health_section(self) -> Dict[str, Any]:
        content = dict(self.settings)
        if self.silences:
            content["silences"] = [one.to_dict() for one in self.silences]
        if self.overrules:
            content[overrules.NAME] = [overrules.to_dict(one) for one in self.overrules]
        if self.thresholds:
            content["thresholds"] = dict(self.thresholds)
        if self.without:
            content["without"] = list(self.without)
        if self.observe:
            content["observe"] = list(self.observe)
        return content
