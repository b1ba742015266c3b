# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role of a resource, as it is written from the description of its options."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Mapping

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import described, option, options, state
from ansible_collections.trainyard.gpu_node.tools.docs import options as docs

ROOT = Path(__file__).resolve().parents[4]
DOCUMENTED = {"short_description": "Write things", "description": ["Writes things."]}
LIMITS = {"limit_{0}".format(number): str(number) for number in range(12)}


@options
class Wish:
    present: bool = state("V(absent) takes it away.")
    kind: str = option("", "Which.", of_role="other_kind")
    settings: Mapping[str, Any] = option({}, "Names and values.", profile="thing.settings")
    limits: Mapping[str, Any] = option(LIMITS, "Names and values.")


def thing(of_cluster: bool) -> Any:
    return SimpleNamespace(name="thing", of_cluster=of_cluster, remote=False, needs_command=False)


@pytest.mark.parametrize("of_cluster", [False, True])
def test_the_role_hands_over_what_it_is_given(of_cluster: bool) -> None:
    known = described(Wish)
    (task,) = yaml.safe_load(docs.tasks(ROOT, thing(of_cluster), DOCUMENTED, known))
    arguments = task["trainyard.gpu_node.thing"]
    assert arguments["kind"] == "{{ thing_kind | default(other_kind | default(omit)) }}"
    assert arguments["settings"] == "{{ thing_settings | default(omit) }}"
    assert arguments["limits"] == "{{ thing_limits }}"
    assert task.get("when") == ("thing_node in ['', inventory_hostname]" if of_cluster else None)


@pytest.mark.parametrize("of_cluster", [False, True])
def test_defaults_and_specification_are_lines_that_fit_and_say_the_same(of_cluster: bool) -> None:
    known = described(Wish)
    texts = (
        docs.defaults(ROOT, thing(of_cluster), known),
        docs.specification(ROOT, thing(of_cluster), DOCUMENTED, known),
        docs.documentation(ROOT, known),
    )
    assert max(len(line) for text in texts for line in text.splitlines()) <= 120
    defaults = {"thing_state": "present", "thing_limits": LIMITS, **({"thing_node": ""} if of_cluster else {})}
    assert yaml.safe_load(texts[0]) == defaults
    specified = yaml.safe_load(texts[1])["argument_specs"]["main"]["options"]
    assert {name: one["default"] for name, one in specified.items() if "default" in one} == defaults
    assert yaml.safe_load(texts[2])["limits"]["default"] == LIMITS
    words = re.sub(r"\s+", " ", texts[2])
    assert "By default the role takes C(other_kind)." in words
    assert "says (C(thing.settings))." in words
