# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of a Slurm cluster as an inventory."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_nodes
short_description: List the nodes of a Slurm cluster as an inventory
description:
  - Asks C(scontrol) for all nodes, once - on this machine, or on another one through O(command) - or reads an answer that was saved.
  - Each node is a host, with groups for its partitions, features, generic resources and states, and with variables that begin with
    C(slurm_node_). Nodes with GPUs are in the group O(gpu_group), which the plays of this collection take by default. A node that no
    machine is behind, such as one that Slurm powered down, is in the inventory and not in that group.
  - The file's name ends with C(slurm_nodes.yml) or C(slurm_nodes.yaml).
  - An answer that is not whole, a controller that does not answer and a name that is no host name end with one sentence and no hosts at
    all. Ansible goes on with an empty inventory then, unless O(ignore:any_unparsed_is_failed) is set in the section C([inventory]) of
    ansible.cfg.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
extends_documentation_fragment:
  - constructed
  - inventory_cache
options:
  plugin:
    description: Names this plugin.
    type: str
    required: true
    choices: [trainyard.gpu_node.slurm_nodes, slurm_nodes]
  command:
    description:
      - Words in front of C(scontrol), where this machine has no Slurm. V([ssh, login01]) runs it on a login node.
      - It gets no terminal. For ssh, a key without a password or an agent is needed.
    type: list
    elements: str
    default: []
  allow_loopback:
    description:
      - With O(command), take nodes whose name or address is loopback, such as V(localhost) or V(127.0.0.1), which is this machine.
        Without it they are an error, for plays would converge this machine.
    type: bool
    default: false
  scontrol:
    description: The program, or its path where it is not found by its name.
    type: str
    default: scontrol
  file:
    description:
      - A saved answer instead, relative to the folder of the inventory file. C(scontrol --json show node) of Slurm 23.02 or later, or
        C(scontrol -a -o show node).
    type: path
  timeout:
    description: Seconds that the answer may take.
    type: float
    default: 60
  partitions:
    description: Take only nodes that are in one of these partitions.
    type: list
    elements: str
    default: []
  states:
    description: Take only nodes in one of these states, named as the groups name them.
    type: list
    elements: str
    default: []
  exclude_states:
    description: Take no node in one of these states.
    type: list
    elements: str
    default: []
  prefix:
    description: What the names of the groups begin with.
    type: str
    default: slurm_
  gpu_group:
    description: The group of nodes with GPUs that a machine is behind. Empty for none.
    type: str
    default: gpu_nodes
notes:
  - A node that never registered may have no generic resources in Slurm's answer, so it is not in O(gpu_group). O(groups) can put it
    there by a feature.
  - Up to Slurm 22.05 nodes that are powered down are told only with C(PrivateData=cloud) in slurm.conf.
seealso:
  - module: trainyard.gpu_node.slurm_node
"""

EXAMPLES = r"""
# slurm_nodes.yml - on a machine that has scontrol
plugin: trainyard.gpu_node.slurm_nodes

# From elsewhere; only nodes of one partition that are there
---
plugin: trainyard.gpu_node.slurm_nodes
command: [ssh, -o, BatchMode=yes, login01]
scontrol: /opt/slurm/bin/scontrol
partitions: [gpu]
exclude_states: [powered_down, powering_up, powering_down, future]

# Group variables by VM size, where slurm.conf gives it as a feature
---
plugin: trainyard.gpu_node.slurm_nodes
groups:
  azure_ndv4: "'ndv4' in slurm_node_features"
  gpu_nodes: "'ndv4' in slurm_node_features and 'powered_down' not in slurm_node_states"
keyed_groups:
  - key: slurm_node_version
    prefix: slurmd
"""

import os

from ansible.errors import AnsibleError, AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.utils.unsafe_proxy import wrap_var

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.slurm_nodes import grouping, source


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    NAME = "trainyard.gpu_node.slurm_nodes"

    def verify_file(self, path):
        return super().verify_file(path) and path.endswith(("slurm_nodes.yml", "slurm_nodes.yaml"))

    def parse(self, inventory, loader, path, cache=True):
        super().parse(inventory, loader, path, cache)
        given = self._read_config_data(path)
        try:
            # Ansible passes over what is no option: a misspelt filter would take all nodes.
            grouping.refuse_unknown(given, self.get_options())
            nodes = grouping.chosen(
                self._nodes(path, cache),
                self.get_option("partitions"),
                self.get_option("states"),
                self.get_option("exclude_states"),
            )
            if self.get_option("command") and not self.get_option("file") and not self.get_option("allow_loopback"):
                grouping.refuse_loopback(nodes)
        except NodeError as error:
            # With a cause, Ansible would tell its sentence once more, and what that came from.
            raise AnsibleParserError(str(error)) from None
        known = set(inventory.hosts)
        try:
            for node in nodes:
                self._add(node)
        except AnsibleError:
            # An expression that fails (strict) leaves no half inventory.
            for name in set(inventory.hosts) - known:
                inventory.remove_host(inventory.hosts[name])
            raise

    def _nodes(self, path, cache):
        """From the cache where that is on and has them, else from Slurm."""
        cached = self.get_option("cache")
        key = self.get_cache_key(path) if cached else None
        if cached and cache:
            try:
                return tuple(grouping.restored(one) for one in self._cache[key])
            except (KeyError, TypeError, ValueError):
                pass  # nothing is there, or it is too old, or of another version
        nodes = self._asked(path)
        if cached:
            self._cache[key] = [grouping.stored(node) for node in nodes]
        return nodes

    def _asked(self, path):
        file = self.get_option("file")
        if file:
            return source.from_file(os.path.join(os.path.dirname(os.path.abspath(path)), file))
        return source.from_slurm(self.get_option("command"), self.get_option("scontrol"), self.get_option("timeout"))

    def _add(self, node):
        self.inventory.add_host(node.name)
        for group in grouping.groups_of(node, self.get_option("prefix"), self.get_option("gpu_group")):
            self.inventory.add_group(group)
            self.inventory.add_child(group, node.name)
        # A reason is what somebody typed: it is never taken for a template.
        variables = {"slurm_node_" + key: wrap_var(value) for key, value in grouping.variables(node).items()}
        if node.address != node.name:
            variables["ansible_host"] = wrap_var(node.address)
        for key, value in variables.items():
            self.inventory.set_variable(node.name, key, value)
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), variables, node.name, strict)
        self._add_host_to_composed_groups(self.get_option("groups"), variables, node.name, strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, node.name, strict)
