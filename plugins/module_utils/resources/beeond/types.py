# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found of BeeOND on a node, and the steps that are its own."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from ...core.frozen import frozen
from ...core.managed_files import Files
from ...core.resource import Action
from ...slurm.beeond import SECTION, rules

__all__ = ["AUTH", "CLIENT", "FORCED", "PATHS", "SECTION", "BuildClient", "RemoveAuth", "State", "WriteAuth"]
SERVICES = ("beegfs-mgmtd", "beegfs-meta", "beegfs-storage", "beegfs-helperd", "beegfs-client")
PATHS = tuple("{0}/{1}.conf".format(rules.CONFIG, one) for one in SERVICES)
AUTH = rules.CONFIG + "/auth"
# Of the package beegfs-client of BeeGFS 7; it makes the second one where its module has to be built anew.
CLIENT = "/etc/init.d/beegfs-client"
FORCED = "/var/lib/beegfs/client/force-auto-build"
# What a module that is built against the drivers of NVIDIA's (Mellanox') OFED depends on.
OFED = "/usr/src/ofa_kernel/default"


@frozen
class State:
    """``missing``: packages that are not installed. ``release``: of BeeGFS, where it is known. ``module``: the kernel
    module is there for the kernel that runs. ``forced``: the package asks for a new one. ``ofed``: what names the OFED
    that is there, or empty. ``point_there`` and ``point_wrong``: the folder of the mount points. ``auth``: missing,
    same, other, or open (others may read it). ``jobs``: those that have something of it here. ``timeout_seconds``:
    PrologEpilogTimeout, where it is set. ``hooks``: they are declared."""

    slurm: bool = False
    missing: Tuple[str, ...] = ()
    release: Optional[int] = None
    kernel: str = ""
    headers: bool = False
    module: bool = False
    forced: bool = False
    ofed: str = ""
    point_there: bool = False
    point_wrong: str = ""
    auth: str = "missing"
    jobs: Tuple[int, ...] = ()
    timeout_seconds: Optional[int] = None
    hooks: bool = False
    files: Files = Files()
    declared: Mapping[str, Any] = {}

    @property
    def built(self) -> Mapping[str, Any]:
        """What the module was built for, by the record."""
        found = self.declared.get("built")
        return found if isinstance(found, dict) else {}

    @property
    def wanted(self) -> Mapping[str, Any]:
        return {"kernel": self.kernel, "ofed": self.ofed}


@frozen
class WriteAuth(Action):
    """The key itself is in no action, since these are shown and kept."""

    path: str = AUTH

    def describe(self) -> str:
        return "write {0}, readable by root alone".format(self.path)


@frozen
class RemoveAuth(Action):
    path: str = AUTH

    def describe(self) -> str:
        return "remove {0}".format(self.path)


@frozen
class BuildClient(Action):
    kernel: str
    ofed: str

    def describe(self) -> str:
        return "build the kernel module of BeeGFS for {0}{1}".format(self.kernel, " with OFED" if self.ofed else "")
