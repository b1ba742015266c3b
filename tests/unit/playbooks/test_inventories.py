# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example inventories leave alone what the profile of a machine decides."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / "inventories").glob("*/group_vars/**/*.yml"))


def decided_by_the_profile() -> set[str]:
    """The variables of the roles whose default is taken from the profile that was detected."""
    found = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / "roles").glob("*/defaults/main.yml")]
    return {name for one in found for name, value in one.items() if "gpu_node_profile" in str(value)}


def test_there_is_something_to_look_at() -> None:
    assert {"nvme_scratch_models", "nvme_scratch_count", "rdma_expected_ports"} <= decided_by_the_profile()
    assert ROOT / "inventories/generic/group_vars/gpu_nodes/main.yml" in FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT / "inventories").parts[0])
def test_no_inventory_overrides_a_detected_profile(path: Path) -> None:
    given = set(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    assert given & decided_by_the_profile() == set()
