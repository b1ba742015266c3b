#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's settings and topology file on this node, and what the system must allow its processes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl
short_description: Configure NCCL, its topology file, limits and kernel settings of a GPU node
description:
  - Writes C(/etc/nccl.conf), and a topology file that is made from this machine's own PCI bus and NUMA nodes where that tells NCCL
    something which it cannot read in sysfs. NCCL is better off without a file everywhere else, and so it gets none.
  - A topology or graph file of the site is used only when it fits this machine, GPU by GPU and NIC by NIC. One for a machine of
    full size makes a smaller one slow, so it stops the run.
  - Also writes what NCCL, UCX and CUDA need around them, each in a file of its own that can be switched off. These are variables for
    logins, limits for logins and for slurmd, settings of the kernel, and the module nvidia-peermem.
  - Settings of the kernel are set at once. Of services, slurmd alone is restarted, for its limits and while no job runs (O(restart)).
  - Each file is a whole file of ours. A file in its place that is not ours stops the run; see O(replace_foreign) for C(/etc/nccl.conf).
  - On a node without GPUs there is no topology file; all the rest is the same.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
options:
  state:
    description: V(present) writes the files. V(absent) removes those that were written here, puts back the
      C(/etc/nccl.conf) that was kept aside, and restores the kernel settings.
    type: str
    choices: [present, absent]
    default: present
  settings:
    description:
      - Lines of C(/etc/nccl.conf), names and values. The names begin with C(NCCL_). A boolean becomes 1 or 0.
      - C(NCCL_TOPO_FILE) is not given here but by O(topology), and that of a profile is left out. The file of
        C(NCCL_GRAPH_FILE) must fit the number of GPUs.
      - By default what the profile of the machine says (C(nccl.settings)).
    type: dict
  extra:
    description: Further lines of C(/etc/nccl.conf), as they are in the file, C(NAME=VALUE) or a comment.
    type: list
    elements: str
    default: []
  replace_foreign:
    description: Rename a C(/etc/nccl.conf) that is not ours to C(/etc/nccl.conf.before_gpu_node), and write ours in its
      place. O(state=absent) puts it back. Otherwise such a file stops the node.
    type: bool
    default: false
  topology:
    description:
      - V(auto) makes a topology file where it tells NCCL something that sysfs does not.
      - V(generate) makes one on every machine with a GPU, V(none) on none.
      - The path of a file on the node makes NCCL read that one, if it fits this machine.
    type: str
    default: auto
  switches:
    description:
      - Which PCIe switches the machine has but does not show. Virtual machines show each device on a bus of its own,
        and NCCL then takes no GPU to be near to any NIC and does not use GPUDirect RDMA between them.
      - V(pair) is one switch for each GPU and its NIC, in the order of PCI addresses. A NUMA node that has not as many
        GPUs as NICs gets none.
      - V(numa_node) is one switch for all GPUs and NICs of a NUMA node.
      - V(none) claims nothing. Switches that the machine does show are in the file as they are.
      - By default what the profile of the machine says (C(nccl.switches)), otherwise V(none).
    type: str
    choices: [none, pair, numa_node]
  link_speed:
    description:
      - Speed of a PCIe lane in GT/s, for devices of which sysfs does not tell it, such as V(16.0) for generation 4.
        Their width is then 16 lanes.
      - Empty leaves it to NCCL, which takes generation 3 where nothing tells it better.
      - By default what the profile of the machine says (C(nccl.link_speed)).
    type: str
  environment:
    description:
      - Variables for logins, in C(/etc/profile.d). For what must be set before a program opens CUDA or UCX, and for
        what other programs read. A variable that is set already stays as it is. Empty for no file.
      - By default C(CUDA_DEVICE_ORDER=PCI_BUS_ID), which numbers GPUs as NVML does, and
        C(UCX_IB_PCI_RELAXED_ORDERING=on) where the settings that are used have C(NCCL_IB_PCI_RELAXED_ORDERING) 1.
    type: dict
  limits:
    description:
      - Limits for logins, in C(/etc/security/limits.d), as limits.conf(5) has them. Known are C(memlock), C(nofile),
        C(stack), C(nproc) and C(core). Empty for no files.
      - C(nofile) may be 1048576 at most. Beyond that nobody could log in.
    type: dict
    default: {memlock: unlimited, nofile: '1048576', stack: unlimited}
  slurmd_limits:
    description: Give slurmd O(limits) too, as a drop-in of its unit; steps of jobs inherit them from it. Only where
      slurmd is installed.
    type: bool
    default: true
  restart:
    description: Restart slurmd when it has yet to get O(limits) and no job runs on the node. Otherwise that is only
      reported.
    type: bool
    default: true
  sysctl:
    description:
      - Kernel settings, in C(/etc/sysctl.d), and set at once. Values that they had before are remembered. Empty for
        none.
      - A setting that this kernel does not have (its module is not loaded) is written and not applied.
      - Limits, such as table sizes, are minima. An existing larger value stays, and a note names the file that sets it.
    type: dict
    default:
      vm.zone_reclaim_mode: '1'
      net.ipv4.neigh.default.gc_thresh1: '4096'
      net.ipv4.neigh.default.gc_thresh2: '8192'
      net.ipv4.neigh.default.gc_thresh3: '16384'
      sunrpc.tcp_max_slot_table_entries: '128'
  peermem:
    description: Load C(nvidia_peermem) at boot, where the machine has GPUs and NICs and the kernel has the module.
      Without it NCCL uses DMA-BUF.
    type: bool
    default: true
attributes:
  check_mode:
    support: full
    description: Tells what would be done; changes nothing.
  diff_mode:
    support: full
    description: Shows the files and the settings of the kernel before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
"""

EXAMPLES = r"""
- name: ND96asr_v4, whose two GPUs and two NICs of each NUMA node share a switch that the virtual machine does not show
  trainyard.gpu_node.nccl:
    settings:
      NCCL_IB_PCI_RELAXED_ORDERING: 1
      NCCL_IGNORE_CPU_AFFINITY: 1
    switches: numa_node
    link_speed: "16.0"
    environment:
      CUDA_DEVICE_ORDER: PCI_BUS_ID
    limits:
      memlock: unlimited
    sysctl:
      vm.zone_reclaim_mode: 1
    replace_foreign: true

- name: A topology file of the site, which must fit the machine
  trainyard.gpu_node.nccl:
    topology: /opt/site/topology.xml

- name: As it was before
  trainyard.gpu_node.nccl:
    state: absent
"""

RETURN = r"""
actions:
  description: The steps that were taken, or in check mode would be taken.
  type: list
  elements: dict
  returned: success
notes:
  description: Facts for the reader, such as a restart of slurmd that is pending.
  type: list
  elements: str
  returned: success
skipped_reason:
  description: Why there is nothing to manage here; always V(null).
  type: str
  returned: success
topology_file:
  description: The topology file that C(/etc/nccl.conf) names, or V(null).
  type: str
  returned: success
  sample: /etc/gpu_node/nccl_topology.xml
topology_reasons:
  description: What a topology file of ours tells NCCL that sysfs does not. Empty where none is needed.
  type: list
  elements: str
  returned: success
libraries:
  description: Each libnccl in the usual folders. It is read, not loaded.
  type: list
  elements: dict
  returned: success
  contains:
    path:
      description: Where it is.
      type: str
    version:
      description: Its version, or V(null).
      type: str
      sample: 2.28.9
plugins:
  description: Plugins of NCCL in the usual folders, by their files.
  type: list
  elements: str
  returned: success
  sample: [/usr/local/nccl-rdma-sharp-plugins/lib/libnccl-net.so]
peermem:
  description: What is with the kernel's module nvidia-peermem, V(loaded), V(installed) or V(missing).
  type: str
  returned: success
restart_pending:
  description: Whether slurmd runs with other limits than it would after a restart.
  type: bool
  returned: success
"""

import json

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

# Generated by "make docs" from the options of the resource nccl (options.py); change them there.
SPEC = json.loads(r"""
{"state": {"type": "str", "choices": ["present", "absent"], "default": "present"}, "settings": {"type": "dict"},
"extra": {"type": "list", "elements": "str", "default": []}, "replace_foreign": {"type": "bool",
"default": false}, "topology": {"type": "str", "default": "auto"}, "switches": {"type": "str", "choices": ["none",
"pair", "numa_node"]}, "link_speed": {"type": "str"}, "environment": {"type": "dict"}, "limits": {"type": "dict",
"default": {"memlock": "unlimited", "nofile": "1048576", "stack": "unlimited"}}, "slurmd_limits": {"type": "bool",
"default": true}, "restart": {"type": "bool", "default": true}, "sysctl": {"type": "dict",
"default": {"vm.zone_reclaim_mode": "1", "net.ipv4.neigh.default.gc_thresh1": "4096",
"net.ipv4.neigh.default.gc_thresh2": "8192", "net.ipv4.neigh.default.gc_thresh3": "16384",
"sunrpc.tcp_max_slot_table_entries": "128"}}, "peermem": {"type": "bool", "default": true}}
""")


def main():
    node_command.main("nccl", SPEC)


if __name__ == "__main__":
    main()
