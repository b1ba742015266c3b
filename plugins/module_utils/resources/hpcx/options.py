# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of HPC-X on a node; what a user gets wrong is said here."""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Optional, Tuple

from ...core.artefact import Source
from ...core.options import option, options, state
from ...core.resource import NodeError

PREFIX = "/opt/hpcx"
# Where images and sites unpack it: hpcx-v2.25.1-gcc-doca_ofed-ubuntu24.04-cuda13-x86_64 and the like.
ADOPT_PATHS = ("/opt/hpcx-*", "/opt/hpcx", "/opt/hpcx/hpcx-*", "/usr/local/hpcx-*", "/usr/local/hpcx")
CONFLICTS = ("mpi", "openmpi", "mvapich", "mvapich2", "mpich", "impi", "intel-mpi", "intelmpi")

_PATH = re.compile(r"(?:/[A-Za-z0-9_+@-][A-Za-z0-9._+@-]*)+")
_PATTERN = (
    r"(?:/[A-Za-z0-9_+@*?\[-][A-Za-z0-9._+@*?\[\]-]*)+",
    "absolute path or pattern",
    "give one such as /opt/hpcx-*",
)
_VERSION = (
    r"[0-9][A-Za-z0-9._+-]{0,63}",
    "version",
    "give one such as 2.24.1 or 2.24.1-cuda13",
)
_MODULE = (
    r"[A-Za-z0-9][A-Za-z0-9._+-]*(?:/[A-Za-z0-9][A-Za-z0-9._+-]*)*",
    "name of a module",
    "give one such as mpi/hpcx",
)
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


def _plain_version(given: str) -> str:
    return re.sub(r"^v(?=[0-9])", "", given.strip())


@options
class Desired:
    """``environment`` wins over ``ucx``, which wins over ours."""

    present: bool = state(
        "V(present) has jobs find an HPC-X. V(absent) removes what was installed and written here, and leaves what was "
        "adopted."
    )
    source: str = option(
        "",
        [
            "The tarball, as C(http://), C(https://) or C(file:///) URL, or as an absolute path on the node. Proxies "
            "of the environment are used.",
            "Without it nothing is installed; what is on the node is used, and a node without any is skipped.",
        ],
        needs=("sha256", "version"),
        secret=True,
    )
    sha256: str = option("", "SHA-256 of the tarball, 64 hexadecimal digits.", needs=("source",))
    version: str = option(
        "",
        [
            "The version that jobs get, such as V(2.24.1). The tarball of O(source) must hold it; a suffix such as "
            "V(2.24.1-cuda13) tells two builds of a version apart.",
            "Without it and without O(source), jobs keep what they have, else get the newest that is there.",
        ],
        form=_VERSION,
        read=_plain_version,
    )
    prefix: str = option(PREFIX, "The folder that versions are installed in.", kind="path")
    keep: int = option(
        1,
        "How many other versions of ours stay, the latest first. One that a process runs from is not removed, which is "
        "a note.",
        bounds=(0, 100),
    )
    adopt: str = option(
        "same_version",
        "When an HPC-X of the image is used. V(same_version) is when it has O(version) or no O(source) is given; "
        "V(any), whatever its version is; V(never), not at all.",
        choices=("same_version", "any", "never"),
    )
    adopt_paths: Tuple[str, ...] = option(
        ADOPT_PATHS, "Where to look for one, as paths or shell patterns.", form=_PATTERN
    )
    modulefiles: str = option(
        "auto",
        "Which modulefiles are written. V(auto) is for the module systems that are installed.",
        choices=("auto", "lmod", "environment_modules", "none"),
    )
    modulefile_dir: str = option(
        "", "Where they go. Empty for the folder that the module system keeps for those of a site."
    )
    module_name: str = option(
        "mpi/hpcx",
        "The name of the module. That of a single version is the same with a hyphen and the version after it.",
        form=_MODULE,
    )
    conflicts: Tuple[str, ...] = option(CONFLICTS, "Modules that cannot be loaded beside it.", form=_MODULE)
    ucx: Mapping[str, Any] = option(
        {}, "Settings of UCX for the modulefiles, such as those of the profile. A boolean becomes 1 or 0."
    )
    environment: Mapping[str, Any] = option(
        {}, "Further variables for the modulefiles. They win over those of O(ucx) and over our own."
    )
    hcoll: bool = option(False, "Whether HCOLL is on. Jobs with NCCL want it off.")
    sharp_plugin: bool = option(True, "Whether NCCL finds the plugin for RDMA and SHARP, where there is one.")
    timeout_seconds: float = option(600.0, "How long the download may take.", bounds=(1, 86400), unit="seconds")

    def __post_init__(self) -> None:
        for name, may_be_empty in (("prefix", False), ("modulefile_dir", True)):
            object.__setattr__(self, name, _path(name, getattr(self, name), may_be_empty))
        if self.source:
            object.__setattr__(self, "sha256", Source(self.source, self.sha256).sha256)
        for name, mapping in (("ucx", self.ucx), ("environment", self.environment)):
            object.__setattr__(self, name, _variables(name, mapping))

    @property
    def archive(self) -> Optional[Source]:
        return Source(self.source, self.sha256) if self.source else None

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
