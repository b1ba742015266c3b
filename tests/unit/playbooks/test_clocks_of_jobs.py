# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gpu_settings_clocks is by itself: the driver's where Slurm's hooks raise the clocks for jobs."""

from __future__ import annotations

import os

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3)
REACHED = {"skipped_reason": None, "prolog_reached": True}


@pytest.mark.parametrize(
    "variables, clocks",
    [
        ({"__slurm_hooks_result": REACHED}, "default"),
        ({"__slurm_hooks_result": REACHED, "slurm_hooks_clocks": True, "slurm_hooks_state": "present"}, "default"),
        # A play without the role, a node without Slurm, a slurm.conf that names no such prolog or cannot be read.
        ({}, "max"),
        ({"__slurm_hooks_result": {"skipped": True}}, "max"),
        ({"__slurm_hooks_result": {"skipped_reason": "no slurmd", "prolog_reached": None}}, "max"),
        ({"__slurm_hooks_result": {"skipped_reason": None, "prolog_reached": False}}, "max"),
        ({"__slurm_hooks_result": {"skipped_reason": None, "prolog_reached": None}}, "max"),
        # The site says that the hooks leave the clocks alone, or that they go.
        ({"__slurm_hooks_result": REACHED, "slurm_hooks_clocks": False}, "max"),
        ({"__slurm_hooks_result": REACHED, "slurm_hooks_clocks": "no"}, "max"),
        ({"__slurm_hooks_result": REACHED, "slurm_hooks_state": "absent"}, "max"),
    ],
)
def test_clocks_are_the_drivers_where_hooks_raise_them(variables, clocks):
    loader = DataLoader()
    defaults = loader.load_from_file(
        os.path.join(ROOT, "roles", "gpu_settings", "defaults", "main.yml"), trusted_as_template=True
    )
    assert Templar(loader, variables=variables).template(defaults["gpu_settings_clocks"]) == clocks


def test_the_hooks_are_looked_at_before_the_clocks_are_chosen():
    with open(os.path.join(ROOT, "playbooks", "tasks", "converge.yml"), encoding="utf-8") as stream:
        block = yaml.safe_load(stream)[0]["block"]
    roles = {task.get("ansible.builtin.import_role", {}).get("name", ""): task for task in block}
    order = [name.rpartition(".")[2] for name in roles]
    assert order.index("slurm_hooks") < order.index("gpu_settings")
    # A run with --tags gpu_settings must know of the hooks, or it would lock what the whole play does not.
    assert "gpu_settings" in roles["trainyard.gpu_node.slurm_hooks"]["tags"]
