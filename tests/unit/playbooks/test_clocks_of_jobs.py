# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hooks of Slurm are set up before the clocks are chosen, as gpu_settings looks for hooks that raise them for jobs."""

from __future__ import annotations

import os

import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import registry

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3)


def test_the_hooks_are_looked_at_before_the_clocks_are_chosen():
    with open(os.path.join(ROOT, "playbooks", "tasks", "converge.yml"), encoding="utf-8") as stream:
        block = yaml.safe_load(stream)[0]["block"]
    roles = {task.get("ansible.builtin.import_role", {}).get("name", ""): task for task in block}
    order = [name.rpartition(".")[2] for name in roles]
    assert order.index("slurm_hooks") < order.index("gpu_settings")


def test_so_does_a_node_by_itself():
    assert registry.NAMES.index("slurm_hooks") < registry.NAMES.index("gpu_settings")
