# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module nvme_scratch as Ansible starts it: arguments in, one sentence out."""

from __future__ import annotations

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import described
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import Desired
from ansible_collections.trainyard.gpu_node.plugins.modules import nvme_scratch as module
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module


def run(uid=0, check=False, **arguments):
    return run_module("nvme_scratch", arguments, check=check, uid=uid)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"models": ["M"], "chunk_kib": 500}, "option chunk_kib: 500 is not a power of two"),
        ({"models": ["M"], "count": 0}, "option count: 0 is out of range"),
        ({"models": ["M"], "mount_point": "/"}, "belongs to the system"),
        ({"models": ["M"], "count": "many"}, "count"),
        ({"models": ["M"], "filesystem": "zfs"}, "filesystem"),
        ({"models": ["M"], "raid": 5}, "raid"),
    ],
)
def test_a_wrong_argument_is_one_clear_sentence_and_no_change(arguments, words):
    result = run(**arguments)
    assert result["failed"] and words in result["msg"] and "\n" not in result["msg"]
    assert not result.get("changed")


@pytest.mark.parametrize(("check", "words"), [(False, "only root may change it"), (True, "it needs root to look")])
def test_without_root_it_says_so_first(check, words):
    result = run(uid=1000, models=["M"], check=check)
    assert result["failed"] and result["msg"].startswith("nvme_scratch: " + words) and "become" in result["msg"]


def test_examples_use_options_that_exist():
    for task in yaml.safe_load(module.EXAMPLES):
        assert set(task["trainyard.gpu_node.nvme_scratch"]) <= set(described(Desired))
