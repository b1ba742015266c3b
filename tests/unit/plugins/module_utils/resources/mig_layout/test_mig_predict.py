# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What check mode shows of a layout: how it is and how it will be."""

from __future__ import annotations

import difflib
import pathlib
from typing import Any, Dict, List

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.run import result, run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.instances import Compute
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.place import Part
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.types import Gpu, State
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import mig_layout
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.test_mig_plan import (
    gpu,
    layout,
    three_g,
    wish,
)


def checked(root: pathlib.Path, there: Gpu, **given: Any) -> Dict[str, Any]:
    desired = wish(**dict({"boot_unit": False}, **given))
    seen = replaced(mig_layout.RESOURCE, observe=lambda *dummy: mig_layout.Found(State(gpus=(there,))))
    return result(run(Host(str(root)), seen, desired, True), seen, desired)


def changed(told: Dict[str, Any]) -> List[str]:
    before, after = (told["diff"][which].splitlines() for which in ("before", "after"))
    lines = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
    return [line[0] + line[1:].strip(" ,") for line in lines if line[0] in "+-"]


def test_instances_that_go_and_come(tmp_path: pathlib.Path) -> None:
    told = checked(tmp_path, gpu(instances=(three_g(0, 1), three_g(4, 2))), layouts=[layout("3g", "2g")])
    assert changed(told) == ['-"3g.20gb at 0"', '+"2g.10gb at 0"']
    assert [(one["gi"], one["start"]) for one in told["gpus"][0]["instances"]] == [(None, 0), (2, 4)]
    # Nothing to do: nothing is shown.
    assert not changed(checked(tmp_path, gpu(instances=(three_g(4),)), layouts=[layout("3g")]))


def test_compute_instances_that_go_and_come(tmp_path: pathlib.Path) -> None:
    divided = [{"gpus": ["all"], "instances": [{"profile": "3g", "compute": ["1c", "2c"]}]}]
    told = checked(tmp_path, gpu(instances=(three_g(4),)), layouts=divided)
    assert changed(told) == ['-"3g.20gb at 4"', '+"3g.20gb at 4, divided into 1c + 2c"']
    bare = replaced(three_g(4), compute=())
    told = checked(tmp_path, gpu(instances=(bare,)), layouts=[layout("3g")])
    assert changed(told) == ['-"3g.20gb at 4, divided into nothing"', '+"3g.20gb at 4"']
    other = replaced(three_g(4), compute=(Compute(0, 1), Compute(1, 1)))
    told = checked(tmp_path, gpu(instances=(other,)), layouts=[layout("3g")])
    assert changed(told) == ['-"3g.20gb at 4, divided into 1c + 1c"', '+"3g.20gb at 4"']


def test_the_mode_comes_at_once_or_with_a_reset(tmp_path: pathlib.Path) -> None:
    ask = [layout("7g")]
    at_once = checked(tmp_path, gpu(mode=False, resetless=True), layouts=ask)
    assert {'+"7g.40gb at 0"', '+"mig": true', '+"pending": true'} <= set(changed(at_once))
    assert not at_once["reboot_pending"]
    waits = checked(tmp_path, gpu(mode=False), layouts=ask)
    assert changed(waits) == ['-"pending": false', '+"pending": true'] and waits["reboot_pending"]
    # What such a GPU can be divided into is known when MIG is on.
    later = checked(tmp_path, gpu(mode=False, resetless=True, part=Part(())), layouts=ask)
    assert '+"mig": true' in changed(later) and later["gpus"][0]["instances"] == []
    off = checked(tmp_path, gpu(instances=(three_g(4),), resetless=True), layouts=[{"gpus": ["all"], "mig": False}])
    assert off["gpus"][0]["instances"] == [] and '+"mig": false' in changed(off)
