# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/metrics.md has every metric that a node tells."""

from __future__ import annotations

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[4]
PAGE = (ROOT / "docs/metrics.md").read_text()


def names(path, prefix):
    """The first argument of each call of ``add`` that is a text, or a text behind ``_PREFIX``."""
    for call in ast.walk(ast.parse((ROOT / "plugins/module_utils" / path).read_text())):
        if (
            isinstance(call, ast.Call)
            and call.args
            and getattr(call.func, "attr", getattr(call.func, "id", "")) == "add"
        ):
            first = call.args[0]
            if isinstance(first, ast.Constant):
                yield "gpu_node_" + first.value
            elif isinstance(first, ast.BinOp) and isinstance(first.right, ast.Constant):
                yield "gpu_node_" + prefix + first.right.value


@pytest.mark.parametrize(
    ("path", "prefix", "least"),
    [("health/formats/prometheus.py", "", 9), ("health/events/metrics.py", "cloud_event", 5)],
)
def test_what_is_told_of_health_and_events_is_on_the_page(path, prefix, least):
    found = set(names(path, prefix))
    assert len(found) >= least
    assert {name for name in found if "| `{0}` |".format(name) not in PAGE} == set()


def test_units_are_in_the_names():
    for line in PAGE.splitlines():
        match = re.match(r"\| `(gpu_node_\w+)` \| (\w+) \| (\S*) ", line)
        if match and match.group(2) == "counter":
            assert match.group(1).endswith("_total")
