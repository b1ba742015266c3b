# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What job scripts are rendered from."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Mapping, Optional, Tuple

from ..managed_files import Files
from ..resource import NodeError
from ..topology import Topology

# The section of /etc/gpu_node/node.json.
SECTION = "job_templates"

_PATH = re.compile(r"/[A-Za-z0-9._/+@-]+")
# What stands in a script unquoted or between double quotes: nothing that a shell could take for more than a word.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,@+-]*")
_IMAGE = re.compile(r"[A-Za-z0-9/][A-Za-z0-9._:/#@+-]*")
_MOUNT = re.compile(r"/[A-Za-z0-9._/+@-]*:/[A-Za-z0-9._/+@-]*(:[A-Za-z0-9=+-]+)?")
_MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./+-]*")


def _checked(name: str, value: str, pattern: "re.Pattern[str]", what: str, remedy: str) -> None:
    if value and not pattern.fullmatch(value):
        raise NodeError("option {0}".format(name), "{0!r} is no {1}".format(value, what), remedy)


@dataclasses.dataclass(frozen=True)
class Desired:
    """``nodes`` is what a script asks for by itself; ``sbatch --nodes`` overrides it.

    ``gpus_per_node`` None takes all GPUs of the machine, ``mpi_ranks_per_node`` None one rank a NUMA node.
    Without ``image`` or ``hpl_image`` the scripts that need it are left out.
    """

    folder: str
    present: bool = True
    nodes: int = 2
    gpus_per_node: Optional[int] = None
    mpi_ranks_per_node: Optional[int] = None
    partition: str = ""
    account: str = ""
    image: str = "nvcr.io#nvidia/pytorch:25.02-py3"
    hpl_image: str = "nvcr.io#nvidia/hpc-benchmarks:25.02"
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
        for name in ("image", "hpl_image"):
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
