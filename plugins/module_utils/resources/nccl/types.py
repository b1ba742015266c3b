# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found of NCCL's surroundings on a node, and the steps to what is wanted."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from ...core import systemd
from ...core.frozen import frozen
from ...core.managed_files import Files
from ...core.resource import Action
from ...facts.peermem import Peermem
from .library import Library
from .machine import Machine
from .options import Desired

Words = Tuple[Tuple[str, str], ...]

SECTION = "nccl"
CONF = "/etc/nccl.conf"
ASIDE = CONF + ".before_gpu_node"
TOPOLOGY = "/etc/gpu_node/nccl_topology.xml"
PROFILE = "/etc/profile.d/gpu_node_nccl.sh"
LIMITS = "/etc/security/limits.d/90-gpu_node_nccl.conf"
SLURMD = systemd.drop_in("slurmd.service", "gpu_node_limits.conf")
SYSCTL = "/etc/sysctl.d/90-gpu_node_nccl.conf"
MODULES = "/etc/modules-load.d/gpu_node_peermem.conf"
PATHS = (CONF, TOPOLOGY, PROFILE, LIMITS, SLURMD, SYSCTL, MODULES)


@frozen
class Slurmd:
    """``installed``: there is a unit slurmd.service. ``running``: the limits of its process in the words of
    /proc/PID/limits, or None. ``stale``: systemd has read another text than the one that lies there. ``older``: it
    began to run before the drop-in was written."""

    installed: bool = False
    running: Optional[Words] = None
    stale: bool = False
    older: bool = False


@frozen
class Elsewhere:
    """Another owner's file that sets ``name`` at boot. ``later``: it is read after our file, so it wins."""

    name: str
    value: str
    path: str
    later: bool


@frozen
class State:
    """``given``: the text of the site's topology file; ``graph``: that of NCCL_GRAPH_FILE; None: there is none.

    ``sysctl``: the kernel's values of those that are wanted now or were set by us; None: it has no such name.
    ``rewriter``: a unit of the image that writes /etc/nccl.conf at each boot, or None.
    """

    files: Files = Files()
    declared: Mapping[str, Any] = {}
    aside: bool = False
    aside_text: Optional[str] = None
    machine: Machine = Machine()
    given: Optional[str] = None
    graph: Optional[str] = None
    sysctl: Tuple[Tuple[str, Optional[str]], ...] = ()
    sysctl_elsewhere: Tuple[Elsewhere, ...] = ()
    peermem: Peermem = Peermem()
    slurmd: Slurmd = Slurmd()
    libraries: Tuple[Library, ...] = ()
    plugins: Tuple[str, ...] = ()
    rewriter: Optional[str] = None


def graph_file(desired: Desired) -> Optional[str]:
    """The path in NCCL_GRAPH_FILE, if the site sets one."""
    lines = dict(line.split("=", 1) for line in desired.extra if not line.startswith("#"))
    return desired.settings.get("NCCL_GRAPH_FILE") or lines.get("NCCL_GRAPH_FILE")


@frozen
class KeepAside(Action):
    """Somebody else's file goes to a name beside it, as it is; ``state: absent`` puts it back."""

    path: str
    aside: str

    def describe(self) -> str:
        return "keep {0} as {1}".format(self.path, self.aside)


@frozen
class PutBack(Action):
    path: str
    aside: str

    def describe(self) -> str:
        return "put {0} back from {1}".format(self.path, self.aside)


@frozen
class SetSysctl(Action):
    name: str
    value: str

    def describe(self) -> str:
        return "set {0} to {1}".format(self.name, self.value)
