# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What prolog and epilog do for the metrics of GPUs."""

from __future__ import annotations

import re
import shutil

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.jobs.hooks.test_hooks_on_simulator import (
    Node,
)

NVML = {"source": "nvml", "textfile": "/srv/gpus.prom"}


@pytest.fixture
def node(nvml_simulator, tmp_path):
    made = Node(nvml_simulator("nd96asr_v4"), tmp_path / "node")
    made.declare(gpu_metrics=NVML)
    return made


def told(node, folder="gpu_jobs"):
    path = node.root / "run/gpu_node" / folder
    return {one.name: one.read_text().split() for one in path.iterdir()} if path.exists() else {}


def test_the_metrics_know_the_gpus_of_each_job_while_it_runs(node):
    # Slurm counts them backwards here, the metrics by their addresses.
    node.gres(*("Name=gpu File=/dev/nvidia{0}".format(gpu) for gpu in reversed(range(8))))
    assert node.hook("prolog", job=42, gpus="0,1")[::2] == (0, "")
    assert node.hook("prolog", job=43, gpus="1,2")[::2] == (0, "")
    assert told(node) == {"7": ["42"], "6": ["42", "43"], "5": ["43"]}
    assert node.hook("epilog", job=42, gpus="0,1")[::2] == (0, "")
    assert told(node) == {"6": ["43"], "5": ["43"]}
    assert node.hook("epilog", job=43)[::2] == (0, "")  # without its GPUs in its environment
    assert told(node) == {}


@pytest.mark.parametrize("source", ["nvml", "dcgm"])
def test_the_owners_of_the_jobs_are_in_a_file_with_either_source(node, source):
    """Three jobs of two users on two GPUs: two share GPU 1, one is a task of an array, whose number is its own."""
    prom = node.root / "srv/jobs.prom"
    prom.parent.mkdir()
    node.declare(gpu_metrics={"source": source, "owners_textfile": "/srv/jobs.prom"})

    def owners():
        return re.findall(r'^gpu_node_job_info{hpc_job="(.*?)",user="(.*?)",account="(.*?)",', prom.read_text(), re.M)

    begun = (
        (42, "0,1", {"SLURM_JOB_USER": "anna", "SLURM_JOB_ACCOUNT": "physics"}),
        (43, "1", {"SLURM_JOB_USER": "ben"}),
        (45, "1", {"SLURM_JOB_USER": "ben", "SLURM_ARRAY_JOB_ID": "44", "SLURM_ARRAY_TASK_ID": "3"}),
        (46, "", {"SLURM_JOB_USER": "eve"}),  # without a GPU
    )
    for number, gpus, names in begun:
        assert node.hook("prolog", job=number, gpus=gpus, **names)[::2] == (0, "")
    assert owners() == [("42", "anna", "physics"), ("43", "ben", ""), ("45", "ben", "")]
    hpc_jobs = {job for jobs in told(node).values() for job in jobs}
    assert hpc_jobs == {job for job, dummy, dummy in owners()}
    assert node.hook("epilog", job=43)[::2] == (0, "")
    assert owners() == [("42", "anna", "physics"), ("45", "ben", "")]
    shutil.rmtree(str(node.root / "run/gpu_node"))  # a reboot: the first job of the new boot is the only one
    assert node.hook("prolog", job=50, gpus="2", SLURM_JOB_USER="eve")[::2] == (0, "")
    assert owners() == [("50", "eve", "")]
    assert node.hook("epilog", job=50)[::2] == (0, "") and owners() == []
    assert node.questions == []  # nothing of it asks slurmctld


def test_a_folder_that_is_gone_holds_no_job(node):
    node.declare(gpu_metrics={"source": "dcgm", "owners_textfile": "/srv/jobs.prom"})
    status, report, said = node.hook("prolog", job=42, gpus="0", SLURM_JOB_USER="anna")
    assert status == 0 and report["finding"] is None and "/srv: there is no such folder" in said


@pytest.mark.parametrize("section", [None, dict(NVML, jobs=False)])
def test_who_does_not_want_it_has_no_files(node, section):
    node.declare(**({} if section is None else {"gpu_metrics": section}))
    assert node.hook("prolog", gpus="0")[0] == 0
    assert told(node) == {}


def test_a_job_without_gpus_is_in_no_metric(node):
    assert node.hook("prolog")[::2] == (0, "")
    assert told(node) == {} == told(node, "profiling")


@pytest.mark.parametrize("variable", ["SLURM_JOB_COMMENT", "SLURM_JOB_CONSTRAINTS"])
def test_a_job_that_profiles_has_the_counters_until_its_end(node, variable):
    assert node.hook("prolog", job=7, gpus="0", **{variable: "a100&profiling"})[::2] == (0, "")
    assert set(told(node, "profiling")) == {"7"}
    assert node.hook("prolog", job=8, gpus="1", **{variable: "a100"})[::2] == (0, "")
    assert node.hook("epilog", job=8, gpus="1")[0] == 0
    assert set(told(node, "profiling")) == {"7"}
    assert node.hook("epilog", job=7, gpus="0")[::2] == (0, "")
    assert told(node, "profiling") == {}


def test_dcgm_that_does_not_answer_holds_no_job(node):
    node.declare(gpu_metrics={"source": "dcgm"})
    status, report, said = node.hook("prolog", job=7, gpus="0", SLURM_JOB_COMMENT="profiling")
    assert status == 0 and "dcgmi" in said and report["finding"] is None
    # It is tried again with each epilog, and told.
    status, report, said = node.hook("epilog", job=7, gpus="0")
    assert status == 0 and "dcgmi" in said and set(told(node, "profiling")) == {"7"}
    dcgmi = node.root / "bin/dcgmi"
    dcgmi.write_text("#!/bin/sh\necho $@ >> {0}\n".format(node.root / "dcgmi.calls"))
    dcgmi.chmod(0o755)
    assert node.hook("epilog", job=9, gpus="1")[0] == 0
    assert told(node, "profiling") == {} and (node.root / "dcgmi.calls").read_text() == "profile --resume\n"
