# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The model of a GPU: one frozen dataclass for each group of readings. None: NVML did not tell, see ``absent``."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Tuple

from ...core.frozen import frozen, plain, replaced
from ..nvml.call import Kind
from ..nvml.identity import Identity
from ..nvml.session import Fault


@frozen
class Board:
    """What was built: it never changes, but for firmware."""

    brand: Optional[str]
    architecture: Optional[str]
    compute_capability: Optional[str]
    cores: Optional[int]
    board_part_number: Optional[str]
    module_id: Optional[int]
    vbios_version: Optional[str]
    inforom_version: Optional[str]
    gsp_firmware_version: Optional[str]
    virtualization_mode: Optional[str]
    confidential_computing: Optional[bool] = None


@frozen
class Memory:
    total_bytes: Optional[int]
    used_bytes: Optional[int]
    free_bytes: Optional[int]
    reserved_bytes: Optional[int]
    bar1_total_bytes: Optional[int]
    bar1_used_bytes: Optional[int]
    bar1_free_bytes: Optional[int]
    bus_width_bits: Optional[int]


@frozen
class Pcie:
    """``*_generation`` and ``*_width_lanes``: the link now (it slows down when idle), and at most here."""

    device_id: Optional[str]
    subsystem_id: Optional[str]
    current_generation: Optional[int]
    max_generation: Optional[int]
    gpu_max_generation: Optional[int]
    current_width_lanes: Optional[int]
    max_width_lanes: Optional[int]
    replay_count: Optional[int]


@frozen
class SupportedClocks:
    """The graphics clocks that go with one memory clock. ``step_mhz`` is None where the steps differ."""

    memory_mhz: int
    count: int
    min_mhz: int
    max_mhz: int
    step_mhz: Optional[int]
    all_mhz: Optional[Tuple[int, ...]]


@frozen
class Clocks:
    graphics_mhz: Optional[int]
    sm_mhz: Optional[int]
    memory_mhz: Optional[int]
    video_mhz: Optional[int]
    max_graphics_mhz: Optional[int]
    max_sm_mhz: Optional[int]
    max_memory_mhz: Optional[int]
    max_video_mhz: Optional[int]
    application_graphics_mhz: Optional[int]
    application_memory_mhz: Optional[int]
    default_application_graphics_mhz: Optional[int]
    default_application_memory_mhz: Optional[int]
    max_customer_boost_graphics_mhz: Optional[int]
    supported_memory_mhz: Optional[Tuple[int, ...]]
    supported_graphics: Optional[SupportedClocks]
    event_reasons: Optional[Tuple[str, ...]]
    event_reasons_mask: Optional[int]
    software_thermal_slowdown_seconds: Optional[float]
    hardware_thermal_slowdown_seconds: Optional[float]
    hardware_power_brake_slowdown_seconds: Optional[float]


@frozen
class Settings:
    persistence: Optional[bool]
    compute_mode: Optional[str]
    mig_current: Optional[bool]
    mig_pending: Optional[bool]


@frozen
class Power:
    usage_watts: Optional[float]
    limit_watts: Optional[float]
    default_limit_watts: Optional[float]
    min_limit_watts: Optional[float]
    max_limit_watts: Optional[float]
    enforced_limit_watts: Optional[float]
    total_energy_joules: Optional[float]


@frozen
class Temperature:
    gpu_celsius: Optional[int]
    memory_celsius: Optional[int]
    margin_celsius: Optional[int]
    slowdown_margin_celsius: Optional[int]
    shutdown_celsius: Optional[int]
    slowdown_celsius: Optional[int]
    memory_max_celsius: Optional[int]
    gpu_max_celsius: Optional[int]


@frozen
class Load:
    gpu_percent: Optional[int]
    memory_percent: Optional[int]
    performance_state: Optional[str]


@frozen
class ErrorCounts:
    """Volatile: since the driver was loaded. Aggregate: over the life of the GPU."""

    volatile_corrected: Optional[int]
    volatile_uncorrected: Optional[int]
    aggregate_corrected: Optional[int]
    aggregate_uncorrected: Optional[int]


@frozen
class SramErrors:
    volatile_corrected: int
    volatile_uncorrected_parity: int
    volatile_uncorrected_secded: int
    aggregate_corrected: int
    aggregate_uncorrected_parity: int
    aggregate_uncorrected_secded: int
    threshold_exceeded: bool


@frozen
class Ecc:
    current: Optional[bool]
    pending: Optional[bool]
    default: Optional[bool]
    total: ErrorCounts
    dram: ErrorCounts
    sram: ErrorCounts
    sram_status: Optional[SramErrors]


@frozen
class RemappedRows:
    correctable: int
    uncorrectable: int
    pending: bool
    failure: bool


@frozen
class SpareRows:
    """How many memory banks have which share of their spare rows left."""

    max_banks: int
    high_banks: int
    partial_banks: int
    low_banks: int
    none_banks: int


@frozen
class Repair:
    """What the GPU does about bad memory, and what the driver asks for."""

    remapped_rows: Optional[RemappedRows]
    spare_rows: Optional[SpareRows]
    retired_pages_corrected: Optional[int]
    retired_pages_uncorrected: Optional[int]
    retired_pages_pending: Optional[bool]
    channel_repair_pending: Optional[bool]
    tpc_repair_pending: Optional[bool]
    unrepairable_memory: Optional[bool]
    recovery_action: Optional[str]


@frozen
class NvLinkPackets:
    """What NVLink 5 counts. Effective errors: bit errors that correction left."""

    malformed: Optional[int]
    buffer_overruns: Optional[int]
    receive_errors: Optional[int]
    remote_errors: Optional[int]
    general_errors: Optional[int]
    integrity_errors: Optional[int]
    transmit_discards: Optional[int]
    recoveries_succeeded: Optional[int]
    recoveries_failed: Optional[int]
    effective_errors: Optional[int]
    effective_bit_error_rate: Optional[float]
    symbol_errors: Optional[int]
    symbol_bit_error_rate: Optional[float]


@frozen
class NvLink:
    """``crc_errors`` are those of flow control and of data together; Hopper tells only that."""

    link: int
    active: Optional[bool]
    version: Optional[str]
    speed_megabytes_per_second: Optional[int]
    remote_type: Optional[str]
    remote_pci_address: Optional[str]
    replay_errors: Optional[int]
    recovery_errors: Optional[int]
    crc_flit_errors: Optional[int]
    crc_data_errors: Optional[int]
    crc_errors: Optional[int] = None
    packets: Optional[NvLinkPackets] = None


@frozen
class NvLinks:
    link_count: Optional[int]
    active_count: Optional[int]
    links: Tuple[NvLink, ...]


@frozen
class Fabric:
    """The NVLink domain behind NVSwitches. ``state`` must be ``completed`` for CUDA to work there."""

    state: Optional[str]
    status: Optional[str]
    cluster_uuid: Optional[str]
    clique_id: Optional[int]
    health_mask: Optional[int]
    health: Optional[Mapping[str, Any]]
    health_summary: Optional[str]


@frozen
class Numa:
    host_node: Optional[int]
    cpu_affinity: Optional[str]
    memory_affinity: Optional[Tuple[int, ...]]
    gpu_memory_node: Optional[int]


@frozen
class Peer:
    index: int
    pci_address: Optional[str]
    common_ancestor: Optional[str]
    p2p_read: Optional[str]
    p2p_nvlink: Optional[str]


@frozen
class Topology:
    peers: Tuple[Peer, ...]


@frozen
class Process:
    pid: int
    kind: str
    name: Optional[str]
    used_memory_bytes: Optional[int]
    gpu_instance_id: Optional[int]
    compute_instance_id: Optional[int]


@frozen
class Processes:
    """``running`` is None when not even the list of compute processes was told."""

    running: Optional[Tuple[Process, ...]]


@frozen
class GpuInformation:
    """One GPU. ``groups`` has what was gathered; ``absent`` says why a value in it is None, by its path.

    ``failed`` has the paths among them that the GPU has and could not tell: not a missing feature, but an error.
    """

    identity: Identity
    groups: Mapping[str, Any]
    absent: Mapping[str, str]
    fault: Optional[Fault]
    failed: Mapping[str, Kind]

    def to_dict(self) -> Dict[str, Any]:
        answer: Dict[str, Any] = plain(self.identity)
        for name, group in self.groups.items():
            answer[name] = plain(group)
        answer["absent"] = dict(sorted(self.absent.items()))
        answer["fault"] = None
        if self.fault is not None:
            answer["fault"] = dict(plain(self.fault), message=str(self.fault))
        return answer


@frozen
class Information:
    """The whole machine, as the module ``gpu_info`` returns it."""

    status: str
    message: str
    driver_version: Optional[str]
    cuda_version: Optional[str]
    nvml_version: Optional[str]
    binding_version: Optional[str]
    gpu_count: Optional[int]
    gpus: Tuple[GpuInformation, ...]
    pci_gpus: Tuple[str, ...]

    def to_dict(self) -> Dict[str, Any]:
        return dict(plain(replaced(self, gpus=())), gpus=[gpu.to_dict() for gpu in self.gpus])
