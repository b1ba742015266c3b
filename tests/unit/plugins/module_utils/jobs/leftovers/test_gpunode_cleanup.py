# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpunode cleanup and gpunode lease: what people and programs are told."""

from __future__ import annotations

import json
import time
import types

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import cleanup, lease
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import lease as leases
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.lease import Memory, Phase
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.root_folders import Identity
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.lease import follow
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.leftovers.remove import CHANGED, Done
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.leftovers.types import (
    CORE_DUMPS,
    GPU_PROCESSES,
    JOB_FOLDERS,
    Jobs,
    Leftover,
    Place,
    Seen,
)

SAME = Identity(1, 2, 0, 0o040000, 3)


def folder(number, **more):
    place = Place("/mnt/resource_nvme", ("jobs",), str(number))
    found = {"size_bytes": 3 * 1024**3, "idle_seconds": 7200.0, "job": number, "ours": True}
    return Leftover(JOB_FOLDERS, place.path, place, SAME, **{**found, **more})


SEEN = Seen(
    (folder(11), folder(12), Leftover(GPU_PROCESSES, "process 5 (python) of user 1001 on GPU 0")),
    Jobs(frozenset(("12",)), ended=frozenset((11, 12))),
)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    calls = types.SimpleNamespace(seen=SEEN, why={}, removed=[], settings=None)

    def look(host, settings):
        calls.settings = settings
        return calls.seen

    def remove(host, chosen):
        calls.removed = [one.what for one in chosen]
        return tuple(Done(one, calls.why.get(one.what, "")) for one in chosen)

    monkeypatch.setattr(cleanup, "look", look)
    monkeypatch.setattr(cleanup, "remove", remove)
    monkeypatch.setattr(cleanup.os, "geteuid", lambda: 0)

    def call(check=False, plain=False, kind=()):
        arguments = types.SimpleNamespace(check=check, json=plain, kind=list(kind))
        status = cleanup.run(Host(str(tmp_path)), arguments)
        return (status, *capsys.readouterr())

    call.calls = calls
    call.root = tmp_path
    return call


def test_check_tells_bytes_by_kind_and_removes_nothing(run):
    status, output, errors = run(check=True)
    assert (status, errors, run.calls.removed) == (0, "", [])
    lines = output.splitlines()
    assert lines[0].split() == ["KIND", "FREE", "SIZE", "KEPT", "SIZE"]
    assert lines[1].split() == ["job_folders", "1", "3.0", "GiB", "1", "3.0", "GiB"]
    assert lines[2].split() == ["gpu_processes", "0", "0", "B", "1", "0", "B"]  # it is not free: it is never touched
    assert "would go: /mnt/resource_nvme/jobs/11; its job is over" in lines
    assert "stays: /mnt/resource_nvme/jobs/12; its job runs" in lines
    assert any(line.startswith("left alone: process 5 (python)") for line in lines)
    assert max(len(line) for line in lines) <= 80


def test_a_run_removes_what_is_free_and_only_that(run):
    status, output, dummy = run()
    assert status == 0 and run.calls.removed == ["/mnt/resource_nvme/jobs/11"] and "removed: /mnt" in output


def test_what_a_job_took_meanwhile_is_no_failure_and_what_cannot_be_removed_is_one(run):
    run.calls.why = {"/mnt/resource_nvme/jobs/11": CHANGED}
    status, output, dummy = run()
    assert status == 0 and "stays: /mnt/resource_nvme/jobs/11; it was taken" in output
    run.calls.why = {"/mnt/resource_nvme/jobs/11": "it cannot be removed (Input/output error)"}
    assert run()[0] == 1


def test_what_could_not_be_looked_at_is_told_on_standard_error(run):
    run.calls.seen = Seen(notes=("scratch /x: it is not mounted; run 'gpunode scratch status' on the node.",))
    status, output, errors = run(check=True)
    assert status == 1 and output == "nothing was left here\n" and errors.startswith("not known: scratch /x")


def test_json_has_each_of_them(run):
    status, output, dummy = run(check=True, plain=True)
    told = json.loads(output)
    assert status == 0 and told["kinds"]["job_folders"] == {"free_bytes": 3 * 1024**3, "kept_bytes": 3 * 1024**3}
    assert [one["outcome"] for one in told["leftovers"]] == ["remove", "keep", "list"]


def test_the_limits_that_are_declared_count_and_kinds_may_be_chosen(run):
    (run.root / "etc/gpu_node").mkdir(parents=True)
    (run.root / "etc/gpu_node/node.json").write_text(json.dumps({"cleanup": {"core_days": 2}}))
    run(check=True, kind=[CORE_DUMPS])
    assert run.calls.settings.kinds == (CORE_DUMPS,) and run.calls.settings.core_days == 2


def test_only_root_may(run, monkeypatch):
    monkeypatch.setattr(cleanup.os, "geteuid", lambda: 1000)
    with pytest.raises(NodeError, match="run it as root"):
        run(check=True)


@pytest.fixture
def leased(tmp_path, capsys):
    host = Host(str(tmp_path))
    for one in ("etc/gpu_node", "sys/class/dmi/id"):
        (tmp_path / one).mkdir(parents=True)
    (tmp_path / "sys/class/dmi/id/product_uuid").write_text("6e4ba0a2-0d1c-4c1f-9c0f-3f6f5d1b7a01\n")

    def call(seconds, plain=False, phase=Phase.NONE, ran=True, why=""):
        until = int(time.time() + seconds)
        text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(until))
        section = {"node_lease": {"until": text, "reset": True, "on_expiry": ["/bin/x", "y"]}}
        (tmp_path / "etc/gpu_node/node.json").write_text(json.dumps(section))
        memory = Memory("dmi:6e4ba0a20d1c4c1f9c0f3f6f5d1b7a01", until, until - 9.0, (), "r", phase, why)
        leases.write(host, memory if ran else Memory())
        status = lease.run(host, types.SimpleNamespace(what="status", json=plain))
        return status, capsys.readouterr().out

    call.host = host
    return call


def test_a_lease_is_told_with_what_will_be_done(leased):
    status, output = leased(3 * 86400 + 60)
    assert status == 0 and "in 3 days" in output and "reservation r of Slurm lets no job outlive it" in output
    assert "at the end: drain, reset, and the scratch is lost, run /bin/x y" in output
    status, output = leased(-60, phase=Phase.ENDED, why="job 12 is on it")
    assert status == 1 and "the node is drained" in output and "it waits: job 12 is on it" in output
    status, output = leased(-60, ran=False)
    assert status == 1 and "before this machine was seen to run" in " ".join(output.split())
    told = json.loads(leased(86400, plain=True)[1])
    assert told["stage"] == "runs" and told["on_expiry"] == ["/bin/x", "y"] and 86000 < told["left_seconds"] <= 86400


def test_a_clock_that_nothing_synchronises_is_told(leased, monkeypatch):
    monkeypatch.setattr(follow, "clock_is_right", lambda host: False)
    status, output = leased(-60)
    assert status == 1 and "which nothing synchronises: nothing is done by it" in " ".join(output.split())
    status, output = leased(-60, phase=Phase.ENDED)  # what was begun goes on
    assert status == 1 and "the node is drained" in output


def test_a_node_without_a_lease_says_so(tmp_path, capsys):
    assert lease.run(Host(str(tmp_path)), types.SimpleNamespace(what="status", json=False)) == 0
    assert capsys.readouterr().out == "this node has no lease\n"
