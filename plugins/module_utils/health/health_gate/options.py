# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the gate on a node."""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping, Optional, Tuple

from ...core.boot_unit import UNIT
from ...core.managed_files import Wanted
from ...core.options import option, options, state
from ...core.resource import NodeError
from .. import registry, thresholds
from ..gate.settings import RANGES, REDEPLOY, REMEDIES, REMEDY_UNIT, Settings
from ..settings import check
from ..silences import Entry, parse
from ..types import Cost
from . import texts
from .types import FOLDER, PROGRAM, SERVICE, TIMER

_FILE = (
    r"|/(?!(?:.*/)?\.\.(?:/|$))[A-Za-z0-9._/+@-]*[A-Za-z0-9._+@-]",
    "absolute path of a file",
    "use letters, digits and ._/+@- after a slash",
)


@options
class Silence:
    """A known fault that does not count for a while."""

    finding: str = option(
        ...,
        "Name of a finding, C(check/code/key), or a pattern that begins with the id of a check, as "
        "C(gpu_xid/xid_63/*).",
    )
    until: str = option(..., "The last day on which it holds, V(2026-12-31), or a time in UTC, V(2026-12-31T18:00Z).")
    owner: str = option(..., "Who answers for it.")
    reason: str = option(..., "Why it may be so.")
    nodes: Optional[Tuple[str, ...]] = option(
        None,
        "Host names, or patterns of them, where it holds. By default on each node that this is set for.",
        kind="list",
        elements="str",
    )


@options
class Acknowledged:
    """An Xid that somebody has looked at."""

    code: int = option(..., "The number of the Xid.")
    before: str = option(
        ..., "Until when, V(2026-11-21T20:00:00Z), UTC unless it says otherwise, or seconds since 1970."
    )
    pci_address: Optional[str] = option(None, "The GPU that is meant, V(0000:0b:00.0). By default each of them.")


@options
class Tools:
    """Where tools are."""

    nvbandwidth: Optional[str] = option(None, "NVIDIA's nvbandwidth.")
    all_reduce_perf: Optional[str] = option(None, "The all-reduce test of nccl-tests.")
    ib_write_bw: Optional[str] = option(None, "The write test of perftest.")
    dcgmi: Optional[str] = option(None, "The command of NVIDIA's DCGM.")
    fio: Optional[str] = option(None, "The tester of disks.")
    python: Optional[str] = option(
        None, "A Python with PyTorch or CuPy for the check C(gpu_gemm), which does not run without."
    )


@options
class Checks:
    """Settings of single checks, which :mod:`..settings` checks."""

    acknowledged: Optional[Tuple[Acknowledged, ...]] = option(
        None, "Xids that somebody has looked at. They are told no more; those that come later are.", inner=Acknowledged
    )
    partition_keys: Optional[Tuple[str, ...]] = option(
        None,
        "Partition keys that each InfiniBand port must have in its table, V(0x8012). The highest bit asks for full "
        "membership.",
        kind="list",
        elements="str",
    )
    tools: Optional[Tools] = option(
        None,
        "Whole paths of tools that active checks run, where they are not found by themselves.",
        inner=Tools,
    )
    gemm_seconds: Optional[float] = option(None, "Seconds of load on each GPU, V(1) to V(150), V(10) by default.")
    gemm_together: Optional[bool] = option(
        None, "Whether all GPUs compute at once in the check C(gpu_gemm), V(false) by default."
    )
    memory_test_seconds: Optional[float] = option(
        None, "Seconds of the memory test of each GPU, V(1) to V(120), V(20) by default."
    )
    scratch_probe_gibibytes: Optional[float] = option(
        None, "Size of the file that is written to the scratch and read back, V(0.125) to V(64), V(8) by default."
    )
    dcgm_level: Optional[int] = option(None, "Level of C(dcgmi diag), V(1) to V(3), V(1) by default.")
    hpl_output: Optional[str] = option(
        None, "The file that a job of HPL wrote. Without it the check C(hpl_result) does not run."
    )


def _given(value: Any) -> Any:
    """Without what a module's arguments name and nobody gave."""
    if isinstance(value, (list, tuple)):
        return [_given(one) for one in value]
    if isinstance(value, Mapping):
        return {name: _given(one) for name, one in value.items() if one is not None}
    return value


def _silences(given: Any) -> Tuple[Entry, ...]:
    return tuple(parse(_given(one)) for one in given)


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
        if self.redeploy_command and not self.redeploy_command[0].startswith("/"):
            reason = "{0!r} is no absolute path".format(self.redeploy_command[0])
            raise NodeError("option redeploy_command", reason, "begin it with the whole path of a program")
        check(self.settings)
        thresholds.check(self.thresholds)
        # On the node a name that means nothing would leave the gate without any check.
        registry.chosen(Cost.ACTIVE, (), self.without)
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
            interval_seconds=self.interval_seconds,
        )

    def wanted(self, slurmd: bool) -> Tuple[Wanted, ...]:
        """The whole files. The script is there for Slurm only."""
        files = []
        if self.timer:
            files.append(Wanted("{0}/{1}".format(FOLDER, SERVICE), texts.service(self.by_timer)))
            files.append(Wanted("{0}/{1}".format(FOLDER, TIMER), texts.timer(self.interval_seconds)))
        if self.remedies and slurmd:
            files.append(Wanted("{0}/{1}".format(FOLDER, REMEDY_UNIT), texts.remedy(self.redeploy_seconds)))
        if self.program and slurmd:
            files.append(Wanted(self.program, texts.PROGRAM, 0o755))
        return tuple(files)

    @property
    def outputs(self) -> Tuple[str, ...]:
        """What a run of checks writes for other programs, with our mark."""
        return tuple(path for path in (self.textfile, self.labels_file) if path)

    def health_section(self) -> Dict[str, Any]:
        content = dict(self.settings)
        if self.silences:
            content["silences"] = [one.to_dict() for one in self.silences]
        if self.thresholds:
            content["thresholds"] = dict(self.thresholds)
        if self.without:
            content["without"] = list(self.without)
        return content
