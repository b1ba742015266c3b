#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's settings and topology file on this node, and what the system must allow its processes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_config
short_description: NCCL's settings, its topology file, limits and kernel settings of a GPU node
description:
  - Writes C(/etc/nccl.conf), and a topology file that is made from this machine's own PCI bus and NUMA nodes where that tells NCCL
    something which it cannot read in sysfs. NCCL is better off without a file everywhere else, and so it gets none.
  - A topology or graph file of the site is used only when it fits this machine, GPU by GPU and NIC by NIC. One for a machine of
    full size makes a smaller one slow, so it stops the run.
  - Also writes what NCCL, UCX and CUDA need around them, each in a file of its own that can be switched off. These are variables for
    logins, limits for logins and for slurmd, settings of the kernel, and the module nvidia-peermem.
  - Settings of the kernel are set at once. No service is restarted; when slurmd has yet to take its limits, a note says so.
  - Each file is a whole file of ours. A file in its place that is not ours stops the run; see O(replace_foreign) for C(/etc/nccl.conf).
  - On a node without GPUs there is no topology file; all the rest is the same.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
options:
  state:
    description:
      - Whether the files are there. V(absent) removes ours, puts back the C(/etc/nccl.conf) that was kept aside, and gives kernel
        settings back the values that they had.
    type: str
    choices: [present, absent]
    default: present
  settings:
    description:
      - Lines of C(/etc/nccl.conf), names and values. The names begin with C(NCCL_).
      - C(NCCL_TOPO_FILE) is not given here but by O(topology). The file of C(NCCL_GRAPH_FILE) must fit the number of GPUs.
    type: dict
    default: {}
  extra:
    description: Further lines of the site's, as they stand in the file, C(NAME=VALUE) or a comment.
    type: list
    elements: str
    default: []
  topology:
    description:
      - V(auto) makes a topology file where it tells NCCL something that sysfs does not.
      - V(generate) makes one on every machine with a GPU, V(none) on none.
      - The path of a file on the node makes NCCL read that one, if it fits this machine.
    type: str
    default: auto
  switches:
    description:
      - Which PCIe switches the machine has but does not show. Virtual machines show each device on a bus of its own, and NCCL then takes
        no GPU to be near to any NIC and does not use GPUDirect RDMA between them.
      - V(pair) is one switch for each GPU and its NIC, in the order of PCI addresses. A NUMA node that has not as many GPUs as NICs gets none.
      - V(numa_node) is one switch for all GPUs and NICs of a NUMA node.
      - V(none) claims nothing. Switches that the machine does show are in the file as they are.
    type: str
    choices: [none, pair, numa_node]
    default: none
  link_speed:
    description:
      - Speed of a PCIe lane in GT/s, for devices of which sysfs does not tell it, such as V(16.0) for generation 4. Their width is then 16 lanes.
      - Empty leaves it to NCCL, which takes generation 3 where nothing tells it better.
    type: str
    default: ""
  environment:
    description:
      - Variables for logins, in C(/etc/profile.d). For what must be set before a program opens CUDA or UCX, and for what other programs read.
      - A variable that is set already stays as it is.
    type: dict
    default: {}
  limits:
    description:
      - Limits for logins, in C(/etc/security/limits.d), as limits.conf(5) has them. Known are C(memlock), C(nofile), C(stack), C(nproc) and C(core).
      - C(nofile) may be 1048576 at most. Beyond that nobody could log in.
    type: dict
    default: {}
  slurmd_limits:
    description: Whether slurmd gets O(limits) too, as a drop-in of its unit. Steps of jobs inherit them from it. Only where slurmd is installed.
    type: bool
    default: true
  sysctl:
    description:
      - Settings of the kernel, in C(/etc/sysctl.d), and set at once. Values that they had before are remembered.
      - One that this kernel does not have (its module is not loaded) is written and not set.
    type: dict
    default: {}
  peermem:
    description:
      - Whether C(nvidia_peermem) is loaded at boot, where the machine has GPUs and NICs and the kernel has the module. Without it NCCL uses DMA-BUF.
    type: bool
    default: true
  replace_foreign:
    description:
      - Whether a C(/etc/nccl.conf) that is not ours makes room for ours. It is kept as C(/etc/nccl.conf.before_gpu_node) and comes back
        with O(state=absent).
    type: bool
    default: false
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
  - trainyard.gpu_node.attributes
"""

EXAMPLES = r"""
- name: ND96asr_v4, whose two GPUs and two NICs of each NUMA node share a switch that the virtual machine does not show
  trainyard.gpu_node.nccl_config:
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
  trainyard.gpu_node.nccl_config:
    topology: /opt/site/topology.xml

- name: As it was before
  trainyard.gpu_node.nccl_config:
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
slurmd_restart_pending:
  description: Whether slurmd runs with other limits than it would after a restart.
  type: bool
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import nccl

ARGUMENTS = {
    "argument_spec": {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "settings": {"type": "dict", "default": {}},
        "extra": {"type": "list", "elements": "str", "default": []},
        "topology": {"type": "str", "default": "auto"},
        "switches": {"type": "str", "choices": ["none", "pair", "numa_node"], "default": "none"},
        "link_speed": {"type": "str", "default": ""},
        "environment": {"type": "dict", "default": {}},
        "limits": {"type": "dict", "default": {}},
        "slurmd_limits": {"type": "bool", "default": True},
        "sysctl": {"type": "dict", "default": {}},
        "peermem": {"type": "bool", "default": True},
        "replace_foreign": {"type": "bool", "default": False},
    },
}


def desired_of(given):
    return nccl.Desired(
        present=given["state"] == "present",
        settings=nccl.words("settings", given["settings"]),
        extra=tuple(given["extra"]),
        topology=given["topology"],
        switches=given["switches"],
        link_speed=given["link_speed"],
        environment=nccl.words("environment", given["environment"]),
        limits=nccl.words("limits", given["limits"]),
        slurmd_limits=given["slurmd_limits"],
        sysctl=nccl.words("sysctl", given["sysctl"]),
        peermem=given["peermem"],
        replace_foreign=given["replace_foreign"],
    )


def main():
    module = AnsibleModule(supports_check_mode=True, **ARGUMENTS)
    try:
        desired = desired_of(module.params)
        outcome = nccl.run(Host(), desired, module.check_mode)
    except NodeError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=outcome.changed,
        actions=[action.to_dict() for action in outcome.plan.actions],
        notes=list(outcome.plan.notes),
        diff={
            "before": nccl.text(outcome, planned=False),
            "after": nccl.text(outcome, planned=True),
            "before_header": "NCCL's files",
            "after_header": "NCCL's files",
        },
        **nccl.facts(outcome, desired),
    )


if __name__ == "__main__":
    main()
