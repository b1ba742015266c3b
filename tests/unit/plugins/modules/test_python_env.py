# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module python_env as Ansible runs it, on a node that is a folder."""

from __future__ import annotations

import os

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.python_env import env_node
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module


@pytest.fixture(name="node")
def _node(tmp_path):
    root = tmp_path / "node"
    env_node.node(root)
    env_node.wheel(root / "wheels", "alpha")
    return root


def test_check_build_again_and_undo(node):
    (one,) = [{"name": "ds", "packages": ["alpha"], "python": env_node.PYTHON[0], "verify_imports": ["alpha"]}]
    given = {"folder": env_node.FOLDER, "environments": [one], "find_links": "/wheels", "user_folder": "/scratch/$USER"}
    planned = run_module("python_env", given, node, check=True)
    assert planned["changed"] and not os.listdir(str(node / "scratch"))
    assert planned["environments"][0]["built"] is False and "/scratch/envs/ds -> ds-" in planned["diff"]["after"]
    done = run_module("python_env", given, node)
    assert done["actions"] == planned["actions"] and done["environments"][0]["built"] is True
    assert done["environments"][0]["path"].startswith("/scratch/envs/ds-" + done["environments"][0]["sha256"][:12])
    assert not run_module("python_env", given, node)["changed"]
    assert run_module("python_env", {"state": "absent"}, node)["changed"]
    assert not os.path.exists(str(node / "scratch/envs")) and not os.path.exists(str(node / "etc/conda"))


def test_wrong_use_is_one_sentence(node):
    given = {"environments": [{"name": "ds", "lock": "alpha==1"}], "folder": "/scratch/envs"}
    failed = run_module("python_env", given, node)
    assert failed["failed"] and failed["msg"].startswith("environment ds, its lock: 'alpha==1' has no SHA-256, ")
    assert "Traceback" not in failed["msg"]
    failed = run_module(
        "python_env", {"environments": [{"name": "ds", "packages": ["a"], "variables": {"PATH": "x"}}]}, node
    )
    assert "option environments[0].variables: PATH='x' cannot be set here" in failed["msg"]
