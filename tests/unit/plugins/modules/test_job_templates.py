# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module job_templates as Ansible runs it, on captured machines; and the check of MPI with a real mpirun."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.modules import job_templates as module
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import unpack
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module

FOLDER = "/shared/gpu_node/jobs"


@pytest.fixture
def run(tmp_path):
    root = tmp_path / "node"
    unpack("ndv4", root)

    def call(check=False, **arguments):
        arguments.setdefault("folder", FOLDER)
        return run_module("job_templates", arguments, root, check)

    call.root = root
    return call


def tree(root):
    return sorted(
        os.path.relpath(os.path.join(folder, name), str(root))
        for top in ("etc", "shared")
        for folder, folders, names in os.walk(str(root / top))
        for name in folders + names
    )


def test_check_real_check_real_and_absent_leaves_what_it_found(run):
    before = tree(run.root)
    planned = run(check=True, partition="gpu")
    assert planned["changed"] and tree(run.root) == before
    made = run(partition="gpu")
    assert [one["description"] for one in made["actions"]] == [one["description"] for one in planned["actions"]]
    assert made["diff"] == planned["diff"] and made["files"] == planned["files"]
    assert made["files"] == sorted(os.listdir(str(run.root) + FOLDER)) and len(made["files"]) == 16
    assert not run(check=True, partition="gpu")["changed"] and not run(partition="gpu")["changed"]
    for name in made["files"]:
        path = run.root / FOLDER.lstrip("/") / name
        assert path.stat().st_mode & 0o777 == 0o755
    assert "#SBATCH --partition=gpu" in (run.root / FOLDER.lstrip("/") / "hpl.pyxis.sh").read_text()
    (run.root / FOLDER.lstrip("/") / "mine.sh").write_text("#!/bin/sh\n")
    assert run(state="absent")["changed"] and not run(state="absent")["changed"]
    assert os.listdir(str(run.root) + FOLDER) == ["mine.sh"]


def test_absent_takes_the_folders_too(run):
    before = tree(run.root)
    run()
    run(state="absent")
    assert tree(run.root) == before


def test_a_script_of_somebody_else_stops_it(run):
    folder = run.root / FOLDER.lstrip("/")
    folder.mkdir(parents=True)
    (folder / "hpl.pyxis.sh").write_text("#!/bin/bash\n")
    result = run()
    assert result["failed"] and "is not ours; move it away" in result["msg"]
    assert os.listdir(str(folder)) == ["hpl.pyxis.sh"]


@pytest.mark.parametrize(
    "options, told",
    [
        ({"folder": "jobs"}, "no absolute path"),
        ({"gpus_per_node": 9}, "this node has 8 GPU(s) to give"),
        ({"mpi_ranks_per_node": 97}, "there are 96 core(s) to use"),
        ({"image": "a b"}, "no name of a container image"),
    ],
)
def test_a_wrong_option_is_one_sentence(run, options, told):
    before = tree(run.root)
    result = run(**options)
    assert result["failed"] and told in result["msg"]
    assert tree(run.root) == before


def test_everything_that_is_returned_is_documented(run):
    documented = yaml.safe_load(module.RETURN)
    returned = set(run()) - {"changed", "diff", "invocation", "failed", "warnings", "deprecations"}
    assert returned == set(documented)


MIXED = """
class Mixed(Host):
    def path(self, path):
        return path if path.startswith(("/sys", "/proc", "/shared", self.root)) else self.root + path

main.Host = lambda: Mixed({0!r})
"""


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI's mpirun is not installed")
def test_the_check_of_mpi_runs_on_this_machine(tmp_path):
    """The real module on the real machine, its scripts under the real mpirun, without Slurm."""
    folder = tmp_path / "jobs"
    cores = len(os.sched_getaffinity(0))
    ranks = 2 if cores >= 2 else 1
    mixed = MIXED.format(str(tmp_path))
    done = run_module("job_templates", {"folder": str(folder), "mpi_ranks_per_node": ranks}, tmp_path, more=mixed)
    assert not done.get("failed"), done
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    environment = {name: value for name, value in environment.items() if not name.startswith("SLURM_")}
    (tmp_path / "hosts").write_text("# one node, twice\nlocalhost\nlocalhost slots=64\n")
    for options in ((), ("--hostfile", str(tmp_path / "hosts"))):
        ran = subprocess.run(
            [str(folder / "mpi-check.sh"), *options, "sh", "-c", "echo program $OMPI_COMM_WORLD_RANK"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        lines = ran.stdout.splitlines()
        told = sorted(line for line in lines if line.startswith("rank "))
        assert [line.split(":")[0] for line in told] == ["rank {0} of {1}".format(one, ranks) for one in range(ranks)]
        assert sorted(line for line in lines if line.startswith("program")) == [
            "program {0}".format(one) for one in range(ranks)
        ]
        masks = [line.split("CPUs ")[1].split(",")[0] for line in told]
        assert len(set(masks)) == ranks, told
