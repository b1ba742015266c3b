# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example inventories leave alone what the profile of a machine decides."""

from __future__ import annotations

import re
from pathlib import Path

import jinja2
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
PROFILES = ROOT / "roles" / "node_profile" / "files" / "profiles"
FILES = sorted((ROOT / "inventories").glob("*/group_vars/**/*.yml"))


def decided_by_the_profile() -> set[str]:
    """The variables of the roles whose default is taken from the profile that was detected."""
    found = [
        yaml.safe_load(path.read_text(encoding="utf-8")) or {} for path in (ROOT / "roles").glob("*/defaults/main.yml")
    ]
    decided = {name for one in found for name, value in one.items() if "gpu_node_profile" in str(value)}
    for path in (ROOT / "roles").glob("*/meta/argument_specs.yml"):
        options = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]["main"].get("options", {})
        decided |= {
            name for name, one in options.items() if "what the profile of the machine says" in str(one["description"])
        }
    return decided


def test_there_is_something_to_look_at() -> None:
    assert {"nvme_scratch_models", "nvme_scratch_count", "rdma_expected_ports"} <= decided_by_the_profile()
    assert ROOT / "inventories/generic/group_vars/gpu_nodes/main.yml" in FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT / "inventories").parts[0])
def test_no_inventory_overrides_a_detected_profile(path: Path) -> None:
    given = set(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    assert given & decided_by_the_profile() == set()


def test_the_azure_inventory_takes_every_size_that_a_profile_is_for() -> None:
    environment = jinja2.Environment()
    environment.tests["search"] = lambda value, pattern: re.search(pattern, value) is not None
    inventory = yaml.safe_load((ROOT / "inventories/azure_rm/gpu.azure_rm.yml").read_text(encoding="utf-8"))
    chosen = environment.compile_expression(inventory["conditional_groups"]["gpu_nodes"])
    profiles = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in PROFILES.glob("n*.yml")]
    sizes = {size for one in profiles for size in one["match"].get("vm_sizes", [])}
    assert len(sizes) > 10
    assert {size for size in sizes if not chosen(virtual_machine_size=size)} == set()
    assert not chosen(virtual_machine_size="Standard_NC4as_T4_v3") and not chosen(virtual_machine_size=None)
    assert chosen(virtual_machine_size="Standard_NC4as_T4_v3", tags={"gpu_node": ""})
