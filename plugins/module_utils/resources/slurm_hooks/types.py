# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this collection has in Slurm's folders, what is found there, and the steps between."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Mapping, Optional, Tuple

from ...core.managed_files import MARKER, Files, Wanted
from ...core.resource import NodeError
from ...slurm.syntax import Text
from ...slurm.types import Settings
from .layout import Machine, Slurm
from .trusted import Trust

# The prolog has two names: whatever order a site's Slurm (Z to A) or its own wrapper (A to Z) has, ours comes first,
# and no other script works on a node whose scratch is not there. The second call finds the first one's work done.
PROLOG_NAMES = ("00-gpu_node", "zz-gpu_node")
EPILOG_NAME = "50-gpu_node"
COMMAND = "/usr/local/bin/gpunode"
GRES_CORES = ("auto", "sockets", "none")
_PATH = re.compile(r"/[A-Za-z0-9._/+@-]+")
_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

PROLOG = (
    """#!/bin/sh
"""
    + MARKER
    + """ Changes will be lost; scripts of yours go into files of their own.
PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
export PATH
# This hook lies here under two names, and whichever comes first does the work.
# Its other name came first. An old note is not of this start of the job.
case ${SLURM_JOB_ID:-x} in *[!0-9]*) note= ;; *) note=/run/gpu_node/jobs/$SLURM_JOB_ID.json ;; esac
[ -e "$note" ] && [ -n "$(find "$note" -mmin -10)" ] && exit 0
# A node whose command is gone still runs jobs.
[ -x """
    + COMMAND
    + """ ] || exit 0
exec """
    + COMMAND
    + """ hook prolog
"""
)
EPILOG = (
    """#!/bin/sh
"""
    + MARKER
    + """ Changes will be lost; scripts of yours go into files of their own.
PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
export PATH
[ -x """
    + COMMAND
    + """ ] || exit 0
exec """
    + COMMAND
    + """ hook epilog
"""
)


def _path(name: str, value: str, may_be_empty: bool = False) -> str:
    if not value and may_be_empty:
        return ""
    if not _PATH.fullmatch(value) or ".." in value.split("/"):
        raise NodeError(
            "option {0}".format(name),
            "{0!r} is no absolute path that Slurm can take".format(value),
            "use letters, digits and ._/+@- after a slash",
        )
    return value.rstrip("/")


@dataclasses.dataclass(frozen=True)
class Desired:
    """``gres_file`` and ``features_file`` may be empty: then that file is not written."""

    present: bool = True
    prolog_folder: str = "/etc/slurm/prolog.d"
    epilog_folder: str = "/etc/slurm/epilog.d"
    gres_file: str = "/etc/slurm/gres.conf"
    gres_type: str = ""
    gres_cores: str = "auto"
    features_file: str = "/etc/slurm/gpu_node_features"
    slurm_conf: str = ""
    hooks: Settings = Settings()

    def __post_init__(self) -> None:
        for name in ("prolog_folder", "epilog_folder"):
            object.__setattr__(self, name, _path(name, getattr(self, name)))
        for name in ("gres_file", "features_file", "slurm_conf"):
            object.__setattr__(self, name, _path(name, getattr(self, name), may_be_empty=True))
        if self.prolog_folder == self.epilog_folder:
            raise NodeError("option epilog_folder", "it is the folder of the prolog too", "give each its own folder")
        if self.gres_type and not _TYPE.fullmatch(self.gres_type):
            raise NodeError(
                "option gres_type",
                "{0!r} is no name for a type of GPU".format(self.gres_type),
                "use the name that slurm.conf has in Gres=gpu:TYPE:COUNT, or auto",
            )
        if self.gres_cores not in GRES_CORES:
            raise NodeError(
                "option gres_cores",
                "{0!r} is none of {1}".format(self.gres_cores, ", ".join(GRES_CORES)),
                "give one of these",
            )
        if not 0 <= self.hooks.grace_seconds <= 120:
            raise NodeError(
                "option grace_seconds",
                "{0:g} is out of range".format(self.hooks.grace_seconds),
                "give 0 to 120 seconds",
            )

    def hook_files(self) -> Tuple[Wanted, ...]:
        """The scripts."""
        prologs = ["{0}/{1}".format(self.prolog_folder, name) for name in PROLOG_NAMES]
        epilog = "{0}/{1}".format(self.epilog_folder, EPILOG_NAME)
        return tuple(Wanted(path, PROLOG, 0o755) for path in prologs) + (Wanted(epilog, EPILOG, 0o755),)

    def paths(self) -> Tuple[str, ...]:
        extra = (self.gres_file, self.features_file)
        return tuple(one.path for one in self.hook_files()) + tuple(path for path in extra if path)


@dataclasses.dataclass(frozen=True)
class SlurmGpu:
    """A GPU as gres.conf has it: N of /dev/nvidiaN, and hwloc's numbers of the cores of its NUMA node."""

    minor: int
    cores: Tuple[int, ...]
    product: Optional[str]
    mig: bool = False

    @property
    def file(self) -> str:
        return "/dev/nvidia{0}".format(self.minor)


@dataclasses.dataclass(frozen=True)
class Hooks:
    """The patterns of Prolog= and Epilog=; None: nobody tells."""

    prolog: Tuple[str, ...] = ()
    epilog: Tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class GresConf:
    """The gres.conf that slurmd reads; ``path`` None: no slurm.conf tells where. ``text`` None: it is not there.

    ``configless``: slurmctld hands it out, and what a node writes in its place is overwritten.
    """

    path: Optional[str] = None
    configless: bool = False
    text: Optional[Text] = None

    def reads(self, path: str) -> bool:
        """Whether slurmd comes to read a file at this path, if there is one."""
        if path == self.path:
            return not self.configless
        return self.text is not None and path in self.text.included + self.text.missing


@dataclasses.dataclass(frozen=True)
class State:
    """``absent`` says why there is no Slurm. ``gpus`` None: they cannot be told now, for ``gpus_reason``.

    ``configured`` is what slurm.conf says, ``running`` what slurmctld has read of it; ``conf`` is the text of
    whichever of the two there is. ``job_folders`` is SCRATCH/jobs where that has yet to be made.
    """

    files: Files = Files()
    declared: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    gpus: Optional[Tuple[SlurmGpu, ...]] = ()
    gpus_reason: Optional[str] = None
    numa_nodes: int = 1
    scontrol: Optional[str] = None
    slurm_conf: Optional[str] = None
    configured: Optional[Hooks] = None
    running: Optional[Hooks] = None
    absent: Optional[str] = None
    conf: Optional[Text] = None
    node_name: Optional[str] = None
    machine: Machine = Machine()
    slurm: Slurm = Slurm()
    job_folders: Optional[str] = None
    gres_conf: GresConf = GresConf()
    trust: Trust = Trust()
