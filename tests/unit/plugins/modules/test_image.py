# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules image and image_facts as Ansible runs them."""

from __future__ import annotations

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.modules import image_facts as module
from ansible_collections.trainyard.gpu_node.tests.unit.data.image import images
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.test_topology_info import check


@pytest.mark.parametrize("name", ["azure_hpc", "bare_debian"])
def test_all_that_is_returned_is_documented(tmp_path, name):
    root = images.IMAGES[name](tmp_path)
    root.link("/usr/local/cuda-11.8", "/opt/cuda-11.8")
    result = run_module("image_facts", {"root": str(root.path)})
    assert not result["changed"] and [one["rule"] for one in result["problems"]] == ["broken_link"]
    for extra in ("changed", "invocation", "warnings", "deprecations"):
        result.pop(extra, None)
    documented = yaml.safe_load(module.RETURN)
    assert set(result) == set(documented)
    check(documented, result, "")


def test_a_root_that_is_none_is_an_error():
    result = run_module("image_facts", {"root": "/nowhere"})
    assert result["failed"] and result["msg"] == "root /nowhere: there is no such folder; give the top of an image."


@pytest.mark.parametrize("check_mode", [False, True])
def test_an_image_that_is_not_as_required_fails_and_changes_nothing(tmp_path, check_mode):
    root = images.azure_hpc(tmp_path / "root")
    before = {str(path) for path in root.path.rglob("*")}
    given = {"state": "present", "require": {"driver": ">=550"}, "fail_on": "never"}
    result = run_module("image", given, node=root.path, check=check_mode)
    assert result["failed"] and "image_require requires >=550, and this is 535.161.08" in result["msg"]
    after = {str(path) for path in root.path.rglob("*")}
    assert {one for one in after - before if "/run" not in one} == set()
    result = run_module("image", dict(given, require={"driver": ">=535"}), node=root.path, check=check_mode)
    assert not result["changed"] and result["versions"]["driver"] == "535.161.08"
