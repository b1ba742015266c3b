#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report everything about the NVIDIA GPUs of a node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: Report everything about the NVIDIA GPUs of a node
description:
  - Reads in one run, through NVML, what the NVIDIA driver tells about every GPU of the node. It changes nothing, and needs no root.
  - What a GPU, its driver or NVIDIA's Python binding does not tell is V(null), and RV(gpus[].absent) says why.
  - A GPU that is lost, or whose NVML call does not return, does not hide the others. It keeps its place in RV(gpus) with what could be
    read before, and RV(gpus[].fault) says what happened.
  - Machines without GPU, without driver or without library are not failures. RV(status) tells which of them it is.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
  - trainyard.gpu_node.attributes.info_module
requirements:
  - NVIDIA's Python binding (C(nvidia-ml-py)) on the node, or the node command that M(trainyard.gpu_node.node_runtime) installs.
options:
  gpus:
    description:
      - The GPUs to read, each by its index, its UUID (V(GPU-...)) or its PCI address (V(0001:00:00.0)); V(all) means all of them.
      - The index may change with a reboot. UUID and PCI address stay.
      - One that the node does not have is a failure that names those that it has.
    type: list
    elements: str
    default: [all]
  gather:
    description:
      - Which groups of readings to gather, to save time where only some are of interest.
      - V(all) means every group, V(minimum) only the names of each GPU. Groups are V(board), V(numa), V(memory), V(settings), V(clocks), V(power),
        V(temperature), V(load), V(processes), V(ecc), V(repair), V(pcie), V(topology), V(nvlink) and V(fabric).
      - V(!GROUP) leaves one out, as in V(!nvlink).
    type: list
    elements: str
    default: [all]
  every_clock:
    description: Whether to list every supported graphics clock in RV(gpus[].clocks.supported_graphics.all_mhz), some eighty on an A100.
    type: bool
    default: false
  call_timeout:
    description:
      - Seconds that a single NVML call may take, from V(0.1) to V(600). Opening NVML may take three times that, since a driver without persistence
        wakes up every GPU then.
      - After six times that, the whole run ends; GPUs that had no turn have a fault that says so.
    type: float
    default: 10
seealso:
  - module: trainyard.gpu_node.gpu_settings
  - module: trainyard.gpu_node.topology_info
"""

EXAMPLES = r"""
- name: Everything about every GPU
  trainyard.gpu_node.gpu_info:
  register: gpu

- name: Every GPU answers, and there are eight
  ansible.builtin.assert:
    that:
      - gpu.status == 'ok'
      - gpu.gpu_count == 8
    fail_msg: "{{ gpu.message }}"

- name: Only count the GPUs
  trainyard.gpu_node.gpu_info:
    gather: [minimum]

- name: ECC counters and row remapping of one GPU
  trainyard.gpu_node.gpu_info:
    gpus: ["0001:00:00.0"]
    gather: [ecc, repair]

- name: All but the slow parts, with little patience
  trainyard.gpu_node.gpu_info:
    gather: ["!nvlink", "!topology"]
    call_timeout: 3
"""

RETURN = r"""
status:
  description:
    - V(ok), every GPU that was asked for answered.
    - V(partial), some GPU did not, or the PCI bus shows one that the driver does not know.
    - V(no_gpu), the machine has no GPU.
    - V(driver_not_loaded), V(driver_mismatch) and V(no_library), the driver is not loaded, was updated while running, or is not installed.
    - V(no_binding), NVIDIA's Python binding is not on the node.
    - V(no_permission), the user may not open the driver's devices.
    - V(hung), NVML did not open within its time limit.
    - V(failed), NVML does not open for another reason.
  type: str
  returned: success
  sample: ok
message:
  description: The status in a sentence or more. Each names what it is about, the reason and the remedy.
  type: str
  returned: success
  sample: 8 GPUs answered.
driver_version:
  description: Version of the NVIDIA driver.
  type: str
  returned: success
  sample: 580.95.05
cuda_version:
  description: Newest CUDA version that the driver supports.
  type: str
  returned: success
  sample: "13.0"
nvml_version:
  description: Version of NVML.
  type: str
  returned: success
  sample: 13.580.95.05
binding_version:
  description: Version of NVIDIA's Python binding; V(null) for the one inside the node command.
  type: str
  returned: success
  sample: 13.590.44
gpu_count:
  description: How many GPUs NVML has, whether they were asked for or not; V(null) where it does not open.
  type: int
  returned: success
  sample: 8
pci_gpus:
  description: PCI addresses of the NVIDIA GPUs that the PCI bus shows, with or without a driver.
  type: list
  elements: str
  returned: success
  sample: ["0001:00:00.0"]
gpus:
  description: The GPUs that were asked for, in NVML's order. Groups that were not asked for are left out.
  type: list
  elements: dict
  returned: success
  contains:
    index:
      description: NVML's index of the GPU; it may change with a reboot.
      type: int
      sample: 0
    uuid:
      description: UUID of the GPU.
      type: str
      sample: GPU-b66f2ca6-2264-0595-ea0f-c279078346cb
    pci_address:
      description: PCI address as sysfs writes it, lower case with at least four digits of domain.
      type: str
      sample: "0001:00:00.0"
    serial:
      description: Serial number of the board.
      type: str
      sample: "1323395816000"
    minor_number:
      description: N of the device C(/dev/nvidiaN).
      type: int
      sample: 0
    name:
      description: Product name.
      type: str
      sample: NVIDIA A100-SXM4-40GB
    absent:
      description: Why values are V(null), by their path such as C(clocks.application_graphics_mhz).
      type: dict
      sample: {"fabric.state": "this GPU or driver does not support it (nvmlDeviceGetGpuFabricInfoV, NOT_SUPPORTED)"}
    fault:
      description: What ended the reading of this GPU; V(null) when it was read to the end.
      type: dict
      contains:
        kind:
          description: V(lost), V(hung), V(out_of_time), V(reset_required), V(permission) or V(failed).
          type: str
        thing:
          description: Which GPU.
          type: str
        reason:
          description: What is wrong with it.
          type: str
        remedy:
          description: What can be done.
          type: str
        call:
          description: The NVML call at which it happened, by its name in the binding.
          type: str
        message:
          description: All of it in one sentence.
          type: str
    board:
      description: What was built.
      type: dict
      contains:
        brand: {description: "Brand, such as V(nvidia), V(tesla) or V(geforce).", type: str}
        architecture: {description: "Architecture, such as V(volta), V(ampere) or V(hopper).", type: str}
        compute_capability: {description: CUDA compute capability., type: str, sample: "8.0"}
        cores: {description: Number of CUDA cores., type: int}
        board_part_number: {description: Part number of the board., type: str}
        module_id: {description: Place of the module on its baseboard., type: int}
        vbios_version: {description: Version of the VBIOS., type: str}
        inforom_version: {description: Version of the InfoROM image., type: str}
        gsp_firmware_version: {description: Version of the firmware of the GPU system processor., type: str}
        virtualization_mode: {description: "V(none), V(passthrough), V(vgpu), V(host_vgpu) or V(host_vsga).", type: str}
        confidential_computing: {description: "Whether Confidential Computing protects its memory.", type: bool}
    numa:
      description: Where the GPU sits.
      type: dict
      contains:
        host_node: {description: "NUMA node of the host next to the GPU, as sysfs tells.", type: int}
        cpu_affinity: {description: "CPUs next to the GPU, as the kernel writes CPU lists.", type: str, sample: 24-47}
        memory_affinity: {description: NUMA nodes next to the GPU., type: list, elements: int}
        gpu_memory_node: {description: "NUMA node that is the GPU's own memory, on machines that have it so.", type: int}
    memory:
      description: Memory of the GPU, in bytes.
      type: dict
      contains:
        total_bytes: {description: All of it., type: int}
        used_bytes: {description: In use by processes., type: int}
        free_bytes: {description: Free., type: int}
        reserved_bytes: {description: "Kept by driver and firmware; older drivers count it as used.", type: int}
        bar1_total_bytes: {description: Size of the window through which PCIe sees the memory., type: int}
        bar1_used_bytes: {description: Mapped part of that window., type: int}
        bar1_free_bytes: {description: Unmapped part of that window., type: int}
        bus_width_bits: {description: Width of the memory bus in bits., type: int}
    settings:
      description: Modes that can be set.
      type: dict
      contains:
        persistence: {description: "Whether the driver stays loaded without a client (legacy persistence mode).", type: bool}
        compute_mode: {description: "V(default), V(exclusive_process) or V(prohibited).", type: str}
        mig_current: {description: Whether the GPU is partitioned (MIG)., type: bool}
        mig_pending: {description: Whether it will be after the next reset., type: bool}
    clocks:
      description: Clocks in MHz. Locked clocks cannot be read back; no NVML call tells them.
      type: dict
      contains:
        graphics_mhz: {description: Graphics clock now., type: int}
        sm_mhz: {description: Clock of the streaming multiprocessors now., type: int}
        memory_mhz: {description: Memory clock now., type: int}
        video_mhz: {description: Video clock now., type: int}
        max_graphics_mhz: {description: Highest graphics clock., type: int}
        max_sm_mhz: {description: Highest clock of the streaming multiprocessors., type: int}
        max_memory_mhz: {description: Highest memory clock., type: int}
        max_video_mhz: {description: Highest video clock., type: int}
        application_graphics_mhz: {description: Graphics clock that was set for applications., type: int}
        application_memory_mhz: {description: Memory clock that was set for applications., type: int}
        default_application_graphics_mhz: {description: Graphics clock for applications from the factory., type: int}
        default_application_memory_mhz: {description: Memory clock for applications from the factory., type: int}
        max_customer_boost_graphics_mhz: {description: Highest graphics clock that a user may set., type: int}
        supported_memory_mhz: {description: "Memory clocks that can be set, highest first.", type: list, elements: int}
        supported_graphics:
          description: Graphics clocks that can be set with the highest memory clock.
          type: dict
          contains:
            memory_mhz: {description: That memory clock., type: int}
            count: {description: How many graphics clocks there are., type: int}
            min_mhz: {description: Lowest., type: int}
            max_mhz: {description: Highest., type: int}
            step_mhz: {description: "Step between them; V(null) where it differs.", type: int}
            all_mhz: {description: "All of them, highest first, with O(every_clock=true).", type: list, elements: int}
        event_reasons:
          description:
            - Why the clock is what it is (formerly throttle reasons).
            - V(hardware_slowdown), V(software_thermal_slowdown), V(hardware_thermal_slowdown) and V(hardware_power_brake_slowdown) cost
              performance. V(software_power_cap) is normal under load, V(gpu_idle) without.
            - A slowdown by the hardware is listed when it lasts half a second; it may show for a moment while clocks change.
          type: list
          elements: str
          sample: [gpu_idle]
        event_reasons_mask: {description: The same as NVML's mask., type: int}
        software_thermal_slowdown_seconds: {description: "How long the driver has slowed it down for heat, since it was loaded.", type: float}
        hardware_thermal_slowdown_seconds: {description: How long the hardware has slowed it down for heat., type: float}
        hardware_power_brake_slowdown_seconds: {description: How long the machine has asserted its power brake., type: float}
    power:
      description: Power in watts.
      type: dict
      contains:
        usage_watts: {description: Power that the board draws now., type: float}
        limit_watts: {description: Limit that was set., type: float}
        default_limit_watts: {description: Limit from the factory., type: float}
        min_limit_watts: {description: Lowest limit that can be set., type: float}
        max_limit_watts: {description: Highest limit that can be set., type: float}
        enforced_limit_watts: {description: Limit that holds after all other limits., type: float}
        total_energy_joules: {description: Energy since the driver was loaded., type: float}
    temperature:
      description: Temperatures in degrees Celsius.
      type: dict
      contains:
        gpu_celsius: {description: Temperature of the GPU., type: int}
        memory_celsius: {description: Temperature of its memory., type: int}
        margin_celsius:
          description: "Degrees left to its highest operating temperature (T.Limit); below V(0) the driver may slow it down."
          type: int
        slowdown_margin_celsius:
          description: "The C(margin_celsius) below which the hardware slows it down, such as V(-2)."
          type: int
        shutdown_celsius: {description: At this the GPU shuts down., type: int}
        slowdown_celsius: {description: At this the hardware slows the GPU down., type: int}
        memory_max_celsius: {description: At this the memory makes the driver slow the GPU down., type: int}
        gpu_max_celsius: {description: At this the driver slows the GPU down., type: int}
    load:
      description: Load over the last sample period of the driver.
      type: dict
      contains:
        gpu_percent: {description: Share of time in which a kernel ran., type: int}
        memory_percent: {description: Share of time in which memory was read or written., type: int}
        performance_state: {description: "V(P0), the fastest, to V(P15).", type: str}
    processes:
      description: Processes that use the GPU.
      type: dict
      contains:
        running:
          description: The processes by PID; V(null) where the driver does not list them.
          type: list
          elements: dict
          contains:
            pid: {description: PID of the process., type: int}
            kind: {description: "V(compute), V(graphics) or V(mps).", type: str}
            name: {description: Name of its program., type: str}
            used_memory_bytes: {description: GPU memory that it uses in bytes., type: int}
            gpu_instance_id: {description: GPU instance that it uses (MIG)., type: int}
            compute_instance_id: {description: Compute instance that it uses (MIG)., type: int}
    ecc:
      description: Error correction. Volatile counters start with the driver, aggregate ones with the life of the GPU.
      type: dict
      contains:
        current: {description: Whether it is on., type: bool}
        pending: {description: Whether it will be after the next reset or reboot., type: bool}
        default: {description: Whether it is from the factory., type: bool}
        total:
          description: Errors of all memories.
          type: dict
          contains: &counts
            volatile_corrected: {description: Corrected errors since the driver was loaded., type: int}
            volatile_uncorrected: {description: Uncorrected errors since the driver was loaded., type: int}
            aggregate_corrected: {description: Corrected errors over the life of the GPU., type: int}
            aggregate_uncorrected: {description: Uncorrected errors over the life of the GPU., type: int}
        dram:
          description: Errors of the device memory.
          type: dict
          contains: *counts
        sram:
          description: Errors of caches, registers and shared memory.
          type: dict
          contains: *counts
        sram_status:
          description: Errors of the on-chip memories in more detail.
          type: dict
          contains:
            volatile_corrected: {description: Corrected errors since the driver was loaded., type: int}
            volatile_uncorrected_parity: {description: Uncorrected parity errors since the driver was loaded., type: int}
            volatile_uncorrected_secded: {description: Uncorrected SEC-DED errors since the driver was loaded., type: int}
            aggregate_corrected: {description: Corrected errors over the life of the GPU., type: int}
            aggregate_uncorrected_parity: {description: Uncorrected parity errors over the life of the GPU., type: int}
            aggregate_uncorrected_secded: {description: Uncorrected SEC-DED errors over the life of the GPU., type: int}
            threshold_exceeded: {description: "Whether there were so many that the GPU should be replaced.", type: bool}
    repair:
      description: What the GPU does about bad memory, and what the driver asks for.
      type: dict
      contains:
        remapped_rows:
          description: Memory rows that spare rows replace (Ampere and newer).
          type: dict
          contains:
            correctable: {description: Rows remapped for corrected errors., type: int}
            uncorrectable: {description: Rows remapped for uncorrected errors., type: int}
            pending: {description: Whether a remapping waits for a reset., type: bool}
            failure: {description: Whether a remapping failed., type: bool}
        spare_rows:
          description: Number of memory banks by the share of spare rows that they have left.
          type: dict
          contains:
            max_banks: {description: Banks with all spare rows left., type: int}
            high_banks: {description: Banks with many left., type: int}
            partial_banks: {description: Banks with some left., type: int}
            low_banks: {description: Banks with few left., type: int}
            none_banks: {description: Banks with none left., type: int}
        retired_pages_corrected: {description: Pages retired for repeated corrected errors (before Ampere)., type: int}
        retired_pages_uncorrected: {description: Pages retired for uncorrected errors (before Ampere)., type: int}
        retired_pages_pending: {description: Whether a retirement waits for a reset., type: bool}
        channel_repair_pending: {description: Whether the repair of a memory channel waits for a reset., type: bool}
        tpc_repair_pending: {description: Whether the repair of a texture processing cluster waits for a reset., type: bool}
        unrepairable_memory: {description: Whether the memory has errors that cannot be repaired., type: bool}
        recovery_action:
          description:
            - What the driver recommends for this GPU. V(none), V(gpu_reset), V(node_reboot), V(drain_p2p), V(drain_and_reset),
              V(recover_imex_domain), V(bus_reset) or V(system_reboot).
          type: str
    pcie:
      description: The PCIe link of the GPU.
      type: dict
      contains:
        device_id: {description: "PCI vendor and device.", type: str, sample: "10de:20b0"}
        subsystem_id: {description: "PCI vendor and device of the board.", type: str, sample: "10de:134f"}
        current_generation: {description: "Generation of the link now; lower when idle.", type: int}
        max_generation: {description: Highest generation that GPU and slot can do together., type: int}
        gpu_max_generation: {description: Highest generation that the GPU can do., type: int}
        current_width_lanes: {description: Lanes of the link now., type: int}
        max_width_lanes: {description: Lanes that GPU and slot can use together., type: int}
        replay_count: {description: Replays on the link since the driver was loaded., type: int}
    topology:
      description: How the GPU sees the others.
      type: dict
      contains:
        peers:
          description: The other GPUs of the machine that answered.
          type: list
          elements: dict
          contains:
            index: {description: Index of the other GPU., type: int}
            pci_address: {description: PCI address of the other GPU., type: str}
            common_ancestor:
              description: The nearest thing that both hang on, V(internal), V(single), V(multiple), V(hostbridge), V(node) or V(system).
              type: str
            p2p_read: {description: Whether this GPU can read the memory of the other; V(ok) or why not., type: str}
            p2p_nvlink: {description: Whether it can do so over NVLink; V(ok) or why not., type: str}
    nvlink:
      description: The NVLinks of the GPU.
      type: dict
      contains:
        link_count: {description: How many links the GPU has., type: int}
        active_count: {description: How many of them are active., type: int}
        links:
          description: Each link. In RV(gpus[].absent) one path stands for all links, as in C(nvlink.links.*.version).
          type: list
          elements: dict
          contains:
            link: {description: Number of the link., type: int}
            active: {description: Whether it is active., type: bool}
            version: {description: Version of NVLink., type: str, sample: "3.0"}
            speed_megabytes_per_second: {description: Speed in megabytes per second and direction., type: int}
            remote_type: {description: "What is at the other end, V(gpu), V(switch), V(npu) or V(unknown).", type: str}
            remote_pci_address: {description: PCI address of the other end., type: str}
            replay_errors: {description: Replays since the counters were reset., type: int}
            recovery_errors: {description: Recoveries since the counters were reset., type: int}
            crc_flit_errors: {description: CRC errors of flow control since the counters were reset., type: int}
            crc_data_errors: {description: CRC errors of data since the counters were reset., type: int}
            crc_errors: {description: CRC errors of both kinds; Hopper reports this sum only., type: int}
            packets:
              description: What NVLink 5 (Blackwell) counts; V(null) before.
              type: dict
              contains:
                malformed: {description: Malformed packets received., type: int}
                buffer_overruns: {description: Packets discarded for want of room., type: int}
                receive_errors: {description: Packets received with an error., type: int}
                remote_errors: {description: Packets that the other end marked as bad., type: int}
                general_errors: {description: Packets whose header did not match., type: int}
                integrity_errors: {description: Times that local errors went over a threshold., type: int}
                transmit_discards: {description: Packets with an error that were not sent., type: int}
                recoveries_succeeded: {description: Recoveries after which the link was up again., type: int}
                recoveries_failed: {description: Recoveries after which the link was down., type: int}
                effective_errors: {description: Errors in packets that are left after correction., type: int}
                effective_bit_error_rate: {description: Their rate per bit., type: float}
                symbol_errors: {description: Errors of received symbols., type: int}
                symbol_bit_error_rate: {description: Their rate per bit., type: float}
    fabric:
      description: The NVLink fabric behind NVSwitches. CUDA works there only with RV(gpus[].fabric.state=completed).
      type: dict
      contains:
        state: {description: "V(not_supported), V(not_started), V(in_progress) or V(completed).", type: str}
        status: {description: V(success) or why the GPU could not join., type: str}
        cluster_uuid: {description: UUID of the NVLink domain., type: str}
        clique_id: {description: Number of the clique within the domain., type: int}
        health_mask: {description: NVML's mask of the health of the fabric., type: int}
        health:
          description: That mask by parts; V(null) for a part that the driver does not tell.
          type: dict
          contains:
            degraded_bandwidth: {description: Whether the bandwidth is reduced., type: bool}
            route_recovery: {description: Whether routes are being recovered., type: bool}
            route_unhealthy: {description: Whether a route is unhealthy., type: bool}
            access_timeout_recovery: {description: Whether a recovery from timeouts is under way., type: bool}
            partition_assigned: {description: Whether the GPU is in a partition., type: bool}
            fabric_manager_connected: {description: Whether the global fabric manager is connected., type: bool}
            incorrect_configuration: {description: V(none) or what is configured wrongly., type: str}
        health_summary: {description: "V(not_supported), V(healthy), V(unhealthy) or V(limited_capacity).", type: str}
"""

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

SPEC = {
    "gpus": {"type": "list", "elements": "str", "default": ["all"]},
    "gather": {"type": "list", "elements": "str", "default": ["all"]},
    "every_clock": {"type": "bool", "default": False},
    "call_timeout": {"type": "float", "default": 10},
}


def main():
    node_command.main("gpu_info", SPEC)


if __name__ == "__main__":
    main()
