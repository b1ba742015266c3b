#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The InfiniBand and RoCE ports of this node, and the names of their devices."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma
short_description: Compare InfiniBand and RoCE ports with what is expected, and keep device names stable
description:
  - Reads every RDMA port from sysfs - state, rate, link layer, LID and GID - and its device's firmware, board, NUMA node, PCI
    address and network interfaces. Needs no tool such as ibstat.
  - Compares the ports with what is expected. A difference is a note, or with O(strict) a failure.
  - Can give each device a fixed name by its PCI address, with a rules file that udev reads in place of rdma-core's own. Names
    change at the next boot; no device is renamed under a running job.
  - Leaves IP over InfiniBand as it is unless O(ipoib=off). No module is unloaded.
  - A node without an RDMA device is skipped.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
requirements:
  - rdma-core 34 or newer, for O(names=ordered)
options:
  state:
    description: V(absent) removes the files that were written here.
    type: str
    choices: [present, absent]
    default: present
  expected_ports:
    description:
      - How many ports there must be. Where nothing says it, their number and state are not compared.
      - By default what the profile of the machine says (C(infiniband.count)).
      - From 0 to 1024.
    type: int
  rate_gbps:
    description:
      - The rate of each port in Gb/s. Where nothing says it, it is not compared.
      - By default what the profile of the machine says (C(infiniband.rate_gigabits_per_second)).
      - From 0.1 to 100000 Gb/s.
    type: float
  link_layer:
    description:
      - Which ports count.
      - V(auto) counts those of InfiniBand where there are some, otherwise all. Virtual functions never count.
    type: str
    choices: [auto, infiniband, ethernet]
    default: auto
  strict:
    description: Whether a difference is a failure. Nothing is written then.
    type: bool
    default: false
  names:
    description:
      - V(leave) leaves naming to the system.
      - V(ordered) gives O(infiniband_prefix) or O(ethernet_prefix) and a number to each card, in the order of PCI
        addresses. A card keeps its name while another one is missing. On an image whose service
        azure_persistent_rdma_naming does this already, it is left to that.
      - V(pci) names by PCI location (C(ibp1s0)), V(kernel) keeps the names of the kernel (C(mlx5_0)).
      - By default what the profile of the machine says (C(infiniband.names)), otherwise V(leave).
    type: str
    choices: [leave, ordered, pci, kernel]
  infiniband_prefix:
    description: What the names of InfiniBand devices begin with, for O(names=ordered).
    type: str
    default: mlx5_ib
  ethernet_prefix:
    description: What the names of RoCE devices begin with, for O(names=ordered).
    type: str
    default: mlx5_an
  ipoib:
    description:
      - V(off) keeps the module ib_ipoib from being loaded, from the next boot on. Write it in quotes, for YAML takes
        the bare word as a boolean.
      - V(leave) leaves it to the system.
    type: str
    choices: [leave, 'off']
    default: leave
attributes:
  check_mode:
    support: full
    description: Tells what would be done; changes nothing.
  diff_mode:
    support: full
    description: Shows the files before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
"""

EXAMPLES = r"""
- name: Look at the ports
  trainyard.gpu_node.rdma:
  register: network

- name: Fail on a node that lacks a port or has a slow one
  trainyard.gpu_node.rdma:
    expected_ports: 8
    rate_gbps: 200
    strict: true

- name: Names that stay, mlx5_ib0 to mlx5_ib7, and no IP over InfiniBand
  trainyard.gpu_node.rdma:
    expected_ports: 8
    names: ordered
    ipoib: 'off'

- name: As it was before
  trainyard.gpu_node.rdma:
    state: absent
"""

RETURN = r"""
actions:
  description: The steps that were taken, or in check mode would be taken.
  type: list
  elements: dict
  returned: success
notes:
  description: Facts for the reader, such as a port that is down or a name that changes at the next boot.
  type: list
  elements: str
  returned: success
skipped_reason:
  description: Why there is nothing to manage here, or V(null).
  type: str
  returned: success
devices:
  description: The RDMA devices, in the order of their PCI addresses.
  type: list
  elements: dict
  returned: success
  contains:
    name:
      description: Name of the device.
      type: str
      sample: mlx5_ib0
    pci_address:
      description: Its PCI address, or V(null) for a soft one.
      type: str
    numa_node:
      description: The NUMA node that it hangs on, or V(null).
      type: int
    netdevs:
      description: Its network interfaces.
      type: list
      elements: str
    firmware:
      description: Version of its firmware.
      type: str
    board_id:
      description: What type of card it is, as its maker numbers them, or V(null).
      type: str
    node_guid:
      description: Its GUID.
      type: str
    virtual_function:
      description: Whether it is an SR-IOV virtual function of a device of this machine.
      type: bool
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
        lid:
          description: Its LID, or V(null) when no subnet manager gave one.
          type: int
        gid:
          description: The first entry of its GID table, or V(null) when that is empty.
          type: str
ports_counted:
  description: How many ports counted, by O(link_layer).
  type: int
  returned: success
differences:
  description: How the ports differ from what is expected, a sentence each.
  type: list
  elements: str
  returned: success
names:
  description: The name that the rules give to each PCI address. Empty unless they are written with O(names=ordered).
  type: dict
  returned: success
  sample: {"0101:00:00.0": mlx5_ib0}
reboot_pending:
  description: Whether names of devices or the unloading of ib_ipoib wait for the next boot.
  type: bool
  returned: success
ipoib_loaded:
  description: Whether the module ib_ipoib is loaded.
  type: bool
  returned: success
relaxed_ordering:
  description:
    - What NCCL and UCX are told about relaxed ordering of PCI writes. The card's own configuration is not touched.
  type: list
  elements: dict
  returned: success
  contains:
    name:
      description: Name of the variable.
      type: str
      sample: NCCL_IB_PCI_RELAXED_ORDERING
    value:
      description: Its value, or V(null) where no file sets it and the library chooses by itself.
      type: str
    file:
      description: The file that sets it, or V(null).
      type: str
"""

import json

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

# Generated by "make docs" from the options of the resource rdma (options.py); change them there.
SPEC = json.loads(r"""
{"state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
"expected_ports": {"type": "int"}, "rate_gbps": {"type": "float"}, "link_layer": {"type": "str",
"choices": ["auto", "infiniband", "ethernet"], "default": "auto"}, "strict": {"type": "bool", "default": false},
"names": {"type": "str", "choices": ["leave", "ordered", "pci", "kernel"]}, "infiniband_prefix": {"type": "str",
"default": "mlx5_ib"}, "ethernet_prefix": {"type": "str", "default": "mlx5_an"}, "ipoib": {"type": "str",
"choices": ["leave", "off"], "default": "leave"}}
""")


def main():
    node_command.main("rdma", SPEC)


if __name__ == "__main__":
    main()
