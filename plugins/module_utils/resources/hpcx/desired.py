# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted of HPC-X; what a user gets wrong is said here."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Dict, Mapping, Optional, Tuple

from ...core.artefact import Source
from ...core.resource import NodeError

ADOPT = ("same_version", "any", "never")
MODULEFILES = ("auto", "lmod", "environment_modules", "none")
PREFIX = "/opt/hpcx"
# Where images and sites unpack it: hpcx-v2.25.1-gcc-doca_ofed-ubuntu24.04-cuda13-x86_64 and the like.
ADOPT_PATHS = ("/opt/hpcx-*", "/opt/hpcx", "/opt/hpcx/hpcx-*", "/usr/local/hpcx-*", "/usr/local/hpcx")
CONFLICTS = ("mpi", "openmpi", "mvapich", "mvapich2", "mpich", "impi", "intel-mpi", "intelmpi")

_PATH = re.compile(r"(?:/[A-Za-z0-9_+@-][A-Za-z0-9._+@-]*)+")
_PATTERN = re.compile(r"(?:/[A-Za-z0-9_+@*?\[-][A-Za-z0-9._+@*?\[\]-]*)+")
_VERSION = re.compile(r"[0-9][A-Za-z0-9._+-]{0,63}")
_MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*(?:/[A-Za-z0-9][A-Za-z0-9._+-]*)*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VALUE = re.compile(r"[^\x00-\x1f\x7f]*")
# Lists that the modulefile adds to; a value for the whole of one would take the system's own entries away.
LISTS = ("CPATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "MANPATH", "PATH", "PKG_CONFIG_PATH")

_DEFAULTS = {
    "OMPI_MCA_btl": "^openib",
    "OMPI_MCA_pml": "ucx",
    # Open MPI takes its UCX layer only where it knows the transport or the network card, and 'pml ucx' then ends a job
    # on a login node (opal/mca/common/ucx of Open MPI 4 and 5). With any, UCX itself chooses, down to TCP.
    "OMPI_MCA_pml_ucx_devices": "any",
    "OMPI_MCA_pml_ucx_tls": "any",
    # No warning in each job on a node without a driver.
    "OMPI_MCA_opal_warn_on_missing_libcuda": "0",
}


@dataclasses.dataclass(frozen=True)
class Desired:
    """``source`` None: what is on the node already is used. ``environment`` wins over ``ucx``, which wins over ours."""

    present: bool = True
    source: Optional[Source] = None
    version: str = ""
    prefix: str = PREFIX
    keep: int = 1
    adopt: str = "same_version"
    adopt_paths: Tuple[str, ...] = ADOPT_PATHS
    modulefiles: str = "auto"
    modulefile_folder: str = ""
    module_name: str = "mpi/hpcx"
    conflicts: Tuple[str, ...] = CONFLICTS
    ucx: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    environment: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    hcoll: bool = False
    sharp_plugin: bool = True
    limit_seconds: float = 600.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "version", re.sub(r"^v(?=[0-9])", "", self.version.strip()))
        object.__setattr__(self, "prefix", _path("prefix", self.prefix))
        object.__setattr__(self, "modulefile_folder", _path("modulefile_dir", self.modulefile_folder, True))
        if self.version and not _VERSION.fullmatch(self.version):
            raise NodeError(
                "option version", "{0!r} is no version".format(self.version), "give one such as 2.24.1 or 2.24.1-cuda13"
            )
        if self.source is not None and not self.version:
            raise NodeError("option version", "it is missing beside source", "give the version that the tarball holds")
        for pattern in self.adopt_paths:
            if not _PATTERN.fullmatch(pattern):
                raise NodeError(
                    "option adopt_paths", "{0!r} is no absolute path or pattern".format(pattern), "give /opt/hpcx-*"
                )
        for name, value, choices in (
            ("adopt", self.adopt, ADOPT),
            ("modulefiles", self.modulefiles, MODULEFILES),
        ):
            if value not in choices:
                raise NodeError("option " + name, "{0!r} is unknown".format(value), "give one of " + ", ".join(choices))
        for option, names in (("module_name", (self.module_name,)), ("conflicts", self.conflicts)):
            for name in names:
                if not _MODULE.fullmatch(name):
                    raise NodeError(
                        "option " + option, "{0!r} is no name of a module".format(name), "give one such as mpi/hpcx"
                    )
        if not 0 <= self.keep <= 100:
            raise NodeError("option keep", "{0} is out of range".format(self.keep), "give 0 to 100 old versions")
        if not 1 <= self.limit_seconds <= 86400:
            raise NodeError(
                "option timeout_seconds", "{0:g} is out of range".format(self.limit_seconds), "give 1 to 86400 seconds"
            )
        for option, mapping in (("ucx", self.ucx), ("environment", self.environment)):
            object.__setattr__(self, option, _variables(option, mapping))

    @property
    def variables(self) -> Dict[str, str]:
        """What the modulefiles set beside what HPC-X itself needs."""
        # Off for jobs with NCCL: NVIDIA's and Azure's advice.
        hcoll = {"OMPI_MCA_coll_hcoll_enable": "1" if self.hcoll else "0"}
        return dict(sorted(dict(_DEFAULTS, **dict(hcoll, **dict(self.ucx, **self.environment))).items()))


def _path(name: str, value: str, may_be_empty: bool = False) -> str:
    value = value.rstrip("/")
    if not value and may_be_empty:
        return ""
    if not _PATH.fullmatch(value):
        raise NodeError(
            "option " + name,
            "{0!r} is no absolute path that a modulefile can take".format(value),
            "use letters, digits and ._+@- after each slash",
        )
    return value


def _variables(option: str, mapping: Mapping[str, Any]) -> Dict[str, str]:
    result = {}
    for name, value in sorted(mapping.items(), key=lambda item: str(item[0])):
        thing = "option {0}".format(option)
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name) or name in LISTS:
            raise NodeError(
                thing,
                "{0!r} is no variable that can be set here".format(name),
                "use letters, digits and _, and none of " + ", ".join(LISTS),
            )
        if option == "ucx" and not name.startswith("UCX_"):
            raise NodeError(thing, "{0} is no setting of UCX".format(name), "give it in environment")
        if isinstance(value, bool):
            value = "1" if value else "0"  # what YAML made of on and off; UCX takes both for its switches
        if not isinstance(value, (str, int, float)) or not _VALUE.fullmatch(str(value)):
            raise NodeError(thing, "the value of {0} is no single line of text".format(name), "give it in quotes")
        result[name] = str(value)
    return result
