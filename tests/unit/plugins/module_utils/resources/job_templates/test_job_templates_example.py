# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example that is submitted to horovod.slurm.sh, with stand-ins for PyTorch and Horovod."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[6] / "docs"
EXAMPLE = DOCS / "examples" / "horovod_torch.py"
# Rank R of 4, local rank 2, on a node with GPUs or none; the loss is 1 / (1 + the rates so far).
TORCH = """
from unittest.mock import MagicMock
import os
class Device:
    def __init__(self, kind, number=None):
        self.name = kind if number is None else "{0}:{1}".format(kind, number)
    def __str__(self):
        return self.name
device, cuda, randn, manual_seed = Device, MagicMock(), MagicMock(), MagicMock()
cuda.is_available = lambda: os.environ["GPUS"] == "1"
nn, optim, groups = MagicMock(), MagicMock(), [{"lr": 0.0}]
class SGD:
    def __init__(self, dummy, lr):
        self.param_groups = groups
        groups[0]["most"] = lr
    def zero_grad(self):
        pass
    def step(self):
        assert 0 < groups[0]["lr"] <= groups[0]["most"], groups
        groups[0]["sum"] = groups[0].get("sum", 0.0) + groups[0]["lr"] * int(os.environ["LEARNS"])
optim.SGD = SGD
"""
HOROVOD = """
import os
import torch
told = []
def init(): told.append("init")
def rank(): return int(os.environ["RANK_HERE"])
def size(): return 4
def local_rank(): return 2
def DistributedOptimizer(optimizer, named_parameters): return optimizer
def broadcast_parameters(state, root_rank): told.append("parameters")
def broadcast_optimizer_state(state, root_rank): told.append("optimizer")
def allreduce(value, name):
    assert told == ["init", "parameters", "optimizer"] and name == "loss", told
    return 1 / (1 + torch.groups[0].get("sum", 0.0))
"""


def run(tmp_path, rank, gpus="1", learns="1"):
    (tmp_path / "torch.py").write_text(TORCH)
    (tmp_path / "horovod").mkdir()
    (tmp_path / "horovod" / "torch.py").write_text(HOROVOD)
    environment = dict(os.environ, PYTHONPATH=str(tmp_path), RANK_HERE=rank, GPUS=gpus, LEARNS=learns)
    command = [sys.executable, str(EXAMPLE), "20"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("gpus, device", [("1", "cuda:2"), ("0", "cpu")])
def test_each_rank_takes_the_device_of_its_local_number_and_rank_0_tells_the_loss(tmp_path, gpus, device):
    done = run(tmp_path, "0", gpus)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "rank 0 of 4: node {0}, local rank 2, {1}".format(os.uname().nodename, device)
    # The rate is four times that of one rank, and is reached after two steps of 20.
    assert lines[1].startswith("step 0: loss 0.98") and lines[-1] == "trained: loss 0.9804 to 0.5618"


def test_the_other_ranks_tell_only_where_they_are(tmp_path):
    done = run(tmp_path, "3")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 1


def test_a_loss_that_stays_is_a_failure(tmp_path):
    assert run(tmp_path, "0", learns="0").returncode == 1


def test_it_is_short_named_in_the_documentation_and_runs_on_the_oldest_python_of_a_node():
    text = EXAMPLE.read_text(encoding="utf-8")
    ast.parse(text, feature_version=(3, 8))
    assert len(text.splitlines()) <= 60 and "(examples/horovod_torch.py)" in (DOCS / "job_templates.md").read_text()
