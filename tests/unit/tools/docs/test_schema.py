# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON schema of the declaration says what the node command says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import wish

SCHEMA = json.loads((Path(__file__).resolve().parents[4] / "docs" / "declaration.schema.json").read_text("utf-8"))


def test_there_is_a_section_for_each_resource() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert list(SCHEMA["properties"]) == [*wish.TEXTS, *registry.NAMES, wish.HEALTH]


@pytest.mark.parametrize(
    "declaration",
    [
        {},
        {name: {} for name in (*registry.NAMES, wish.HEALTH)},
        {"$comment": "of rack 7", "nccl": {}},
        {"$schema": "docs/declaration.schema.json", "nccl": {}},
        {"rdma": {"state": "absent", "expected_ports": 8, "rate_gbps": 400}, "health": {"without": ["gpu_*"]}},
    ],
)
def test_what_the_schema_takes_the_node_takes(declaration: Any) -> None:
    jsonschema.validate(declaration, SCHEMA)
    wish.desired(wish.checked(declaration, "it"), {})


@pytest.mark.parametrize(
    "declaration",
    [
        {"rdna": {}},
        {"$comment": {}},
        {"$schema": 1},
        {"rdma": {"colour": 1}},
        {"rdma": {"expected_ports": 2000}},
        {"rdma": {"expected_ports": "eight"}},
        {"rdma": {"names": "mine"}},
        {"rdma": {"state": "gone"}},
        {"health": {"without": "gpu_*"}},
    ],
)
def test_what_the_schema_refuses_the_node_refuses(declaration: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(declaration, SCHEMA)
    with pytest.raises(NodeError):
        wish.desired(wish.checked(declaration, "it"), {})
