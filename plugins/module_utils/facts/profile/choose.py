# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the profile of a machine: by name, else by the cloud's VM size, else by its hardware. No I/O."""

from __future__ import annotations

import fnmatch
from typing import List, Mapping, Optional, Sequence, Tuple

from ...core.resource import NodeError
from ..sysfs import InfinibandPort
from ..topology import Topology
from .types import AUTO, UNKNOWN, Choice, Evidence, Profile

Profiles = Mapping[str, Profile]


def check_name(name: str, profiles: Profiles) -> None:
    """:raises NodeError: when an explicit name is no profile."""
    if name in profiles or name in (AUTO, UNKNOWN):
        return
    from ...core.nearest import nearest

    known = sorted(profiles)
    raise NodeError(
        "profile {0!r}".format(name),
        "there is no profile of that name",
        "{0}choose among: {1} or {2}".format(nearest(name, known), ", ".join(known + [AUTO]), UNKNOWN),
    )


def choose(name: str, profiles: Profiles, evidence: Evidence, declared: str = UNKNOWN) -> Choice:
    """The profile of this machine; ``unknown``, with the reason, where none or several fit.

    ``declared`` is the profile that it had before: a node that lost devices and fits everything else still has it.

    :raises NodeError: when ``name`` is neither a profile nor auto nor unknown.
    """
    check_name(name, profiles)
    if name != AUTO:
        return Choice(name, "explicit", "It was named explicitly.")
    size = evidence.metadata.vm_size
    if size is not None:
        return _by_size(size, evidence.metadata.told_by, profiles)
    if declared in profiles and _told_by_size(profiles[declared], evidence):
        reason = (
            "It had this profile before, which only a VM size tells, and the hardware is the same (no size told: {0})."
        )
        return Choice(declared, "declared", reason.format(evidence.metadata.reason))
    by_hardware = [one for one in sorted(profiles) if not misfits(profiles[one], evidence)]
    without = "" if evidence.metadata.reason is None else " (cloud metadata: {0})".format(evidence.metadata.reason)
    if len(by_hardware) == 1:
        found = by_hardware[0]
        return Choice(found, "hardware", "{0}{1}.".format(_fits(profiles[found]), without))
    seen = describe(evidence.topology)
    if not by_hardware:
        if declared in profiles and _lost_devices(profiles[declared], evidence):
            reason = "It had this profile before, and only devices are missing: it is a machine with {0}{1}."
            return Choice(declared, "declared", reason.format(seen, without))
        near = _near(profiles, evidence)
        return Choice(UNKNOWN, "none", "No profile describes a machine with {0}{1}{2}.".format(seen, near, without))
    return Choice(
        UNKNOWN,
        "none",
        "Several profiles describe a machine with {0}: {1}; name one{2}.".format(seen, ", ".join(by_hardware), without),
    )


def _told_by_size(profile: Profile, evidence: Evidence) -> bool:
    """Whether no hardware is a criterion of this profile, and what it says of hardware is not contrary to what is here:
    a cloud that does not answer for once does not make another machine of it."""
    if any(profile["match"].get(name) for name in ("dmi", "gpu_products", "gpu_pci_ids")):
        return False
    found, gpus = evidence.topology, profile.get("gpus", {})
    named = [gpu.product for gpu in found.gpus if gpu.product is not None]
    return (
        bool(named)
        and len(found.gpus) <= gpus.get("count", 0)
        and all(any(product_fits(name, one) for one in gpus.get("products", ())) for name in named)
        and profile.get("cpus") == len(found.cpus.present)
        and len(fabric_ports(found)) <= profile.get("infiniband", {}).get("count", 0)
    )


def _lost_devices(profile: Profile, evidence: Evidence) -> bool:
    """Whether all that fits no more is a count of devices that was higher. Another product is another machine.

    Without any GPU something else must tell it from a machine that boots an image with this declaration.
    """
    match, found = profile["match"], evidence.topology
    if not (found.gpus or match.get("dmi") or "cpus" in match):
        return False
    lost = {
        "gpu_count": len(found.gpus) < match.get("gpu_count", 0),
        "gpu_products": not found.gpus,
        "infiniband_count": len(fabric_ports(found)) < match.get("infiniband_count", 0),
    }
    return all(lost.get(criterion, False) for criterion in misfits(profile, evidence))


def _near(profiles: Profiles, evidence: Evidence) -> str:
    """A machine with a GPU that fell off the bus should be told what it would be otherwise."""
    almost = []
    for name in sorted(profiles):
        missing = misfits(profiles[name], evidence)
        if len(missing) == 1 and missing[0] in ("gpu_count", "cpus", "infiniband_count"):
            almost.append("{0} would fit but for {1}".format(name, missing[0]))
    return "; " + ", ".join(almost) if almost else ""


def _by_size(size: str, told_by: str, profiles: Profiles) -> Choice:
    says = "The {0} says that this is a {1}".format(told_by, size)
    fitting = [
        name
        for name in sorted(profiles)
        if any(_size(size) == _size(one) for one in profiles[name]["match"].get("vm_sizes", ()))
    ]
    if len(fitting) == 1:
        return Choice(fitting[0], "metadata", "{0}.".format(says))
    if not fitting:
        # The hardware is not asked: a size of the same family with one device less would pass for its sister.
        return Choice(UNKNOWN, "metadata", "{0}, and no profile is for it.".format(says))
    return Choice(UNKNOWN, "metadata", "{0}, and several profiles are: {1}.".format(says, ", ".join(fitting)))


def _size(text: str) -> str:
    """Azure writes Standard_ND96asr_v4; people leave out the first word, and write in any case."""
    lowered = text.strip().lower()
    prefix = "standard_"
    return lowered[len(prefix) :] if lowered.startswith(prefix) else lowered


def misfits(profile: Profile, evidence: Evidence) -> Tuple[str, ...]:
    """Which criteria of ``match`` the machine does not meet.

    A profile without any criterion of hardware fits no machine by its hardware.
    """
    match = profile["match"]
    topology = evidence.topology
    found: List[str] = []
    dmi = dict(evidence.dmi)
    for field, pattern in match.get("dmi", {}).items():
        if not fnmatch.fnmatch(dmi.get(field, "").lower(), pattern.lower()):
            found.append("dmi." + field)
    if match.get("gpu_products") or match.get("gpu_pci_ids"):
        if not _gpus_fit(match.get("gpu_products", ()), match.get("gpu_pci_ids", ()), topology):
            found.append("gpu_products")
    for criterion, count in (
        ("gpu_count", len(topology.gpus)),
        ("cpus", len(topology.cpus.present)),
        ("infiniband_count", len(fabric_ports(topology))),
    ):
        if criterion in match and match[criterion] != count:
            found.append(criterion)
    if not any(match.get(name) for name in ("dmi", "gpu_products", "gpu_pci_ids")):
        found.append("dmi, gpu_products or gpu_pci_ids")
    return tuple(found)


def fabric_ports(topology: Topology) -> List[Tuple[str, InfinibandPort]]:
    """The InfiniBand ports, with what to call them. Accelerated Ethernet is an RDMA device as well (mlx5_an0), and
    soft RoCE is: neither is a port of the fabric."""
    return [
        ("{0} port {1}".format(device.name, port.number), port)
        for device in topology.infiniband
        for port in device.ports
        if port.link_layer in (None, "InfiniBand")
    ]


def _gpus_fit(products: Sequence[str], pci_ids: Sequence[str], topology: Topology) -> bool:
    """Every GPU that tells its product has a fitting one; without NVML the PCI ids decide."""
    if not topology.gpus:
        return False
    named = [gpu.product for gpu in topology.gpus if gpu.product is not None]
    if named:
        return bool(products) and all(any(product_fits(name, one) for one in products) for name in named)
    return all(gpu.pci_id in pci_ids for gpu in topology.gpus)


def product_fits(name: str, pattern: str) -> bool:
    """Drivers before R460 left "NVIDIA " out of the name."""
    short = _without_maker(name)
    return fnmatch.fnmatch(short, _without_maker(pattern))


def _without_maker(text: str) -> str:
    lowered = " ".join(text.lower().split())
    return lowered[len("nvidia ") :] if lowered.startswith("nvidia ") else lowered


def _fits(profile: Profile) -> str:
    match = profile["match"]
    criteria = [
        name
        for name in ("dmi", "gpu_products", "gpu_pci_ids", "gpu_count", "cpus", "infiniband_count")
        if name in match
    ]
    return "It is the only profile that fits this hardware ({0})".format(", ".join(criteria))


def describe(topology: Topology) -> str:
    """``8 GPUs (NVIDIA A100-SXM4-40GB) and 96 CPUs``."""
    kinds: List[str] = []
    for gpu in topology.gpus:
        kind: Optional[str] = gpu.product or gpu.pci_id
        if kind is not None and kind not in kinds:
            kinds.append(kind)
    count = len(topology.gpus)
    gpus = "no GPU" if not count else "{0} GPU{1}".format(count, "" if count == 1 else "s")
    return "{0}{1} and {2} CPUs".format(
        gpus, " ({0})".format(", ".join(kinds)) if kinds else "", len(topology.cpus.present)
    )
