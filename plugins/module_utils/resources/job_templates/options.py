# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the job scripts."""

from __future__ import annotations

import re
from typing import Optional, Tuple

from ...core.options import option, options, state
from ...core.resource import NodeError

_PATH = re.compile(r"/[A-Za-z0-9._/+@-]+")
# What a script has unquoted or between double quotes: nothing that a shell could take for more than a word. Each may
# be empty.
_NAME = (r"|[A-Za-z0-9][A-Za-z0-9_.,@+-]*", "name that Slurm knows", "use letters, digits and _.,@+-")
_IMAGE = (
    r"|[A-Za-z0-9/][A-Za-z0-9._:/#@+-]*",
    "name of a container image",
    "write it as pyxis takes it, such as nvcr.io#nvidia/pytorch:25.02-py3 or /shared/pytorch.sqsh",
)
_MOUNT = (
    r"/[A-Za-z0-9._/+@-]*:/[A-Za-z0-9._/+@-]*(:[A-Za-z0-9=+-]+)?",
    "mount of pyxis",
    "write it as /from:/to or /from:/to:ro",
)
_MODULE = (r"|[A-Za-z0-9][A-Za-z0-9_./+-]*", "name of a module", "write it as in mpi/hpcx")
# Of the head of a script, which sbatch reads and no shell.
_TYPE = (r"|[A-Za-z0-9][A-Za-z0-9_.+-]*", "type of GPU", "use the one of Gres=gpu:TYPE:COUNT, or auto")
_TIME = (
    r"|\d+(:\d{1,2}){0,2}|\d+-\d{1,2}(:\d{1,2}){0,2}|UNLIMITED",
    "time limit of Slurm",
    "write it as minutes, H:MM:SS or D-HH",
)
_MEMORY = (r"|\d+[KMGT]?", "size of memory", "write it as 0 (all of a node) or as in 900G")
_LOGS = (
    r"|[A-Za-z0-9._/%+@-]+",
    "folder that sbatch can take",
    "use letters, digits, ._/+@- and sbatch's patterns such as %u",
)
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


@options
class Desired:
    """Without ``image`` or ``hpl_image`` the scripts that need it are left out."""

    _for_absent = ()  # the folder is checked in any case

    present: bool = state(
        "V(present) writes the scripts. V(absent) removes ours, and the folders that were made for them."
    )
    folder: str = option(
        "/usr/local/share/gpu_node/jobs",
        "Where the scripts go. Scripts name each other by this path, so it must be the same on all nodes of a job; "
        "best a folder that all of them see.",
    )
    nodes: int = option(
        2, "How many nodes a script asks for by itself. C(sbatch --nodes) overrides it.", bounds=(1, 100000)
    )
    gpus_per_node: Optional[int] = option(
        None,
        "How many ranks, each with a GPU, run on a node. By default as many as there are GPUs.",
        bounds=(1, 1024),
    )
    mpi_ranks_per_node: Optional[int] = option(
        None,
        "How many ranks the check of MPI runs on a node. By default one for each NUMA node.",
        bounds=(1, 65536),
    )
    partition: str = option("", "Partition of Slurm. Empty for the cluster's default.", form=_NAME)
    account: str = option("", "Account of Slurm. Empty for the user's default.", form=_NAME)
    time: str = option(
        "",
        "Time limit of a job as C(sbatch --time) takes it, such as V(30), V(2:00:00) or V(1-12). Empty for the "
        "partition's default.",
        form=_TIME,
    )
    memory: str = option(
        "0",
        "Memory of each node as C(sbatch --mem) takes it. V(0) is all of it, which an exclusive job does not get by "
        "itself. Empty for the cluster's default.",
        form=_MEMORY,
    )
    gres_type: str = option(
        "",
        "Type of GPU to ask for, as slurm.conf has it in C(Gres=gpu:TYPE:COUNT); V(auto) takes it from the product. "
        "Empty for any.",
        form=_TYPE,
        of_role="slurm_hooks_gres_type",
    )
    log_folder: str = option(
        "",
        [
            "Where the output of jobs goes. May have patterns of sbatch, such as V(/shared/logs/%u).",
            "Slurm before 23.02 makes no folder, and a job whose log folder is not there fails without a message.",
            "Empty for the folder that a job is submitted from.",
        ],
        form=_LOGS,
    )
    error_file: bool = option(False, "Write errors to a file of their own, C(.err) beside C(.out).")
    directives: Tuple[str, ...] = option(
        (), "More options of C(sbatch) for all scripts, such as V(--qos=train) or V(--constraint=ndr)."
    )
    image: str = option(
        "nvcr.io#nvidia/pytorch:25.02-py3",
        [
            "Container image of NCCL's tests and of PyTorch, as pyxis takes it.",
            "Empty leaves out NCCL's tests in a container, and PyTorch runs with what is installed on the nodes.",
        ],
        form=_IMAGE,
    )
    hpl_image: str = option(
        "nvcr.io#nvidia/hpc-benchmarks:25.02",
        "Container image with NVIDIA's HPL. Empty leaves HPL out.",
        form=_IMAGE,
    )
    horovod_image: str = option(
        "",
        [
            "Container image with Horovod. NVIDIA's PyTorch images list none; TensorFlow's of 21.05 and MXNet's of "
            "24.05 do.",
            "Empty runs in the environment that is active when a job is submitted.",
        ],
        form=_IMAGE,
    )
    environment: str = option(
        "",
        "Python environment of the nodes that training outside of a container runs in, as an absolute path, such as "
        "the link of one of M(trainyard.gpu_node.python_env). Empty for the one that is active when a job is "
        "submitted; C(PYTHON_ENV) at C(sbatch) overrides it.",
    )
    mounts: Tuple[str, ...] = option(
        (),
        [
            "What containers see of the node, as C(/from:/to) or C(/from:/to:ro).",
            "C(/etc/nccl.conf), the topology file that it names and the working folder are mounted in any case.",
        ],
        form=_MOUNT,
    )
    nccl_tests: str = option(
        "/opt/nccl-tests/build",
        "Folder with C(all_reduce_perf) and C(alltoall_perf) on the nodes, built with MPI.",
    )
    mpi_module: str = option("mpi/hpcx", "Module that is loaded where no mpirun is in the search path.", form=_MODULE)
    slurm_mpi: str = option(
        "pmix", "What C(srun --mpi) is given, one of those that C(srun --mpi=list) shows.", form=_NAME
    )

    def __post_init__(self) -> None:
        for name in ("folder", "nccl_tests") if self.present else ("folder",):
            object.__setattr__(self, name, _path(name, getattr(self, name)))
        if self.present and self.environment:
            object.__setattr__(self, "environment", _path("environment", self.environment))
        for directive in self.directives if self.present else ():
            _check_directive(directive)


def _path(name: str, value: str) -> str:
    if not _PATH.fullmatch(value) or ".." in value.split("/") or value.rstrip("/").count("/") < 1:
        raise NodeError(
            "option {0}".format(name),
            "{0!r} is no absolute path that a job script can take".format(value),
            "use letters, digits and ._/+@- after a slash",
        )
    return value.rstrip("/")


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
