# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a profile of what a machine shows. Pure; nothing of one machine alone gets in: no serial, UUID or address.

What looking cannot tell is left out and named in ``checks``: which disks may be erased, what the machine must reach.
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ...core.frozen import frozen
from ...core.resource import Misuse, NodeError, printable
from ..gpu_info.types import GpuInformation, Information
from ..topology import Topology
from . import cloud, schema
from .choose import describe, fabric_ports
from .compare import is_local

# Our own choice: MemTotal differs by a little between kernels and between machines of a kind.
MEMORY_TOLERANCE_PERCENT = 3
# The DMI field by which a cloud is known, and its local disks; the sources are named in the profiles of the role.
LOCAL_DISKS: Tuple[Tuple[str, str, Tuple[str, ...]], ...] = (
    (cloud.AZURE.field, cloud.AZURE.value, ("Microsoft NVMe Direct Disk", "Microsoft NVMe Direct Disk v2")),
    ("sys_vendor", cloud.AMAZON, ("Amazon EC2 NVMe Instance Storage",)),
    (cloud.GOOGLE.field, cloud.GOOGLE.value, ("nvme_card", "nvme_card[0-9]", "nvme_card[0-9][0-9]")),
)
# What firmware says when nobody filled in the field.
_FILLERS = re.compile(r"(?i)(to be filled|default string|not specified|system (product name|manufacturer)|none\Z|0+\Z)")
REMEDY = "put that right and run it again"


@frozen
class Suggestion:
    """A valid profile, the paths in it that no reading stands behind, and what a person must look at, in sentences."""

    profile: Mapping[str, Any]
    unverified: Tuple[str, ...]
    checks: Tuple[str, ...]


def suggest(
    dmi: Mapping[str, str],
    topology: Topology,
    information: Information,
    vm_size: Optional[str] = None,
    name: Optional[str] = None,
) -> Suggestion:
    """:raises NodeError: when a GPU does not answer, or there is none: a fault would become the rule."""
    _refuse(topology, information)
    checks: List[str] = []
    title = name or slug(vm_size or "{0}x {1}".format(len(topology.gpus), topology.gpus[0].product or "gpu"))
    profile: Dict[str, Any] = {
        "name": title,
        "description": (vm_size + ": " if vm_size else "") + printable(describe(topology)),
        "match": _match(dmi, topology, vm_size, checks),
        "gpus": _gpus(topology, information, checks),
    }
    profile.update(_layout(topology, checks))
    profile.update(_nvme(dmi, topology, checks))
    profile.update(_infiniband(topology, checks))
    found = schema.problems(profile, title)
    if found:
        if name:
            raise Misuse("--name {0}".format(name), found[0], "give another")
        if vm_size:
            raise Misuse("VM size {0}".format(vm_size), found[0], "give the profile a name with --name")
        raise NodeError("the profile of this machine", found[0], "report this as a bug")
    checks.append("Thresholds are left out: nothing was measured under load (docs/profiles.md says which there are).")
    unverified = ("memory.tolerance_percent",) if "memory" in profile else ()
    return Suggestion(profile, unverified, tuple(_first() + checks + _last(title)))


def _first() -> List[str]:
    return [
        'Run "gpunode health" here: what is broken or missing on this machine would become the rule.',
        "Run this on a second machine of the kind: only memory.bytes may differ, and by a little.",
    ]


def _last(name: str) -> List[str]:
    return ["Save it as {0}.yml in the folder that node_profile_profiles names.".format(name)]


def _refuse(topology: Topology, information: Information) -> None:
    if not topology.gpus:
        raise NodeError("this machine", "it has no NVIDIA GPU", "run it on a GPU node")
    if topology.gpus_reason is not None:
        raise NodeError("the GPUs of this machine", topology.gpus_reason, REMEDY)
    if not topology.cpus.online:
        reason = "they could not be read, and none of them would become the rule"
        raise NodeError("the CPUs of this machine", reason, "see that sysfs is mounted at /sys, and run it again")
    silent = [gpu.name for gpu in topology.gpus if not gpu.nvml or gpu.fault is not None]
    if silent:
        reason = "{0} of {1} do not answer NVML, and their fault would become the rule"
        raise NodeError("GPU " + ", ".join(silent), reason.format(len(silent), len(topology.gpus)), REMEDY)
    nameless = [gpu.name for gpu in topology.gpus if gpu.product is None]
    if nameless:
        raise NodeError("GPU " + ", ".join(nameless), "the driver does not tell which product it is", REMEDY)
    if information.status != "ok":
        raise NodeError("the GPUs of this machine", information.message, REMEDY)


def slug(text: str) -> str:
    """``standard_nd96isr_h200_v5`` as a name of a profile: nd96isr_h200_v5."""
    lowered = text.lower()
    lowered = lowered[len("standard_") :] if lowered.startswith("standard_") else lowered
    return re.sub(r"[^a-z0-9]+", "_", lowered).strip("_") or "machine"


def _match(dmi: Mapping[str, str], topology: Topology, vm_size: Optional[str], checks: List[str]) -> Dict[str, Any]:
    if vm_size:
        # Not the hardware as well: a sister size with a part less would pass for this one.
        return {"vm_sizes": [vm_size]}
    if any(dmi.get(one.field) == one.value for one in cloud.SERVICES):
        checks.append(
            "The cloud did not tell the VM size: give --vm-size, or this profile is not used once the cloud answers."
        )
    match: Dict[str, Any] = {}
    told = {key: _literal(dmi[key]) for key in ("sys_vendor", "product_name") if _telling(dmi.get(key))}
    if told:
        match["dmi"] = told
    else:
        checks.append("The firmware tells no maker and product: only the GPUs and the counts tell this machine apart.")
    match["gpu_products"] = _sorted(_literal(gpu.product) for gpu in topology.gpus if gpu.product)
    match["gpu_pci_ids"] = _sorted(gpu.pci_id for gpu in topology.gpus if gpu.pci_id)
    match["gpu_count"] = len(topology.gpus)
    match["cpus"] = len(topology.cpus.present)
    match["infiniband_count"] = len(fabric_ports(topology))
    checks.append("No other profile may fit the same hardware: where two fit, none is chosen.")
    return match


def _gpus(topology: Topology, information: Information, checks: List[str]) -> Dict[str, Any]:
    gpus: Dict[str, Any] = {"count": len(topology.gpus)}
    products = _sorted(_literal(gpu.product) for gpu in topology.gpus if gpu.product)
    if products:
        gpus["products"] = products
    if len(products) > 1:
        checks.append("The GPUs are of several products: make sure that the machine is meant so.")
    memory = [gpu.memory_bytes for gpu in topology.gpus]
    least = min((size for size in memory if size is not None), default=None)
    if least is not None and None not in memory:
        gpus["memory_bytes_min"] = least
    else:
        checks.append("gpus.memory_bytes_min is left out: not every GPU tells its memory.")
    readings: Tuple[Tuple[str, Callable[[GpuInformation], Optional[int]]], ...] = (
        ("graphics_clock_max_mhz", lambda gpu: gpu.groups["clocks"].max_graphics_mhz),
        ("memory_clock_max_mhz", lambda gpu: gpu.groups["clocks"].max_memory_mhz),
        ("nvlinks", lambda gpu: gpu.groups["nvlink"].active_count),
    )
    for key, read in readings:
        values = {read(gpu) for gpu in information.gpus}
        if len(values) == 1:
            value = values.pop()
            gpus.update({key: value} if value else {})
        else:
            what = "not every GPU tells it" if None in values else "the GPUs differ in it"
            checks.append("gpus.{0} is left out: {1}.".format(key, what))
    checks += _inactive_links(information)
    return gpus


def _inactive_links(information: Information) -> List[str]:
    """Without a figure, or with one of links that are down, the health check takes as many for healthy."""
    found = {(gpu.groups["nvlink"].active_count, gpu.groups["nvlink"].link_count) for gpu in information.gpus}
    active, count = max(((some or 0, every or 0) for some, every in found), key=lambda pair: pair[1] - pair[0])
    if active >= count:
        return []
    return [
        "Only {0} of {1} NVLinks of a GPU are active: make sure that this type of machine is made so. MIG mode, and a "
        "fabric manager that does not run, take them down as well; then put that right and run it again.".format(
            active, count
        )
    ]


def _layout(topology: Topology, checks: List[str]) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    nodes = [node for node in topology.numa_nodes if node.cpus]
    placed = list(topology.gpu_numa())
    if None in placed or any(node is None or node >= len(nodes) for node in placed):
        checks.append("gpu_numa is left out: the NUMA node of a GPU is not known, or has no CPUs.")
    else:
        found["gpu_numa"] = placed
    found["cpus"] = len(topology.cpus.online)
    if topology.cpus.offline:
        checks.append("Some CPUs are offline: cpus counts those that are online.")
    if sum(len(node.cpus) for node in nodes) == found["cpus"]:
        found["numa_nodes"] = [{"cpus": len(node.cpus)} for node in nodes]
    else:
        checks.append("numa_nodes is left out: not every CPU is on a NUMA node.")
    if topology.memory_bytes is not None:
        found["memory"] = {"bytes": topology.memory_bytes, "tolerance_percent": MEMORY_TOLERANCE_PERCENT}
    return found


def _nvme(dmi: Mapping[str, str], topology: Topology, checks: List[str]) -> Dict[str, Any]:
    models = next((known for field, value, known in LOCAL_DISKS if dmi.get(field) == value), ())
    local = [disk for disk in topology.nvme if is_local({"models": models}, disk.model, disk.serial)]
    others = _sorted(disk.model or "without a model" for disk in topology.nvme if disk not in local)
    if others:
        checks.append(
            "Name in nvme.models the disks whose content may be lost; that cannot be seen. Here are also: {0}.".format(
                ", ".join(printable(model) for model in others)
            )
        )
    if not local:
        return {}
    checks.append("Make sure that the disks of nvme.models hold nothing: the scratch may be built on them.")
    return {"nvme": {"models": list(models), "count": sum(max(1, len(disk.namespaces)) for disk in local)}}


def _infiniband(topology: Topology, checks: List[str]) -> Dict[str, Any]:
    ports = fabric_ports(topology)
    wanted: Dict[str, Any] = {"count": len(ports)}
    down = [name for name, port in ports if port.state not in (None, "ACTIVE")]
    rates = {port.rate_gigabits_per_second for dummy, port in ports}
    if down:
        checks.append("infiniband.rate is left out: {0} not active.".format(", ".join(down)))
    elif len(rates) == 1 and None not in rates:
        wanted["rate_gigabits_per_second"] = _plain(rates.pop())
    elif rates:
        checks.append("infiniband.rate is left out: the ports differ in it, or do not tell it.")
    return {"infiniband": wanted}


def _plain(value: Optional[float]) -> Any:
    return int(value) if value is not None and value == int(value) else value


def _telling(text: Optional[str]) -> bool:
    return bool(text) and not _FILLERS.match(text or "")


def _literal(text: str) -> str:
    """A shell pattern that fits this text and no other; any letter where no YAML file can hold the one that is there
    (bytes that are no UTF-8, control characters, and those beyond 16 bits, which JSON writes as two)."""
    pattern = re.sub(r"([*?[])", r"[\1]", text)
    return "".join(letter if letter.isprintable() and ord(letter) < 0x10000 else "?" for letter in pattern)


def _sorted(texts: Iterable[str]) -> List[str]:
    return sorted(set(texts))


# As text ----------------------------------------------------------------------------------------------


def text(suggestion: Suggestion, wrap: Callable[[str], Sequence[str]]) -> str:
    """The YAML file, each figure marked; ``wrap`` breaks a sentence into lines. JSON's scalars and lists are YAML's."""
    lines = ["---", '# Written by "gpunode profile suggest" from one machine.']
    lines += ["# measured: read on that machine. unverified: a choice of ours.", "# Before you use it:"]
    for check in suggestion.checks:
        first, *more = wrap(check)
        lines += ["#   - " + first] + ["#     " + line for line in more]
    for key, value in suggestion.profile.items():
        lines += ([""] if isinstance(value, (dict, list)) else []) + _entry(key, value, suggestion.unverified, "", key)
    return "\n".join(lines) + "\n"


def _entry(key: str, value: Any, unverified: Sequence[str], indent: str, path: str) -> List[str]:
    if isinstance(value, dict):
        inner = [
            line
            for name, item in value.items()
            for line in _entry(name, item, unverified, indent + "  ", path + "." + name)
        ]
        return [indent + key + ":"] + inner
    if key == "numa_nodes":
        return [indent + key + ":"] + ["{0}  - cpus: {1}  # measured".format(indent, one["cpus"]) for one in value]
    mark = "" if key in ("name", "description") else "  # unverified" if path in unverified else "  # measured"
    return ["{0}{1}: {2}{3}".format(indent, key, json.dumps(value), mark)]
