# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the boot unit of a MIG layout leaves to slurmd: lines of gres.conf that name device files that are there."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit import forked
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import unpack
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.command import gpunode_on
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module

CONF = "ClusterName=test\nTaskPlugin=task/cgroup\nNodeName={0} Sockets=2 CoresPerSocket=48 Gres=gpu:8\n"


class Node:
    def __init__(self, make, root):
        self.root = root
        capabilities = root / "proc/driver/nvidia/capabilities"
        self.simulator = make("nd96asr_v4", "driver.capabilities={0}".format(capabilities))
        unpack("ndv4", root)
        for folder in ("usr/sbin", "etc/slurm", "etc/systemd/system", "etc/gpu_node"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "usr/sbin/slurmd").write_text("#!/bin/sh\necho slurm 22.05.8\n")
        (root / "usr/sbin/slurmd").chmod(0o755)
        (root / "etc/slurm/slurm.conf").write_text(CONF.format(os.uname().nodename.split(".")[0]))
        (root / "proc/devices").write_text("240 nvidia-caps\n")

    def declare(self, *profiles):
        instances = [{"profile": profile} for profile in profiles]
        sections = {
            "mig_layout": {"layouts": [{"gpus": ["0"], "instances": instances}], "boot_unit": False},
            "slurm_hooks": {"job_folder": False, "reconfigure": True},
        }
        (self.root / "etc/gpu_node/declaration.json").write_text(json.dumps(sections))
        for name, options in sections.items():
            asked = dict(options, reconfigure=False) if "reconfigure" in options else options
            result = run_module(name, asked, self.root, environment=self.simulator.environment())
            assert not result.get("failed"), result["msg"]

    def boot(self):
        self.simulator.control("reboot")
        shutil.rmtree(str(self.root / "dev/nvidia-caps"), ignore_errors=True)
        words = [sys.executable, gpunode_on.__file__, str(self.root), "--", "apply", "mig_layout", "--json"]
        done = forked.run(
            words, env=self.simulator.environment(), capture_output=True, text=True, timeout=120, check=False
        )
        (told,) = json.loads(done.stdout)["resources"]
        return done.returncode, told

    @property
    def gres(self):
        return (self.root / "etc/slurm/gres.conf").read_text()

    def files(self):
        """Those of instances that gres.conf names."""
        return {
            one for text in re.findall(r"MultipleFiles=(\S+)", self.gres) for one in text.split(",") if "caps" in one
        }

    def there(self):
        folder = self.root / "dev/nvidia-caps"
        return {"/dev/nvidia-caps/" + name for name in os.listdir(str(folder))} if folder.is_dir() else set()


@pytest.fixture
def node(nvml_simulator, tmp_path):
    return Node(nvml_simulator, tmp_path / "node")


def test_places_that_a_boot_chooses_are_those_of_gres_conf(node):
    node.simulator.control("set", "gpu.0.mig_mode", "1")
    node.declare("1g")
    node.declare("1g", "2g")
    assert len(node.files()) == 4 and node.files() <= node.there()
    status, told = node.boot()
    assert status == 0, told
    assert len(node.files()) == 4 and node.files() <= node.there()


def test_a_mode_that_came_with_the_reboot_is_in_gres_conf(node):
    node.declare("3g", "3g")
    assert "File=/dev/nvidia0 " in node.gres and not node.files()
    status, told = node.boot()
    assert status == 0 and any("slurm_hooks: write /etc/slurm/gres.conf" in note for note in told["notes"]), told
    assert "File=/dev/nvidia0 " not in node.gres and len(node.files()) == 4 and node.files() <= node.there()


def test_a_layout_counts_where_the_files_of_slurm_cannot_be_written(node):
    node.declare("3g", "3g")
    (node.root / "etc/slurm/prolog.d").chmod(0o777)
    status, told = node.boot()
    assert status == 0 and told["status"] == "changed"
    assert any("let only root and SlurmUser write there" in note for note in told["notes"]), told


def test_without_a_wish_for_slurm_its_files_are_left_alone(node):
    node.declare("3g", "3g")
    (node.root / "etc/gpu_node/declaration.json").write_text(json.dumps({"mig_layout": {}}))
    before = node.gres
    assert node.boot()[0] == 0 and node.gres == before
