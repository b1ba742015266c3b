# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host pattern that must match something."""

# Ansible wants the documentation before the imports.
# ruff: noqa: E402

from __future__ import annotations

DOCUMENTATION = r"""
name: required_hosts
short_description: Return a host pattern, and end the run where it matches no host
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
description:
  - For C(hosts) of a play. Ansible skips a play that matches no host, and a run that did nothing ends with status 0.
  - Counts the hosts as Ansible does, with C(--limit). C(--syntax-check) needs no inventory, so it counts none.
options:
  _terms:
    description: The patterns, each as in C(hosts).
    required: true
"""

EXAMPLES = r"""
- name: Check the GPU nodes
  hosts: "{{ lookup('trainyard.gpu_node.required_hosts', gpu_node_hosts | default('gpu_nodes')) }}"
  gather_facts: false
"""

RETURN = r"""
_raw:
  description: The patterns.
  type: list
  elements: str
"""

from ansible import context
from ansible.errors import AnsibleError, AnsibleLookupError
from ansible.inventory.manager import InventoryManager
from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):
    def run(self, terms, variables=None, **options):
        if context.CLIARGS.get("syntax"):
            return terms
        inventory = InventoryManager(self._loader, parse=False)
        for group, hosts in variables["groups"].items():
            inventory.add_group(group)
            for host in hosts:
                inventory.add_host(host, group=group)
        limit = variables.get("ansible_limit")
        for pattern in terms:
            if not _matches(inventory, pattern):
                raise AnsibleLookupError(_sentence(pattern, variables=variables))
            inventory.subset(limit)
            if not _matches(inventory, pattern):
                raise AnsibleLookupError(_sentence(pattern, limit))
            inventory.subset(None)
        return terms


def _matches(inventory, pattern):
    try:
        return bool(inventory.get_hosts(pattern))
    except AnsibleError:
        # A pattern such as group[3] beyond the last host.
        return False


def _sentence(pattern, limit=None, variables=None):
    if limit:
        return "hosts '{0}': --limit '{1}' leaves none of them; give a limit that names some of them.".format(
            pattern, limit
        )
    text = (
        "hosts '{0}': no host of the inventory ({1}) matches; give the inventory with -i, put the nodes into the "
        "group, or name others with -e gpu_node_hosts=PATTERN."
    )
    if pattern == (variables or {}).get("gpu_node_validate_from"):
        text = (
            "gpu_node_validate_from: no host of the inventory ({1}) is '{0}'; put it there, outside of "
            "the group of the nodes, or leave the variable out for the first of the nodes."
        )
    return text.format(pattern, ", ".join(context.CLIARGS.get("inventory") or []))
