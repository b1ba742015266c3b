# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Ansible sends with a module: the library lies on the node."""

from __future__ import annotations

import functools
import json
import subprocess
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command.module import NAMES

# In a process of its own, as Ansible's loader of plugins is made once.
SIZES = """
import json, sys
from ansible.executor.module_common import modify_module
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader, module_loader
from ansible.template import Templar

init_plugin_loader([path for path in sys.path if path])
variables = {"ansible_python_interpreter": "/usr/bin/python3"}

def size(name):
    path = module_loader.find_plugin_with_context(name).plugin_resolved_path
    made = modify_module(module_name=name, module_path=path, module_args={}, templar=Templar(DataLoader()),
                         task_vars=variables, module_compression="ZIP_DEFLATED")
    return len(made.b_module_data)

empty = size("ansible.builtin.ping")
print(json.dumps({name: size("trainyard.gpu_node." + name) - empty for name in sys.argv[1:]}))
"""
OTHERS = ("kubernetes_node", "slurm_node", "slurm_sweep")


@functools.lru_cache(maxsize=None)
def sizes():
    done = subprocess.run(
        [sys.executable, "-c", SIZES, *NAMES, *OTHERS], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_a_module_of_the_node_command_is_small(name):
    assert sizes()[name] <= 20 * 1024


@pytest.mark.parametrize("name", OTHERS)
def test_a_module_that_needs_no_node_command_carries_its_own_part_alone(name):
    # slurm_node finds the Slurm name of its node, and takes no program from a file that another user can write to.
    # It has the one parser of nodes and jobs, which the node command has too.
    assert sizes()[name] <= 130 * 1024
