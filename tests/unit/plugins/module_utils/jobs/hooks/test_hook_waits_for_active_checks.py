# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job starts on a node in service while an operator runs active checks there: the prolog of the installed file."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.hooks import run as hooks
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.hooks.hook import Hook
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_runtime.bytecode import with_bytecode
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import Job
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.jobs.hooks.test_hooks_on_simulator import (
    Node,
)

pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import zipapp

# The installed file, with a folder as the node.
CODE = """
import os, sys, zipimport
archive, root, seconds = sys.argv[1:4]
begin = zipimport.zipimporter(archive)
exec(begin.get_source("__main__").partition("from gpu_node.command")[0], {"__loader__": begin})
from gpu_node.command import main
from gpu_node.core.host import Host
from gpu_node.jobs.hooks import run
assert main.__file__.startswith(archive)
main.Host = lambda: Host(root)
os.geteuid = lambda: 0
run.ACTIVE_SECONDS = float(seconds)
sys.exit(main.main(["hook", "prolog", "--json"]))
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("installed") / "gpunode.pyz"
    path.write_bytes(with_bytecode(zipapp.build(), sys.executable))
    return str(path)


@pytest.fixture
def node(nvml_simulator, tmp_path):
    return Node(nvml_simulator("nd96asr_v4", "gpu.count=1"), tmp_path / "node")


def prolog(node, archive, seconds):
    """Status and what the log of slurmd gets."""
    slurmd = {"SLURM_JOB_ID": "42", "SLURM_JOB_UID": str(os.getuid()), "SLURMD_NODENAME": "gpu01"}
    slurmd["PATH"] = "{0}:{1}".format(node.root / "bin", os.environ["PATH"])
    done = subprocess.run(
        [sys.executable, "-c", CODE, archive, str(node.root), str(seconds)],
        env=node.simulator.environment(**slurmd),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def test_a_job_waits_for_active_checks_that_end(node, archive):
    held = Host(str(node.root)).lock(run.ACTIVE_LOCK)
    held.__enter__()
    # Longer than Python takes to start.
    timer = threading.Timer(4.0, lambda: held.__exit__(None, None, None))
    timer.start()
    status, told = prolog(node, archive, 60.0)
    timer.join()
    assert status == 0 and "s until a run of active checks (gpunode health --active) had ended" in told
    assert node.cluster.node("gpu01")[0] == "IDLE"


def test_a_job_starts_beside_active_checks_that_go_on_and_the_node_stays_in_service(node, archive):
    with Host(str(node.root)).lock(run.ACTIVE_LOCK):
        status, told = prolog(node, archive, 1.0)
    assert status == 0 and "still loads this node after 1 s; the job starts beside it" in told
    assert node.cluster.node("gpu01")[0] == "IDLE"


def test_the_wait_leaves_the_health_check_its_time(tmp_path, monkeypatch):
    """Another hook may have held the lock of the notes for most of the time of this one."""
    monkeypatch.setattr(hooks, "ACTIVE_SECONDS", 2.0)
    monkeypatch.setattr(hooks, "HEALTH_SECONDS", 2.5)
    host, seconds = Host(str(tmp_path)), []
    hook = Hook(host, lambda text: None, budget_seconds=3.0)
    monkeypatch.setattr(hooks, "Hook", lambda *dummy: hook)
    monkeypatch.setattr(hooks, "_healthy", lambda hook, job: bool(seconds.append(hook.left())))
    with host.lock(run.ACTIVE_LOCK):
        hooks.prolog(host, Job(42, os.getuid()), lambda text: None)
    assert seconds[0] >= hooks.HEALTH_SECONDS - 0.3


def test_the_lock_file_of_a_process_that_ended_holds_up_no_job(node, archive):
    with Host(str(node.root)).lock(run.ACTIVE_LOCK):
        pass
    assert list((node.root / "run").rglob("*" + run.ACTIVE_LOCK + "*"))
    assert prolog(node, archive, 60.0) == (0, "")
