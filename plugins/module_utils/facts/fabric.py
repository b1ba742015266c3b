# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a machine has an NVLink fabric, whether it is up, and which Fabric Manager runs: the only rule for it.

Four things show a fabric: NVSwitches on the PCI bus (HGX A100, H100, H200), functions of a ConnectX that manage
NVSwitches (HGX B200, B300), GPUs that report their state in a fabric (Hopper and later), and NVLinks whose other end is
a switch. On NVL72, the switch trays contain the switches and their management. A virtual machine with one
passed-through GPU of an HGX board has none of them.
"""

from __future__ import annotations

import enum
import os
from typing import Any, List, Optional, Sequence, Tuple

from ..core import open_files, safe_files
from ..core.frozen import frozen, replaced
from ..core.host import Host
from ..core.resource import NodeError
from . import daemons, gpu_info
from .gpu_info import GpuInformation
from .nvml import pci

# PCI class 0680, "other bridge": the NVSwitches that the kernel module nvidia-nvswitch takes.
_BRIDGE = "0x0680"
# HGX B200 and B300 have no NVSwitch on the PCI bus. Functions of a ConnectX manage the switches. They have the IDs and
# the class (0207, "InfiniBand controller") of an ordinary ConnectX. Only this text in their vital product data
# distinguishes them; NVRC of NVIDIA and Bottlerocket use it too.
_MELLANOX, _INFINIBAND, _MANAGEMENT = "0x15b3", "0x0207", "SW_MNG"
# PCI Local Bus Specification 3.0, appendix I: an address has 15 bits.
_VPD_BYTES = 1 << 15
# gpu_info groups that :func:`of` needs.
GROUPS = ("fabric", "nvlink", "repair", "settings")
_CALL_SECONDS = 2.0
MANAGER_UNIT, IMEX_UNIT = "nvidia-fabricmanager.service", "nvidia-imex.service"
# The path of the host, and the path in the root of the GPU operator's driver container.
CONTAINER_PROGRAM = "/run/nvidia/driver/usr/bin/nv-fabricmanager"
PROGRAMS = (CONTAINER_PROGRAM, "/usr/bin/nv-fabricmanager")


class Place(enum.Enum):
    """One GPU's report about its place in a fabric."""

    NONE = "none"  # it reports no fabric: none exists, or this GPU or driver does not report it
    WAITS = "waits"  # it has not joined yet, so CUDA does not start
    REFUSED = "refused"
    UNHEALTHY = "unhealthy"
    DEGRADED = "degraded"
    UNCLEAR = "unclear"
    JOINED = "joined"


def place(gpu: GpuInformation) -> Tuple[Place, str]:
    """The place of a GPU, and the words of the driver for it. Pure.

    Branch 525 to 545 report the state alone, 550 and later a health mask, 580 and later also a summary of it.
    """
    fabric = gpu.groups.get("fabric")
    if fabric is None or fabric.state in (None, "not_supported"):
        return Place.NONE, ""
    if fabric.state in ("not_started", "in_progress"):
        return Place.WAITS, fabric.state
    if fabric.state != "completed":
        return Place.UNCLEAR, "state {0}".format(fabric.state)
    if fabric.status not in (None, "success"):
        return Place.REFUSED, fabric.status
    return _health(fabric.health_summary, fabric.health if isinstance(fabric.health, dict) else {})


def _health(summary: Optional[str], health: Any) -> Tuple[Place, str]:
    configuration = health.get("incorrect_configuration")
    wrong = configuration is not None and configuration != "none"
    bad = [name for name in ("route_unhealthy",) if health.get(name)] + (["incorrect_configuration"] if wrong else [])
    slow = [name for name in ("degraded_bandwidth", "route_recovery", "access_timeout_recovery") if health.get(name)]
    words = ", ".join(name.replace("_", " ") for name in bad + slow)
    if wrong:
        words = words.replace("incorrect configuration", "incorrect configuration: " + str(configuration))
    if summary == "unhealthy":
        return Place.UNHEALTHY, words
    if summary == "limited_capacity" or health.get("degraded_bandwidth"):
        return Place.DEGRADED, words
    if summary not in (None, "not_supported", "healthy"):
        return Place.UNCLEAR, "health {0}".format(summary)
    if summary == "healthy":
        return Place.JOINED, ""
    if wrong and str(configuration).startswith("unknown"):
        return Place.UNCLEAR, words
    if bad:
        return Place.UNHEALTHY, words
    return (Place.DEGRADED, words) if slow else (Place.JOINED, "")


def to_switches(gpu: GpuInformation) -> bool:
    """Whether an active NVLink of it ends at a switch."""
    links: Any = gpu.groups.get("nvlink")
    return links is not None and any(link.remote_type == "switch" for link in links.links)


@frozen
class Fabric:
    """``switches``: PCI addresses of the NVSwitches that this machine keeps, or of the functions that manage them.
    ``waiting``: GPUs that have not joined, by label. ``there``: some GPU reports a fabric or has a link to a switch.
    ``domain``: a GPU belongs to an NVLink domain of several nodes. ``recovered``: each GPU reports that it needs no
    recovery; None: this driver does not report it. ``gpus``: the permanent name of each GPU. ``why_down``: why the
    fabric counts as not up; "" if it is up. ``unknown``: why GPUs could not be asked."""

    switches: Tuple[str, ...] = ()
    waiting: Tuple[str, ...] = ()
    there: bool = False
    domain: bool = False
    recovered: Optional[bool] = None
    gpus: Tuple[Optional[str], ...] = ()
    why_down: str = ""
    unknown: str = ""

    @property
    def wants_manager(self) -> Optional[bool]:
        """Whether a Fabric Manager has work to do on this machine; None: unknown."""
        if self.switches or self.waiting:
            return True
        return None if self.unknown else False

    @property
    def wants_imex(self) -> Optional[bool]:
        """IMEX connects the nodes of an NVLink domain (NVIDIA IMEX Service Guide); one node alone does not need it.

        A GPU reports its domain after it has joined. One that waits needs a Fabric Manager first, here, on the host of
        this VM or in a switch tray, and it is no evidence of other nodes.
        """
        if self.domain:
            return True
        return None if self.unknown else False


def of(switches_here: Sequence[str], gpus: Sequence[GpuInformation]) -> Fabric:
    """The fabric of a machine from what its GPUs report. Pure."""
    places = [(gpu, *place(gpu)) for gpu in gpus]
    found = [gpu.groups.get("fabric") for gpu in gpus]
    return Fabric(
        switches=tuple(switches_here),
        waiting=tuple(gpu.identity.label for gpu, where, dummy in places if where is Place.WAITS),
        there=any(where is not Place.NONE or to_switches(gpu) for gpu, where, dummy in places),
        domain=any(one is not None and one.cluster_uuid is not None for one in found),
        recovered=_recovered(gpus),
        gpus=tuple(gpu.identity.permanent_name for gpu in gpus),
        why_down=_why_down(places),
    )


def _recovered(gpus: Sequence[GpuInformation]) -> Optional[bool]:
    found = [getattr(gpu.groups.get("repair"), "recovery_action", None) for gpu in gpus]
    failed = any("repair.recovery_action" in gpu.failed for gpu in gpus)
    if not failed and all(one is None for one in found):
        return None
    return all(one == "none" for one in found)


def _why_down(places: Sequence[Tuple[GpuInformation, Place, str]]) -> str:
    most = max([_links(gpu)[0] for gpu, dummy, dummy2 in places], default=0)
    for gpu, where, words in places:
        if gpu.fault is not None:
            return "{0} does not answer".format(gpu.identity.label)
        if "fabric.state" in gpu.failed or "nvlink" in gpu.failed:
            return "{0} could not report its fabric".format(gpu.identity.label)
        outside = where is Place.NONE and any(
            other[1] is not Place.NONE and other[0].identity.name == gpu.identity.name for other in places
        )
        if outside or where not in (Place.NONE, Place.JOINED):
            return "{0} has not joined it ({1})".format(gpu.identity.label, words or where.value)
        active, known = _links(gpu)
        if active < max(most, known) and not _in_mig(gpu):
            return "{0} of {1} NVLinks of {2} are active".format(active, max(most, known), gpu.identity.label)
    return "" if most else "no NVLink is active"


def _links(gpu: GpuInformation) -> Tuple[int, int]:
    links: Any = gpu.groups.get("nvlink")
    return (0, 0) if links is None else (links.active_count or 0, links.link_count or 0)


def _in_mig(gpu: GpuInformation) -> bool:
    settings: Any = gpu.groups.get("settings")
    return settings is not None and bool(settings.mig_current)


# Reads ------------------------------------------------------------------------------------------------


def look(host: Host) -> Fabric:
    """Ask the PCI bus and the GPUs. A machine whose bus has no GPU needs no answer of NVML."""
    bus = switches(host)
    if not any(not one.given_away for one in pci.gpus(host)):
        return Fabric(switches=bus)
    try:
        found = gpu_info.gather(gpu_info.Options(groups=GROUPS, call_timeout_seconds=_CALL_SECONDS), host)
    except NodeError as error:
        return Fabric(switches=bus, unknown=error.reason, why_down=error.reason)
    if not found.gpus:
        return Fabric(switches=bus, unknown=found.message or found.status, why_down="no GPU answers")
    made = of(bus, found.gpus)
    silent = next((one for one in found.gpus if one.fault is not None), None)
    if silent is None or made.waiting:
        return made
    reason = "{0} does not answer".format(silent.identity.label)
    return replaced(made, unknown=reason)


def switches(host: Host) -> Tuple[str, ...]:
    """The NVSwitches on the PCI bus and the functions that manage NVSwitches, except those that a guest has."""
    found: List[str] = []
    for address in host.names(pci.DEVICES):
        directory = os.path.join(pci.DEVICES, address)
        kind = (host.read_line(os.path.join(directory, "class")) or "")[: len(_BRIDGE)]
        if kind not in (_BRIDGE, _INFINIBAND):
            continue
        vendor = (host.read_line(os.path.join(directory, "vendor")) or "").lower()
        if (kind, vendor) not in ((_BRIDGE, pci.NVIDIA), (_INFINIBAND, _MELLANOX)):
            continue
        if not pci.hands_over(pci.driver(host, address)) and (kind == _BRIDGE or _manages_switches(host, directory)):
            found.append(address)
    return tuple(found)


def _manages_switches(host: Host, directory: str) -> bool:
    """Only root can read the vital product data; a function without readable data counts as an ordinary one."""
    if host.exists(os.path.join(directory, "physfn")):  # a virtual function manages nothing
        return False
    text, dummy = safe_files.load(host.path(os.path.join(directory, "vpd")), _VPD_BYTES)
    return text is not None and _MANAGEMENT in text


def running_program(host: Host) -> Tuple[bool, Optional[str]]:
    """Whether a Fabric Manager runs, and its program, if only root can write to its path.

    A container of a user can have a root process of this name, so nothing is executed through /proc/PID/exe.
    """
    pids = daemons.pids(host, daemons.FABRIC_MANAGER)
    for pid in pids:
        for path in PROGRAMS:
            if open_files.runs(host, pid, path):
                return True, path
    return bool(pids), None
