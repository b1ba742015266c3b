# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What prolog and epilog do for the shared scratch; its start and stop: slurm/test_beeond_start_and_stop.py."""

from __future__ import annotations

import json

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.jobs.hooks.test_hooks_on_simulator import (
    Node,
)

FOLDER = "run/gpu_node/beeond"


@pytest.fixture
def node(nvml_simulator, tmp_path):
    made = Node(nvml_simulator("nd96asr_v4"), tmp_path / "node")
    made.declare(beeond={"word": "share", "port_shift": 3000})
    (made.root / "beeond").mkdir(mode=0o755)
    (made.root / "opt/beegfs/src/client/client_module_7").mkdir(parents=True)
    return made


def test_a_job_that_never_asked_has_nothing_and_costs_nothing(node):
    assert node.hook("prolog", SLURM_JOB_COMMENT="beeond", SLURM_NODELIST="gpu[01-02]")[::2] == (0, "")
    assert not (node.root / FOLDER).exists()
    assert node.hook("epilog")[::2] == (0, "")


# 22.05 tells the first of them alone.
@pytest.mark.parametrize("nodes", ["SLURM_NODELIST", "SLURM_JOB_NODELIST"])
@pytest.mark.parametrize("asks", ["SLURM_JOB_COMMENT", "SLURM_JOB_CONSTRAINTS"])
def test_a_node_that_cannot_says_so_holds_no_job_and_forgets_it(node, nodes, asks):
    status, report, said = node.hook(
        "prolog", **{nodes: "gpu[01-02]", asks: "a100&share", "SLURM_JOB_RESTART_COUNT": "2"}
    )
    assert status == 0 and report["finding"] is None
    assert "shared scratch of job 42: the client of BeeGFS was not built for the kernel" in said
    noted = json.loads((node.root / FOLDER / "42.json").read_text())
    assert (noted["nodes"], noted["shift"], noted["restart"]) == (["gpu01", "gpu02"], 3020, "2")
    assert "not built" in noted["refused"]
    # Also when it is not declared any more.
    node.declare()
    assert node.hook("epilog")[::2] == (0, "")
    assert list((node.root / FOLDER).glob("*")) == []


def test_the_epilog_of_another_job_leaves_it_alone(node):
    node.hook("prolog", SLURM_JOB_COMMENT="share", SLURM_NODELIST="gpu[01-02]")
    assert node.hook("prolog", job=43)[0] == 0 and node.hook("epilog", job=43)[0] == 0
    assert (node.root / FOLDER / "42.json").exists()
