# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of enroot on a node."""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Tuple

from ...core.node_packages import Package, for_machine
from ...core.options import option, options, state
from ...core.resource import NodeError
from . import settings
from .types import DEVICE_HOOKS, EXTRA_HOOKS

AUTO, ALWAYS, NEVER = "auto", "always", "never"
_PATH = re.compile(r"/[A-Za-z0-9._/+@-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _texts(given: Mapping[str, Any]) -> Dict[str, str]:
    """Values as a shell would have written them; YAML makes a bool of yes."""
    words = {True: "yes", False: "no", None: ""}
    return {
        str(key): words[value] if value is None or isinstance(value, bool) else str(value)
        for key, value in given.items()
    }


@options
class Desired:
    """``scratch`` empty: the one that is declared for this node, else ``fallback``."""

    _for_absent = ()

    present: bool = state(
        [
            "V(absent) removes what was written here, the packages that were installed here, and restores the kernel "
            "settings.",
            "What a package manager brought along as dependencies stays, and so does a package that was there before.",
        ]
    )
    packages: Tuple[Package, ...] = option(
        (),
        [
            "The files to install. Without any, the enroot that is installed is set up.",
            "All of them are fetched and verified before the package manager is called.",
        ],
        inner=Package,
    )
    allow_downgrade: bool = option(False, "Replace a newer version by the wanted one.")
    scratch: str = option(
        "",
        [
            "Mount point under which the folders of users lie, in a folder C(enroot).",
            "Empty means the scratch that is declared for this node (module M(trainyard.gpu_node.nvme_scratch)), else "
            "O(fallback).",
        ],
    )
    fallback: str = option("/var/lib/enroot", "Folder for the same on a node without scratch.")
    user_folders: str = option(
        AUTO,
        [
            "Whether enroot is configured to use these folders. Someone has to make them, since users may not.",
            "V(auto) means where slurmd is installed, whose prolog does that. Elsewhere enroot uses the home folder, "
            "as it does by itself.",
        ],
        choices=(AUTO, ALWAYS, NEVER),
    )
    keep_cache: bool = option(
        False, "Keep downloaded layers of images on the scratch after the last job of their user."
    )
    settings: Mapping[str, str] = option(
        {},
        [
            "Further keys of enroot.conf, or other values for those that are set here. An empty value leaves a key to "
            "enroot.",
            "A key that enroot does not know is refused, and so is a value that the shell would interpret.",
        ],
        read=_texts,
    )
    environment: Mapping[str, str] = option({}, "Variables for every container.", read=_texts)
    hooks: Tuple[str, ...] = option(
        ("nvidia", "mellanox", "slurm-pmi", "slurm-pytorch"),
        [
            "The hooks that are on. V(nvidia) and V(mellanox) come with enroot, and do nothing unless they are listed.",
            "V(slurm-pmi), V(slurm-pytorch), V(sharp) and V(mig-config) are links to those in the package.",
        ],
        choices=(*DEVICE_HOOKS, *EXTRA_HOOKS),
    )
    mounts: Tuple[str, ...] = option(
        ("/etc/nccl.conf", "/etc/gpu_node/nccl_topology.xml"),
        "Files and folders of the node that every container sees at the same place, read-only. Missing ones are "
        "skipped.",
    )
    user_namespaces: bool = option(True, "Manage the limits of namespaces and the AppArmor profile.")

    def __post_init__(self) -> None:
        if not self.present:
            return
        object.__setattr__(self, "settings", settings.checked(self.settings))
        if self.scratch:
            object.__setattr__(self, "scratch", _path("scratch", self.scratch))
        object.__setattr__(self, "fallback", _path("fallback", self.fallback))
        object.__setattr__(self, "mounts", tuple(dict.fromkeys(_path("mounts", one) for one in self.mounts)))
        for name, value in self.environment.items():
            if not _VARIABLE.fullmatch(name) or name.startswith("ENROOT_") or not value.isprintable():
                raise NodeError(
                    "option environment",
                    "{0}={1!r} is nothing that a container can be given".format(name, value),
                    "use letters, digits and _ in the name, one line in the value; ENROOT_ names go into settings",
                )

    def packages_for(self, machine: str) -> Tuple[Package, ...]:
        """Those for a machine, by the kernel's name of it.

        :raises NodeError: there is none of a name, or more than one.
        """
        return for_machine(self.packages, machine) if self.present else ()


def _path(name: str, value: str) -> str:
    if not _PATH.fullmatch(value) or {"..", "."} & set(value.split("/")) or "//" in value:
        raise NodeError(
            "option {0}".format(name),
            "{0!r} is no absolute path that enroot can take".format(value),
            "use letters, digits and ._/+@- after a slash",
        )
    return value.rstrip("/")
