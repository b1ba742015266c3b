# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readings of what a GPU is and what it is connected to."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Tuple

from ...core.host import Host
from ..nvml import values
from ..nvml.call import CallError, Kind, Reading, missing
from ..nvml.identity import Identity, normalise_pci_address
from ..nvml.pci import DEVICES
from . import names
from .ask import Ask
from .read_nvlink_errors import nvlink_errors
from .types import Board, Fabric, Memory, Numa, NvLink, NvLinks, Pcie, Peer, Topology

_MEMORY_V2 = 0x02000028  # nvmlMemory_v2: the version of the structure
_CPU_WORDS = 64  # room for 4096 CPUs
_NODE_WORDS = 16  # room for 1024 NUMA nodes
_SCOPE_NODE = 0
_MAX_LINKS = 36  # NVML_NVLINK_MAX_LINKS
_FIELD_SPEED_COMMON = 90
_FIELD_LINK_COUNT = 91
_FIELD_LINK_SPEED = 164
_P2P_READ = 0
_P2P_NVLINK = 2


def board(ask: Ask) -> Board:
    return Board(
        brand=ask("brand", names.named(names.BRANDS), "nvmlDeviceGetBrand"),
        architecture=ask("architecture", names.named(names.ARCHITECTURES), "nvmlDeviceGetArchitecture"),
        compute_capability=ask("compute_capability", _compute_capability, "nvmlDeviceGetCudaComputeCapability"),
        cores=ask("cores", values.whole, "nvmlDeviceGetNumGpuCores"),
        board_part_number=ask("board_part_number", values.text, "nvmlDeviceGetBoardPartNumber"),
        module_id=ask("module_id", values.whole, "nvmlDeviceGetModuleId"),
        vbios_version=ask("vbios_version", values.text, "nvmlDeviceGetVbiosVersion"),
        inforom_version=ask("inforom_version", values.text, "nvmlDeviceGetInforomImageVersion"),
        gsp_firmware_version=ask("gsp_firmware_version", values.text, "nvmlDeviceGetGspFirmwareVersion"),
        virtualization_mode=ask(
            "virtualization_mode", names.named(names.VIRTUALIZATION_MODES), "nvmlDeviceGetVirtualizationMode"
        ),
        # Without Confidential Computing no memory is protected: tests/hardware/recordings.
        confidential_computing=ask(
            "confidential_computing",
            lambda sizes: values.whole(sizes.protectedMemSizeKib) > 0,
            "nvmlDeviceGetConfComputeMemSizeInfo",
        ),
    )


def _compute_capability(pair: Tuple[Any, Any]) -> str:
    major, minor = pair
    return "{0}.{1}".format(values.whole(major), values.whole(minor))


def memory(ask: Ask) -> Memory:
    # The second form keeps what the driver reserves apart from what processes use.
    detailed = ask.gpu.read("nvmlDeviceGetMemoryInfo", _MEMORY_V2)
    main = detailed if detailed.ok else ask.gpu.read("nvmlDeviceGetMemoryInfo")
    bar1 = ask.gpu.read("nvmlDeviceGetBAR1MemoryInfo")
    return Memory(
        total_bytes=ask.take("total_bytes", main.map(lambda info: values.byte_count(info.total))),
        used_bytes=ask.take("used_bytes", main.map(lambda info: values.byte_count(info.used))),
        free_bytes=ask.take("free_bytes", main.map(lambda info: values.byte_count(info.free))),
        reserved_bytes=ask.take("reserved_bytes", detailed.map(lambda info: values.byte_count(info.reserved))),
        bar1_total_bytes=ask.take("bar1_total_bytes", bar1.map(lambda info: values.byte_count(info.bar1Total))),
        bar1_used_bytes=ask.take("bar1_used_bytes", bar1.map(lambda info: values.byte_count(info.bar1Used))),
        bar1_free_bytes=ask.take("bar1_free_bytes", bar1.map(lambda info: values.byte_count(info.bar1Free))),
        bus_width_bits=ask("bus_width_bits", values.whole, "nvmlDeviceGetMemoryBusWidth"),
    )


def pcie(ask: Ask) -> Pcie:
    info = ask.gpu.read("nvmlDeviceGetPciInfo")
    return Pcie(
        device_id=ask.take("device_id", info.map(lambda pci: names.pci_id(pci.pciDeviceId))),
        subsystem_id=ask.take("subsystem_id", info.map(lambda pci: names.pci_id(pci.pciSubSystemId))),
        current_generation=ask("current_generation", values.generation, "nvmlDeviceGetCurrPcieLinkGeneration"),
        max_generation=ask("max_generation", values.generation, "nvmlDeviceGetMaxPcieLinkGeneration"),
        gpu_max_generation=ask("gpu_max_generation", values.generation, "nvmlDeviceGetGpuMaxPcieLinkGeneration"),
        current_width_lanes=ask("current_width_lanes", values.lanes, "nvmlDeviceGetCurrPcieLinkWidth"),
        max_width_lanes=ask("max_width_lanes", values.lanes, "nvmlDeviceGetMaxPcieLinkWidth"),
        replay_count=ask("replay_count", values.whole, "nvmlDeviceGetPcieReplayCounter"),
    )


def nvlink(ask: Ask) -> NvLinks:
    speed_common, link_count = ask.fields([(_FIELD_SPEED_COMMON, 0), (_FIELD_LINK_COUNT, 0)])
    expected = link_count.map(values.whole).value
    states: List[Tuple[int, Reading[Any]]] = []
    refusal: Optional[Reading[Any]] = None
    for link in range(_MAX_LINKS if expected is None else min(expected, _MAX_LINKS)):
        state = ask.gpu.read("nvmlDeviceGetNvLinkState", link)
        if state.kind is Kind.WRONG_VALUE or (state.absent and not states):
            refusal = state
            break  # there is no such link, or there are none at all
        states.append((link, state))
    if not states:
        none: Reading[Any] = refusal if refusal is not None else missing("this GPU has no NVLink")
        ask.take("links", missing(none.reason or "", none.kind or Kind.ABSENT))
        count = ask.take("link_count", link_count.map(values.whole))
        return NvLinks(link_count=count, active_count=0 if count == 0 else ask.take("active_count", none), links=())
    speeds = ask.fields([(_FIELD_LINK_SPEED, link) for link, dummy in states])
    links = tuple(
        _link(ask, link, state, speed if speed.ok else speed_common) for (link, state), speed in zip(states, speeds)
    )
    return NvLinks(
        link_count=len(links) if expected is None else expected,
        active_count=sum(1 for link in links if link.active),
        links=links,
    )


def _link(ask: Ask, link: int, state: Reading[Any], speed: Reading[Any]) -> NvLink:
    # One path for all links: eighteen times the same reason would help nobody.
    active = ask.take("links.*.active", state.map(values.flag))

    def question(field: str, convert: Callable[[Any], Any], function: str, *arguments: Any) -> Any:
        return ask("links.*." + field, convert, function, link, *arguments)

    def remote(field: str, convert: Callable[[Any], Any], function: str) -> Any:
        if not active:  # an inactive link has no other end; NVML answers INVALID_ARGUMENT or stale values
            ask.take("links.*." + field, missing("the link is not active", Kind.NO_DATA))
            return None
        return question(field, convert, function)

    version = question("version", names.named(names.NVLINK_VERSIONS), "nvmlDeviceGetNvLinkVersion")
    return NvLink(
        link=link,
        active=active,
        version=version,
        speed_megabytes_per_second=ask.take("links.*.speed_megabytes_per_second", speed.map(values.whole)),
        remote_type=remote(
            "remote_type", names.named(names.NVLINK_REMOTE_TYPES), "nvmlDeviceGetNvLinkRemoteDeviceType"
        ),
        remote_pci_address=remote("remote_pci_address", _remote_address, "nvmlDeviceGetNvLinkRemotePciInfo"),
        **nvlink_errors(ask, link, version),
    )


def _remote_address(info: Any) -> str:
    address = normalise_pci_address(values.text(info.busId))
    if address is None or address == "0000:00:00.0":  # an NVSwitch that the hypervisor keeps to itself
        raise values.NotTold("the other end is not on this machine's PCI bus")
    return address


def fabric(ask: Ask) -> Fabric:
    info = ask.struct("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t")
    if info.absent:  # branches 525 to 545 have the first form alone, without a health
        older = ask.struct("nvmlDeviceGetGpuFabricInfo", "c_nvmlGpuFabricInfo_t")
        info = info if older.absent else older
    state = info.map(lambda answer: values.enumerated(answer.state))
    completed = state.value == 3
    if state.value == 0 and _before_hopper(ask):
        info = state = missing("GPUs before Hopper report no state in a fabric")

    def when_completed(field: str, convert: Callable[[Any], Any]) -> Any:
        if state.ok and not completed:
            return ask.take(field, missing("the GPU has not joined its NVLink fabric", Kind.NO_DATA))
        return ask.take(field, info.map(convert))

    def of_health(field: str, member: str, convert: Callable[[Any], Any]) -> Any:
        if info.ok and not hasattr(info.value, member):
            return ask.take(field, missing("this driver version does not report it"))
        return ask.take(field, info.map(lambda answer: convert(getattr(answer, member))))

    return Fabric(
        state=ask.take("state", state.map(names.named(names.FABRIC_STATES))),
        status=when_completed("status", lambda answer: "success" if answer.status == 0 else _error_name(answer.status)),
        cluster_uuid=when_completed("cluster_uuid", lambda answer: names.cluster_uuid(list(answer.clusterUuid))),
        clique_id=when_completed("clique_id", lambda answer: values.whole(answer.cliqueId)),
        health_mask=of_health("health_mask", "healthMask", values.mask),
        health=of_health("health", "healthMask", lambda mask: _health(ask, values.mask(mask))),
        health_summary=of_health("health_summary", "healthSummary", names.named(names.FABRIC_SUMMARIES)),
    )


def _before_hopper(ask: Ask) -> bool:
    found = ask.gpu.read("nvmlDeviceGetArchitecture").map(values.enumerated)
    return found.value is not None and found.value < ask.gpu.nvml.constant("NVML_DEVICE_ARCH_HOPPER", 9)


def _health(ask: Ask, mask: int) -> Dict[str, Any]:
    parts = names.fabric_health(mask)
    for name in sorted(name for name, part in parts.items() if part is None):
        ask.take("health." + name, missing("the driver does not tell", Kind.ABSENT))
    return parts


def _error_name(code: Any) -> str:
    return CallError.of_code("fabric", "nvmlDeviceGetGpuFabricInfoV", values.enumerated(code)).reason


def numa(ask: Ask) -> Numa:
    return Numa(
        host_node=ask.take("host_node", _host_node(ask.gpu.identity)),
        cpu_affinity=ask(
            "cpu_affinity",
            lambda words: names.ranges(names.bits(list(words))),
            "nvmlDeviceGetCpuAffinity",
            _CPU_WORDS,
        ),
        memory_affinity=ask(
            "memory_affinity",
            lambda words: names.bits(list(words)),
            "nvmlDeviceGetMemoryAffinity",
            _NODE_WORDS,
            _SCOPE_NODE,
        ),
        gpu_memory_node=ask("gpu_memory_node", values.whole, "nvmlDeviceGetNumaNodeId"),
    )


def _host_node(identity: Identity) -> Reading[int]:
    """The NUMA node next to the GPU, from sysfs: NVML's own call is about the GPU's memory as a node."""
    if identity.pci_address is None:
        return missing("the PCI address is not known", Kind.NO_DATA)
    line = Host().read_line(os.path.join(DEVICES, identity.pci_address, "numa_node"))
    if line is None:
        return missing("sysfs does not show this PCI address", Kind.NO_DATA)
    if not line.isdigit():
        return missing("the firmware does not tell the kernel", Kind.NO_DATA)
    return Reading(int(line))


def topology(ask: Ask) -> Topology:
    ancestor, status = names.named(names.COMMON_ANCESTORS), names.named(names.P2P_STATUSES)
    return Topology(
        peers=tuple(
            Peer(
                index=peer.identity.index,
                pci_address=peer.identity.pci_address,
                common_ancestor=_pair(
                    ask, "common_ancestor", ancestor, "nvmlDeviceGetTopologyCommonAncestor", peer.handle
                ),
                p2p_read=_pair(ask, "p2p_read", status, "nvmlDeviceGetP2PStatus", peer.handle, _P2P_READ),
                p2p_nvlink=_pair(ask, "p2p_nvlink", status, "nvmlDeviceGetP2PStatus", peer.handle, _P2P_NVLINK),
            )
            for peer in ask.gpu.peers
        )
    )


def _pair(ask: Ask, field: str, convert: Callable[[Any], str], function: str, *arguments: Any) -> Optional[str]:
    """A question about two GPUs: the other one may be lost, which says nothing about this one."""
    try:
        return ask("peers.*." + field, convert, function, *arguments)
    except CallError as error:
        if error.kind is not Kind.LOST:
            raise
        return ask.take("peers.*." + field, missing(error.reason, error.kind))
