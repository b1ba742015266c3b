# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What job scripts are rendered from."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Mapping, Optional, Tuple

from ...core.managed_files import Files
from ...core.resource import NodeError
from ...facts.topology import Topology

# The section of /etc/gpu_node/node.json.
SECTION = "job_templates"

_PATH = re.compile(r"/[A-Za-z0-9._/+@-]+")
# What stands in a script unquoted or between double quotes: nothing that a shell could take for more than a word.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,@+-]*")
_IMAGE = re.compile(r"[A-Za-z0-9/][A-Za-z0-9._:/#@+-]*")
_MOUNT = re.compile(r"/[A-Za-z0-9._/+@-]*:/[A-Za-z0-9._/+@-]*(:[A-Za-z0-9=+-]+)?")
_MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./+-]*")
# Of the head of a script, which sbatch reads and no shell.
_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_TIME = re.compile(r"\d+(:\d{1,2}){0,2}|\d+-\d{1,2}(:\d{1,2}){0,2}|UNLIMITED")
_MEMORY = re.compile(r"\d+[KMGT]?")
_LOGS = re.compile(r"[A-Za-z0-9._/%+@-]+")
_DIRECTIVE = re.compile(r"--([a-z][a-z-]*)(=[A-Za-z0-9_.,:;@%+/&|*!()\[\]{}=-]+)?")
# Options of sbatch that a script has already, and where each comes from.
_SAID_BY = {
    "account": "account",
    "error": "error_file",
    "gpus": "gpus_per_node",
    "gpus-per-node": "gres_type",
    "gpus-per-socket": "gpus_per_node",
    "mem": "memory",
    "mem-per-cpu": "memory",
    "mem-per-gpu": "memory",
    "nodes": "nodes",
    "output": "log_folder",
    "partition": "partition",
    "time": "time",
}
# Those that would take away what the masks of CPUs need: all of a node, and this number of tasks.
_NEVER = (
    "core-spec",
    "cpus-per-gpu",
    "cpus-per-task",
    "exclusive",
    "ntasks",
    "ntasks-per-node",
    "oversubscribe",
    "tasks-per-node",
    "thread-spec",
)
# Those that srun takes over from the environment of the job and gives each rank GPUs of its own for; local rank 1 of a
# program would have no second GPU then.
_NEVER_BINDS = ("gpu-bind", "gpus-per-task", "ntasks-per-gpu", "tres-bind", "tres-per-task")


def _checked(name: str, value: str, pattern: "re.Pattern[str]", what: str, remedy: str) -> None:
    if value and not pattern.fullmatch(value):
        raise NodeError("option {0}".format(name), "{0!r} is no {1}".format(value, what), remedy)


def _check_directive(text: str) -> None:
    found = _DIRECTIVE.fullmatch(text)
    if found is None:
        reason = "{0!r} is no option of sbatch in its long form".format(text)
        raise NodeError("option directives", reason, "write each as --name or --name=value, without spaces and quotes")
    name = found.group(1)
    if name in _SAID_BY:
        raise NodeError("option directives", "--{0} has an option of its own".format(name), "set " + _SAID_BY[name])
    if name in _NEVER:
        reason = "with --{0} the ranks could not be bound to their cores; the scripts take whole nodes".format(name)
        raise NodeError("option directives", reason, "leave it out")
    if name in _NEVER_BINDS:
        reason = "with --{0} a rank would not see all GPUs, and programs choose theirs by its local number".format(name)
        raise NodeError("option directives", reason, "leave it out")


@dataclasses.dataclass(frozen=True)
class Desired:
    """``nodes`` is what a script asks for by itself; ``sbatch --nodes`` overrides it.

    ``gpus_per_node`` None takes all GPUs of the machine, ``mpi_ranks_per_node`` None one rank a NUMA node.
    Without ``image`` or ``hpl_image`` the scripts that need it are left out. ``directives`` are options of sbatch.
    """

    folder: str
    present: bool = True
    nodes: int = 2
    gpus_per_node: Optional[int] = None
    mpi_ranks_per_node: Optional[int] = None
    partition: str = ""
    account: str = ""
    time: str = ""
    memory: str = "0"
    gres_type: str = ""
    log_folder: str = ""
    error_file: bool = False
    directives: Tuple[str, ...] = ()
    image: str = "nvcr.io#nvidia/pytorch:25.02-py3"
    hpl_image: str = "nvcr.io#nvidia/hpc-benchmarks:25.02"
    horovod_image: str = ""
    mounts: Tuple[str, ...] = ()
    nccl_tests: str = "/opt/nccl-tests/build"
    mpi_module: str = "mpi/hpcx"
    slurm_mpi: str = "pmix"

    def __post_init__(self) -> None:
        for name in ("folder", "nccl_tests"):
            value = getattr(self, name)
            if not _PATH.fullmatch(value) or ".." in value.split("/") or value.rstrip("/").count("/") < 1:
                raise NodeError(
                    "option {0}".format(name),
                    "{0!r} is no absolute path that a job script can take".format(value),
                    "use letters, digits and ._/+@- after a slash",
                )
            object.__setattr__(self, name, value.rstrip("/"))
        for name, low, high in (("nodes", 1, 100000), ("gpus_per_node", 1, 1024), ("mpi_ranks_per_node", 1, 65536)):
            number = getattr(self, name)
            if number is not None and not low <= number <= high:
                raise NodeError(
                    "option {0}".format(name), "{0} is out of range".format(number), "give {0} to {1}".format(low, high)
                )
        for name in ("partition", "account", "slurm_mpi"):
            _checked(name, getattr(self, name), _NAME, "name that Slurm knows", "use letters, digits and _.,@+-")
        _checked("time", self.time, _TIME, "time limit of Slurm", "write it as minutes, H:MM:SS or D-HH")
        _checked("memory", self.memory, _MEMORY, "size of memory", "write it as 0 (all of a node) or as in 900G")
        _checked("gres_type", self.gres_type, _TYPE, "type of GPU", "use the one of Gres=gpu:TYPE:COUNT, or auto")
        remedy = "use letters, digits, ._/+@- and sbatch's patterns such as %u"
        _checked("log_folder", self.log_folder, _LOGS, "folder that sbatch can take", remedy)
        for directive in self.directives:
            _check_directive(directive)
        for name in ("image", "hpl_image", "horovod_image"):
            remedy = "write it as pyxis takes it, such as nvcr.io#nvidia/pytorch:25.02-py3 or /shared/pytorch.sqsh"
            _checked(name, getattr(self, name), _IMAGE, "name of a container image", remedy)
        for mount in self.mounts:
            _checked("mounts", mount or " ", _MOUNT, "mount of pyxis", "write it as /from:/to or /from:/to:ro")
        _checked("mpi_module", self.mpi_module, _MODULE, "name of a module", "write it as in mpi/hpcx")


@dataclasses.dataclass(frozen=True)
class State:
    """``profile`` is the section of that name of the declaration: ``name`` and ``data``."""

    files: Files = Files()
    declared: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    topology: Optional[Topology] = None
    profile: Mapping[str, Any] = dataclasses.field(default_factory=dict)
