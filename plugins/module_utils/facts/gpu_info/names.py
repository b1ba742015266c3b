# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names for NVML's numbers and masks (values from nvml.h), and what is written another way. Pure.

The conversions raise ValueError for what they do not understand; a number that is newer than this table is
shown as ``unknown (N)`` rather than hidden.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ..nvml import values

BRANDS = {
    0: "unknown",
    1: "quadro",
    2: "tesla",
    3: "nvs",
    4: "grid",
    5: "geforce",
    6: "titan",
    7: "nvidia_vapps",
    8: "nvidia_vpc",
    9: "nvidia_vcs",
    10: "nvidia_vws",
    11: "nvidia_cloud_gaming",
    12: "quadro_rtx",
    13: "nvidia_rtx",
    14: "nvidia",
    15: "geforce_rtx",
    16: "titan_rtx",
    18: "nvidia_vgamedev",
}
ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
VIRTUALIZATION_MODES = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host_vgpu", 4: "host_vsga"}
COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
EVENT_REASONS = {
    0x1: "gpu_idle",
    0x2: "application_clocks_setting",
    0x4: "software_power_cap",
    0x8: "hardware_slowdown",
    0x10: "sync_boost",
    0x20: "software_thermal_slowdown",
    0x40: "hardware_thermal_slowdown",
    0x80: "hardware_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
RECOVERY_ACTIONS = {
    0: "none",
    1: "gpu_reset",
    2: "node_reboot",
    3: "drain_p2p",
    4: "drain_and_reset",
    5: "recover_imex_domain",
    6: "bus_reset",
    7: "system_reboot",
}
NVLINK_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
NVLINK_REMOTE_TYPES = {0: "gpu", 1: "npu", 2: "switch", 0xFF: "unknown"}
FABRIC_STATES = {0: "not_supported", 1: "not_started", 2: "in_progress", 3: "completed"}
FABRIC_SUMMARIES = {0: "not_supported", 1: "healthy", 2: "unhealthy", 3: "limited_capacity"}
COMMON_ANCESTORS = {0: "internal", 10: "single", 20: "multiple", 30: "hostbridge", 40: "node", 50: "system"}
P2P_STATUSES = {
    0: "ok",
    1: "chipset_not_supported",
    2: "gpu_not_supported",
    3: "topology_not_supported",
    4: "disabled_by_registry_key",
    5: "not_supported",
    6: "unknown",
}
# nvml.h, NVML_GPU_FABRIC_HEALTH_MASK_*: name → lowest bit. Two bits each: 0 not supported, 1 true, 2 false.
_FABRIC_HEALTH = {
    "degraded_bandwidth": 0,
    "route_recovery": 2,
    "route_unhealthy": 4,
    "access_timeout_recovery": 6,
    "partition_assigned": 12,
    "fabric_manager_connected": 14,
}
_FABRIC_CONFIGURATIONS = {
    0: None,
    1: "none",
    2: "incorrect_system_guid",
    3: "incorrect_chassis_serial_number",
    4: "no_partition",
    5: "insufficient_nvlinks",
    6: "incompatible_gpu_firmware",
    7: "invalid_location",
    8: "gpu_state_invalid",
}


def named(table: Mapping[int, str]) -> Callable[[Any], str]:
    """A conversion from NVML's number to its name."""

    def convert(value: Any) -> str:
        number = values.enumerated(value)
        return table.get(number, "unknown ({0})".format(number))

    return convert


def performance_state(value: Any) -> str:
    number = values.whole(value)
    if not 0 <= number <= 15:  # 32 is NVML_PSTATE_UNKNOWN
        raise ValueError("unknown")
    return "P{0}".format(number)


def pci_id(value: Any) -> str:
    """NVML packs device and vendor into one number; written as lspci does: vendor:device."""
    number = values.whole(value)
    return "{0:04x}:{1:04x}".format(number & 0xFFFF, number >> 16)


def event_reasons(mask: int) -> Tuple[str, ...]:
    """The names of the bits of a mask of clock event reasons, lowest first."""
    bits = [1 << position for position in range(mask.bit_length()) if mask >> position & 1]
    return tuple(EVENT_REASONS.get(bit, "unknown ({0:#x})".format(bit)) for bit in bits)


def fabric_health(mask: int) -> Dict[str, Any]:
    """The parts of a fabric health mask: True, False, or None where the driver does not tell."""
    answer: Dict[str, Any] = {}
    for name, shift in _FABRIC_HEALTH.items():
        answer[name] = {1: True, 2: False}.get(mask >> shift & 0x3)
    code = mask >> 8 & 0xF
    answer["incorrect_configuration"] = _FABRIC_CONFIGURATIONS.get(code, "unknown ({0})".format(code))
    return answer


def cluster_uuid(raw: Sequence[int]) -> str:
    """The UUID of an NVLink domain from its 16 bytes; all zero means that there is none."""
    digits = bytes(raw).hex()
    if len(digits) != 32:
        raise ValueError("not 16 bytes")
    if not digits.strip("0"):
        raise values.NotTold("the fabric has no UUID")
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def bits(words: Sequence[int]) -> Tuple[int, ...]:
    """The numbers of the bits that are set in an array of 64-bit words."""
    found: List[int] = []
    for position, word in enumerate(words):
        rest = int(word)
        if not 0 <= rest < 2**64:
            raise ValueError("{0} is no word of 64 bits".format(rest))
        while rest:
            lowest = rest & -rest
            found.append(64 * position + lowest.bit_length() - 1)
            rest ^= lowest
    return tuple(found)


def ranges(numbers: Sequence[int]) -> str:
    """Sorted numbers as the kernel writes CPU lists: ``0-3,8``."""
    runs: List[Tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ",".join(str(first) if first == last else "{0}-{1}".format(first, last) for first, last in runs)


def even_step(numbers: Sequence[int]) -> Optional[int]:
    """The step between sorted numbers, or None when the steps differ or there are fewer than two numbers."""
    steps = {after - before for before, after in zip(numbers, numbers[1:])}
    return steps.pop() if len(steps) == 1 else None
