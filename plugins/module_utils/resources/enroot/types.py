# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted of enroot on this node, what is found, and the steps between."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Mapping, Optional, Tuple

from ...core.frozen import frozen
from ...core.managed_files import Files
from ...core.node_packages import Packages
from ...core.resource import Action
from ...slurm.user_folders import Template

SETTINGS_FILE = "/etc/enroot/enroot.conf.d/50-gpu_node.conf"
ENVIRON_FILE = "/etc/enroot/environ.d/50-gpu_node.env"
MOUNTS_FILE = "/etc/enroot/mounts.d/50-gpu_node.fstab"
SYSCTL_FILE = "/etc/sysctl.d/60-gpu_node_enroot.conf"
PROFILE_FILE = "/etc/apparmor.d/gpu_node_enroot"
PATHS = (SETTINGS_FILE, ENVIRON_FILE, MOUNTS_FILE, SYSCTL_FILE, PROFILE_FILE)
PROFILE = "gpu_node_enroot"
# enroot 4 brings one of its own; two profiles for one program would get in each other's way.
PACKAGED_PROFILES = ("/etc/apparmor.d/enroot", "/etc/apparmor.d/usr.bin.enroot-nsenter")
HOOKS_FOLDER = "/etc/enroot/hooks.d"
EXTRA_HOOKS_FOLDER = "/usr/share/enroot/hooks.d"
# Those that the package lays aside, and that a link switches on. The other two are always on, and a variable in
# enroot.conf tells them to do nothing.
EXTRA_HOOKS: Mapping[str, str] = {
    "slurm-pmi": "50-slurm-pmi.sh",
    "slurm-pytorch": "50-slurm-pytorch.sh",
    "sharp": "50-sharp.sh",
    "mig-config": "50-mig-config.sh",
}
DEVICE_HOOKS: Mapping[str, str] = {"nvidia": "NVIDIA_VISIBLE_DEVICES", "mellanox": "MELLANOX_VISIBLE_DEVICES"}


@frozen
class Link:
    """A place of a hook in enroot's folder. ``kind``: missing, ours (a link to the package's hook), copy (a file that
    is the same, which somebody else put there) or foreign."""

    name: str
    kind: str = "missing"
    source_exists: bool = True

    @property
    def path(self) -> str:
        return "{0}/{1}".format(HOOKS_FOLDER, self.name)

    @property
    def target(self) -> str:
        return "{0}/{1}".format(EXTRA_HOOKS_FOLDER, self.name)


@frozen
class Kernel:
    """``values``: what the kernel says now, for those keys it knows. ``restricted``: Ubuntu lets only programs with an
    AppArmor profile make user namespaces. ``profile_loaded`` None: that cannot be seen."""

    values: Mapping[str, str] = {}
    overridden: Tuple[Tuple[str, str], ...] = ()
    restricted: bool = False
    packaged_profile: bool = False
    profile_loaded: Optional[bool] = None
    parser: Optional[str] = None


@frozen
class State:
    """``machine`` is the kernel's name of it. ``installed``: the enroot command exists. ``earlier`` are the files that
    enroot reads before our file, with their settings. ``scratch`` is the mount point of the declared scratch.
    ``other_rdma``: RDMA devices that no enroot hook adds. ``users``: the jobs and containers that read the
    configuration."""

    machine: str = ""
    installed: bool = False
    files: Files = Files()
    packages: Packages = Packages()
    declared: Mapping[str, Any] = {}
    links: Tuple[Link, ...] = ()
    kernel: Kernel = Kernel()
    scratch: Optional[str] = None
    slurmd: bool = False
    hooks_declared: bool = False
    gpus: int = 0
    mellanox: int = 0
    other_rdma: Tuple[str, ...] = ()
    nvidia_container_cli: Optional[str] = None
    earlier: Tuple[Tuple[str, Mapping[str, str]], ...] = ()
    users: Tuple[str, ...] = ()

    @property
    def theirs(self) -> Dict[str, Tuple[str, str]]:
        """Key to (file, value) of what is set before our file is read: enroot keeps the first value that it finds."""
        found: Dict[str, Tuple[str, str]] = {}
        for path, values in self.earlier:
            for key, value in values.items():
                found.setdefault(key, (path, value))
        return found

    def link(self, name: str) -> Link:
        return next((one for one in self.links if one.name == name), Link(name))


@frozen
class MakeLink(Action):
    """Not made where the package turns out not to have that hook."""

    path: str
    target: str

    def describe(self) -> str:
        return "link {0} to {1}".format(self.path, self.target)


@frozen
class RemoveLink(Action):
    path: str
    target: str

    def describe(self) -> str:
        return "remove the link {0}".format(self.path)


@frozen
class SetKernelValue(Action):
    key: str
    value: str

    def describe(self) -> str:
        return "set {0} to {1}".format(self.key, self.value)


@frozen
class LoadProfile(Action):
    """``load`` False: take it out of the kernel again."""

    load: bool = True

    def describe(self) -> str:
        return "{0} the AppArmor profile {1}".format("load" if self.load else "unload", PROFILE)


def as_section(folders: Tuple[Template, ...]) -> Dict[str, Any]:
    return {"user_folders": [dataclasses.asdict(one) for one in folders]}
