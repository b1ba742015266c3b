#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell what hangs on which NUMA node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: topology_info
short_description: Report NUMA nodes with their processors, memory, GPUs, InfiniBand ports and NVMe disks
description:
  - Reads sysfs, and asks NVML for the GPUs, in one run. Needs no tool such as lstopo or nvidia-smi.
  - Every device comes with its NUMA node, its PCI address, the bridges above it, and its nearest partners of the
    other kinds.
  - Partners are near by a common PCIe bridge first, then by NUMA node, then by the distance between nodes. Partners
    that are
    equally near are shared out in the order of PCI addresses, so that each GPU gets an InfiniBand device of its own.
  - What the machine does not tell is V(null), with a reason beside it.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
  - trainyard.gpu_node.attributes.info_module
options:
  gpus:
    description:
      - Whether NVML is asked. Without it, GPUs are listed as the PCI bus shows them.
      - By default V(true), and V(false) when O(root) is another tree.
    type: bool
  call_timeout:
    description: Seconds after which a single NVML call is given up.
    type: float
    default: 10
  root:
    description: Read a captured tree (a folder that holds C(sys) and C(proc)) instead of this machine.
    type: path
    default: /
"""

EXAMPLES = r"""
- name: Look at the topology
  trainyard.gpu_node.topology_info:
  register: node

- name: Show the NUMA node of each GPU, in the order of PCI addresses
  ansible.builtin.debug:
    msg: "{{ node.gpu_numa }}"

- name: Show the InfiniBand device that goes with each GPU
  ansible.builtin.debug:
    msg: "{{ node.gpus | items2dict(key_name='pci_address', value_name='nearest_infiniband') }}"

- name: Read a tree that was copied from another machine
  trainyard.gpu_node.topology_info:
    root: /srv/captured/node17
"""

RETURN = r"""
cpus:
  description: The processors.
  type: dict
  returned: success
  contains:
    present:
      description: Numbers of all CPUs, those that are offline included.
      type: list
      elements: int
    online:
      description: Numbers of the CPUs that are online.
      type: list
      elements: int
    online_list:
      description: The same as text, such as V(0-95).
      type: str
    offline:
      description: Numbers of the CPUs that are offline. They belong to no NUMA node here.
      type: list
      elements: int
    isolated:
      description: Numbers of the CPUs that the kernel command line keeps from the scheduler.
      type: list
      elements: int
    cores:
      description: How many cores have a CPU that is online.
      type: int
    threads_per_core:
      description: The largest number of online CPUs that a core has, 2 with SMT.
      type: int
    sibling_groups:
      description: The online CPUs of each core.
      type: list
      elements: list
memory_bytes:
  description: Memory that the kernel manages, in bytes.
  type: int
  returned: success
packages:
  description: The sockets. RV(packages[].id) is V(null) where the machine does not tell.
  type: list
  elements: dict
  returned: success
  contains:
    id:
      description: Number of the socket.
      type: int
    cpus:
      description: Its online CPUs.
      type: list
      elements: int
    cores:
      description: How many cores it has online.
      type: int
    numa_nodes:
      description: NUMA nodes with CPUs of this socket, more than one with sub-NUMA clustering.
      type: list
      elements: int
numa_nodes:
  description: The NUMA nodes, by number.
  type: list
  elements: dict
  returned: success
  contains:
    id:
      description: Number of the node.
      type: int
    kind:
      description:
        - V(cpus_and_memory), V(cpus_only), V(memory_only) (memory of a coherent GPU, CXL) or V(empty).
      type: str
    cpus:
      description: Its online CPUs.
      type: list
      elements: int
    cpu_list:
      description: The same as text, such as V(24-47).
      type: str
    memory_bytes:
      description: Its memory in bytes.
      type: int
    distances:
      description: The kernel's distance to each node, by the number of that node as text. 10 is the node itself.
      type: dict
    packages:
      description: Sockets that its CPUs belong to.
      type: list
      elements: int
    l3_groups:
      description: CPUs of this node that share a level-3 cache. Empty where the machine does not tell.
      type: list
      elements: dict
      contains:
        id:
          description: The kernel's number of the cache, or V(null).
          type: int
        cpus:
          description: The CPUs.
          type: list
          elements: int
        size_bytes:
          description: Size of the whole cache in bytes.
          type: int
    inferred:
      description: V(true) for the one node that stands for the whole machine where the kernel knows no NUMA.
      type: bool
gpus:
  description:
    - The GPUs, by PCI address (the order of C(CUDA_DEVICE_ORDER=PCI_BUS_ID)).
    - The keys from RV(gpus[].pci_address) to RV(gpus[].virtual_function) mean the same for RV(infiniband) and RV(nvme).
  type: list
  elements: dict
  returned: success
  contains:
    name:
      description: Its PCI address, or its UUID where NVML told no address.
      type: str
    nvml:
      description: Whether NVML reports it and it answers.
      type: bool
    fault:
      description: Why it is not reported or does not answer, or V(null).
      type: str
    index:
      description: NVML's number of it in this run, or V(null).
      type: int
    uuid:
      description: Its UUID, or V(null).
      type: str
    product:
      description: Its product name, or V(null).
      type: str
    pci_id:
      description: PCI vendor and device, such as V(10de:20b0).
      type: str
    driver:
      description: The kernel driver that is bound to it, or V(null).
      type: str
    memory_bytes:
      description: Its memory in bytes, or V(null).
      type: int
    memory_numa_node:
      description: The NUMA node that its own memory forms (coherent machines such as GB200), or V(null).
      type: int
    pci_address:
      description:
        - PCI address with its full domain, or V(null) for a device that has none (NVMe over a network or loop, soft
          RoCE).
      type: str
      sample: "0001:00:00.0"
    pcie_path:
      description:
        - The root complex and the bridges above the device, without itself. Empty where the tree does not tell.
      type: list
      elements: str
    numa_node:
      description: The NUMA node it is near to, or V(null).
      type: int
    numa_source:
      description:
        - Where the NUMA node comes from. V(sysfs) (the device's own file), V(local_cpulist) (the CPUs that sysfs
          calls local),
          V(nvml) (NVML's CPU affinity) or V(only_node) (there is only one).
      type: str
    numa_reason:
      description: Why RV(gpus[].numa_node) is V(null), or V(null).
      type: str
    virtual_function:
      description: Whether it is an SR-IOV virtual function of a device of this machine.
      type: bool
    nearest_infiniband:
      description: The nearest InfiniBand device, or V(null) when there is none.
      type: dict
      contains:
        name:
          description: The partner it is paired with.
          type: str
        equally_near:
          description: All partners that are as near.
          type: list
          elements: str
        relation:
          description:
            - V(pcie) (a common bridge), V(root_complex), V(numa_node), V(other_numa_node), or V(unknown) when the
              NUMA node of one
              of the two is not known.
          type: str
        distance:
          description: The kernel's distance between the two NUMA nodes, or V(null).
          type: int
    nearest_nvme:
      description: The nearest NVMe disk, with the keys of RV(gpus[].nearest_infiniband).
      type: dict
infiniband:
  description: The RDMA devices (InfiniBand, RoCE and soft ones), by name.
  type: list
  elements: dict
  returned: success
  contains:
    name:
      description: Name of the device, such as V(mlx5_ib0).
      type: str
    node_guid:
      description: Its GUID.
      type: str
    firmware:
      description: Version of its firmware.
      type: str
    netdevs:
      description: Its network interfaces.
      type: list
      elements: str
    ports:
      description: Its ports.
      type: list
      elements: dict
      contains:
        number:
          description: Number of the port, from 1.
          type: int
        state:
          description: Logical state, V(ACTIVE) when it carries traffic.
          type: str
        physical_state:
          description: Physical state, V(LinkUp) when the cable is good.
          type: str
        rate_gigabits_per_second:
          description: Rate in Gb/s.
          type: float
        link_layer:
          description: V(InfiniBand) or V(Ethernet).
          type: str
    pci_address:
      description: As RV(gpus[].pci_address).
      type: str
    pcie_path:
      description: As RV(gpus[].pcie_path).
      type: list
      elements: str
    numa_node:
      description: As RV(gpus[].numa_node).
      type: int
    numa_source:
      description: As RV(gpus[].numa_source).
      type: str
    numa_reason:
      description: As RV(gpus[].numa_reason).
      type: str
    virtual_function:
      description: As RV(gpus[].virtual_function).
      type: bool
    nearest_gpu:
      description: The nearest GPU by its PCI address, with the keys of RV(gpus[].nearest_infiniband).
      type: dict
    nearest_nvme:
      description: The nearest NVMe disk, with the keys of RV(gpus[].nearest_infiniband).
      type: dict
nvme:
  description: The NVMe controllers, by number.
  type: list
  elements: dict
  returned: success
  contains:
    name:
      description: Name of the controller, such as V(nvme0).
      type: str
    model:
      description: Its model.
      type: str
    serial:
      description: Its serial number.
      type: str
    firmware:
      description: Version of its firmware.
      type: str
    transport:
      description: V(pcie), V(tcp), V(rdma), V(fc) or V(loop).
      type: str
    state:
      description: The kernel's state of it, V(live) when it works.
      type: str
    namespaces:
      description: Its block devices.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the block device, such as V(nvme0n1), also under multi-path.
          type: str
        size_bytes:
          description: Size in bytes.
          type: int
        logical_block_bytes:
          description: Size of a logical block in bytes.
          type: int
        identifier:
          description: The kernel's name for it that stays over reboots (wwid).
          type: str
    pci_address:
      description: As RV(gpus[].pci_address).
      type: str
    pcie_path:
      description: As RV(gpus[].pcie_path).
      type: list
      elements: str
    numa_node:
      description: As RV(gpus[].numa_node).
      type: int
    numa_source:
      description: As RV(gpus[].numa_source).
      type: str
    numa_reason:
      description: As RV(gpus[].numa_reason).
      type: str
    virtual_function:
      description: As RV(gpus[].virtual_function).
      type: bool
    nearest_gpu:
      description: The nearest GPU by its PCI address, with the keys of RV(gpus[].nearest_infiniband).
      type: dict
    nearest_infiniband:
      description: The nearest InfiniBand device, with the keys of RV(gpus[].nearest_infiniband).
      type: dict
nvswitches:
  description: PCI addresses of NVSwitches.
  type: list
  elements: str
  returned: success
gpu_numa:
  description: The NUMA node of each GPU in NVML's order, or in that of RV(gpus) where NVML does not number all of them.
  type: list
  elements: int
  returned: success
  sample: [1, 1, 0, 0, 3, 3, 2, 2]
gpus_reason:
  description: Why NVML's side of RV(gpus) is missing (no driver, no library, not asked), or V(null).
  type: str
  returned: success
notes:
  description: What a person should know about this machine, a sentence each.
  type: list
  elements: str
  returned: success
"""

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

SPEC = {
    "gpus": {"type": "bool"},
    "call_timeout": {"type": "float", "default": 10},
    "root": {"type": "path", "default": "/"},
}


def main():
    node_command.main("topology_info", SPEC)


if __name__ == "__main__":
    main()
