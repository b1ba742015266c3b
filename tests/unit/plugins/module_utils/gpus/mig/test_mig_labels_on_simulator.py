# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each label that nvidia-mig-parted ships, on simulated boards that it is for: check, real, check, real."""

from __future__ import annotations

import collections
import json
import pathlib
import subprocess
import sys
from typing import Any, Callable, Dict, List

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.parted_labels import (
    BOARDS,
    BY_BOARD,
    labels,
    settings,
)

DRIVER = pathlib.Path(__file__).with_name("drive_mig.py")
LABELS = labels()


def run(simulator: Any, jobs: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(DRIVER)],
        env=simulator.environment(),
        input=json.dumps(jobs),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    found: List[Dict[str, Any]] = json.loads(done.stdout)
    return found


def wanted(label: str, board: str) -> Dict[str, int]:
    """The instances that a label gives this board."""
    if label in BY_BOARD:
        return BY_BOARD[label].get(BOARDS[board][0], {})
    (spec,) = LABELS[label]
    return dict(spec.get("mig-devices") or {})


@pytest.mark.soak
def test_every_label_on_each_board_that_has_its_profiles(
    nvml_simulator: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    done: "collections.Counter[str]" = collections.Counter()
    for board in BOARDS:
        simulator = nvml_simulator("nd96isr_h200_v5", "gpu.count=1", "gpu.mig_mode=1", *settings(board))
        (tmp_path / board).mkdir()
        base = {"root": str(tmp_path / board), "check": True}
        (seen,) = run(simulator, [dict(base, options={"require_gpus": True, "boot_unit": False})])
        names = set(seen["gpus"][0]["free"])
        assert len(names) == len(seen["gpus"][0]["free"]) > 4
        here = [label for label in LABELS if set(wanted(label, board)) <= names]
        here = [label for label in here if label not in BY_BOARD or wanted(label, board)]
        jobs = []
        for label in here:
            chosen = {
                "parted_config": {"version": "v1", "mig-configs": LABELS},
                "parted_label": label,
                "boot_unit": False,
            }
            jobs += [dict(base, options=chosen, check=check) for check in (True, False, True, False)]
        told = run(simulator, jobs)
        for number, label in enumerate(here):
            first, made, again, last = told[4 * number : 4 * number + 4]
            errors = [one["error"] for one in (first, made, again, last) if "error" in one]
            assert not errors, (board, label, errors)
            # After a change of the mode the node is looked at again, and what that brings comes last.
            assert made["described"][: len(first["described"])] == first["described"], (board, label)
            stands = collections.Counter(i["profile"] for i in made["gpus"][0]["instances"])
            assert stands == wanted(label, board) and made["gpus"][0]["mig"] == (label != "all-disabled"), (
                board,
                label,
            )
            assert all(len(i["compute"]) == 1 for i in made["gpus"][0]["instances"])
            assert not again["changed"] and not last["changed"] and last["gpus"] == made["gpus"], (board, label)
        done.update(here)
    assert set(done) == set(LABELS) and len(LABELS) == 81
    assert done["all-disabled"] == done["all-enabled"] == len(BOARDS)
