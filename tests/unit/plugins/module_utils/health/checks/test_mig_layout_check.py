# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told of GPUs that are not divided as declared, of a state without NVML."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.types import Client, State
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import gpu_mig_layout as check
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Expected, Judgement
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.test_mig_plan import (
    gpu,
    layout,
    three_g,
)

FIRST, SECOND = "0000:00:00.0", "0001:00:00.0"


def judged(state: State, **section: Any) -> Judgement:
    evidence = Evidence(Host("/nonexistent"), {"mig_layout": section}, {})
    evidence.__dict__["mig"] = state
    return check.judge(check.look(evidence), Expected("", {}, evidence.declared, {}, {}, {}, 0.0))


def found(state: State, *layouts: Dict[str, Any]) -> List[Tuple[str, str, str]]:
    findings = judged(state, layouts=list(layouts)).findings
    return sorted((one.key, one.code, one.outcome.value) for one in findings)


def in_use() -> Any:
    """A GPU whose 3g somebody has."""
    return gpu(instances=(replaced(three_g(4), used=True),), clients=(Client(42, 1, 0, "train"),))


def test_a_gpu_that_is_refused_hides_no_other() -> None:
    state = State(gpus=(in_use(), gpu(1)))
    assert found(state, layout("7g")) == [(FIRST, "refused", "warn"), (SECOND, "missing", "fail")]
    (refused,) = [one for one in judged(state, layouts=[layout("7g")]).findings if one.code == "refused"]
    assert str(refused) == (
        "GPU 0 (0000:00:00.0): 3g.20gb at 4 in use would have to go or change for 7g.40gb; end process 42 (train), or"
        " ask for 4g.20gb + 3g.20gb."
    )
    # Each by itself, and what is there and was not declared, too.
    both = State(gpus=(in_use(), gpu(1, instances=(three_g(0, 1), three_g(4, 2)))))
    assert found(both, layout("7g", gpus=["0"]), layout("3g", gpus=["1"])) == [
        (FIRST, "refused", "warn"),
        (SECOND, "undeclared", "warn"),
    ]


def test_a_choice_of_no_gpu_hides_none_either() -> None:
    lacks = found(State(gpus=(gpu(),)), layout("3g", gpus=["0"]), layout("3g", gpus=["7"]))
    assert lacks == [("", "refused", "warn"), (FIRST, "missing", "fail")]


def test_another_owner_of_the_layouts_hides_nothing() -> None:
    state = State(gpus=(gpu(), gpu(1, instances=(three_g(4),))), manager=True)
    assert found(state, layout("3g")) == [("", "refused", "warn"), (FIRST, "missing", "fail")]


def test_a_gpu_that_cannot_be_divided_lacks_what_was_declared() -> None:
    assert found(State(gpus=(gpu(mode=None),)), layout("3g", gpus=["0"])) == [
        (FIRST, "missing", "fail"),
        (FIRST, "refused", "warn"),
    ]
    assert not found(State(gpus=(gpu(mode=None),)), {"gpus": ["0"], "mig": False})


def test_a_declaration_that_cannot_be_read_is_told() -> None:
    judgement = judged(State(gpus=(gpu(),)), layout=[])
    assert judgement.not_applicable is None
    assert [(one.code, one.outcome.value, one.action.value) for one in judgement.findings] == [
        ("declaration", "warn", "configure")
    ]
    told = str(judgement.findings[0])
    assert told.startswith("section mig_layout of /etc/gpu_node/node.json: it cannot be read, so nothing can be ")
    assert "(option layout: there is no such option; " in told
    assert told.endswith("; correct it or take it out, then run 'gpunode converge'.")
