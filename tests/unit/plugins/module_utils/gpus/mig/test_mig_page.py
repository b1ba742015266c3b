# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The layouts that docs/mig.md shows can be had on a node of eight A100."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import options
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.plan import decide
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.types import (
    Gpu,
    MakeInstance,
    State,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.gpus import A100_40

PAGE = (Path(__file__).resolve().parents[6] / "docs" / "mig.md").read_text("utf-8")
EXAMPLES = [dedent(text) for text in re.findall(r"(?m)^    mig_layout_layouts:\n(?:     .*\n)+", PAGE)]
NODE = State(
    gpus=tuple(
        Gpu(
            number, "GPU-{0}".format(number), "000{0}:00:00.0".format(number + 1),
            mode=True, pending=True, resetless=False, part=A100_40,
        )
        for number in range(8)
    )
)  # fmt: skip


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_page_works(example: str) -> None:
    plan = decide(NODE, options.of(Desired, {"layouts": yaml.safe_load(example)["mig_layout_layouts"]}))
    assert plan.refusals == ()
    made = [action for action in plan.actions if isinstance(action, MakeInstance)]
    assert {action.uuid for action in made} and len(made) >= 6
