# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The run of a whole converge: its lock, its end, and the record of a node that converges itself."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import converge_record as record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import systemd
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import LockHeld
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import converge as whole
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import own, wish
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.node.number_node import DATA, numbers

BOOT_ID = "0b5c0b5c-0000-4000-8000-000000000001"
UNIT = "/etc/systemd/system/gpu-node-converge.service"
GUARD = "/etc/systemd/system/slurmd.service.d/50-gpu_node_converge.conf"


@pytest.fixture
def node(tmp_path, monkeypatch):
    made = numbers(tmp_path, monkeypatch)
    made.host.write("/proc/sys/kernel/random/boot_id", BOOT_ID + "\n")
    made.outcome = "pass"

    def health(host, desired, parts, request):
        return {"outcome": made.outcome, "verdict": {"outcome": made.outcome}}

    monkeypatch.setattr(whole, "_health", health)
    monkeypatch.setattr(own, "_runs", lambda host, name: True)
    # No systemd manages this folder.
    monkeypatch.setattr(own, "_LOCK_SECONDS", 0.2)

    def run(*names, install=False, limit=60, **more):
        sections = {name: {} for name in names or ("disks", "nvme_scratch", "health")}
        sections.update(more.pop("sections", {}))
        return own.run(made.host, whole.Request(sections, **more), "1.2.3", install, limit)

    made.run = run
    return made


def each_boot(node):
    systemd.enable(node.host, record.UNIT)


def kept(node):
    text = node.host.read(record.PATH)
    return None if text is None else json.loads(text)


def test_a_node_that_no_boot_converges_has_no_record(node):
    assert node.run().to_dict()["ready"] and kept(node) is None and not node.host.locked(record.LOCK)


def test_the_record_says_running_before_the_first_change_and_ready_at_the_end(node):
    each_boot(node)
    seen = []
    node.during = lambda name: seen.append((kept(node)["status"], node.host.locked(record.LOCK)))
    node.run()
    assert seen == [("running", True)] * 2
    told = kept(node)
    assert (told["status"], told["reason"], told["outcome"], told["version"]) == ("ready", "", "pass", "1.2.3")
    assert told["boot_id"] == BOOT_ID and told["in_service"] is True and told["started"] <= told["ended"]
    assert own.admitted(node.host) and own.status(node.host)[1].endswith("verdict pass.")


@pytest.mark.parametrize("more", [{"check_mode": True}, {"only": ("disks",)}, {"without": ("disks",)}])
def test_what_is_not_the_whole_run_leaves_the_record_as_it_was(node, more):
    each_boot(node)
    node.run()
    before = kept(node)
    node.broken.add("disks")
    node.sizes.clear()
    node.run(**more)
    assert kept(node) == before


@pytest.mark.parametrize(
    "outcome, section, reason",
    [
        ("pass", {}, ""),
        ("warn", {}, ""),
        ("unknown", {}, "the verdict on it is unknown"),
        ("unknown", {"fail_on": "fail"}, ""),
        ("unknown", {"fail_on": "never"}, ""),
        ("warn", {"fail_on": "warn"}, "the verdict on it is warn"),
        ("fail", {}, "the verdict on it is fail"),
        ("fail", {"fail_on": "never"}, "the verdict on it is fail"),
        (None, {}, "no verdict was given on it"),
    ],
)
def test_which_verdict_lets_a_node_take_jobs(outcome, section, reason):
    report = whole.Report({"rdma": {"changed": False}}, {} if outcome is None else {"outcome": outcome}, False)
    told = own.unready(report, {"health": section})
    assert told.startswith(reason) and bool(told) == bool(reason)


@pytest.mark.parametrize("what, kept_as", [("a reboot", "not_ready"), ("slurmd", "ready")])
def test_a_node_that_waits_is_not_ready_but_slurmd_may_be_restarted(node, monkeypatch, what, kept_as):
    """A record that keeps slurmd from starting would wait for itself."""
    each_boot(node)
    monkeypatch.setattr(whole.Report, "waits", [{"for": what, "why": "do that"}])
    report = node.run()
    request = whole.Request({"disks": {}, "health": {}})
    assert own.reason(report, request) == "it waits for {0}: do that".format(what)
    assert kept(node)["status"] == kept_as and own.admitted(node.host) == (what == "slurmd")
    # A boot has nobody who would do it; and what is no whole converge is not to make the node ready.
    for more in ({"boot": True}, {"check_mode": True}, {"only": ("disks",)}):
        assert own.reason(report, whole.Request({"disks": {}, "health": {}}, **more)) == ""


def test_what_failed_is_why_a_node_is_not_ready(node):
    each_boot(node)
    node.broken.add("disks")
    node.run()
    told = kept(node)
    assert told["status"] == "not_ready" and "disks: disks: it broke; repair it." in told["reason"]
    assert not own.admitted(node.host) and own.status(node.host)[1].startswith("not ready: disks: ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_run_that_is_told_to_end_says_so_and_does_no_more(node, number):
    each_boot(node)
    handlers = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGALRM)]
    node.during = lambda name: os.kill(os.getpid(), number)
    report = node.run()
    told = "converge: it was ended by signal " + signal.Signals(number).name
    assert report.failures == [told] and node.ran == ["disks"]
    assert kept(node)["status"] == "not_ready" and kept(node)["reason"] == told
    assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGALRM)] == handlers


def test_a_run_that_hangs_is_ended(node):
    node.during = lambda name: time.sleep(30)
    began = time.monotonic()
    report = node.run(limit=1)
    assert time.monotonic() - began < 20 and "it did not end within 1 s" in report.failures[0]


def test_a_killed_run_is_told_as_interrupted(node):
    each_boot(node)
    node.run()
    if os.fork() == 0:
        node.sizes.clear()
        node.during = lambda name: os.kill(os.getpid(), signal.SIGKILL)
        node.run()
        os._exit(0)
    assert os.WTERMSIG(os.wait()[1]) == signal.SIGKILL
    assert own.status(node.host)[1] == "not ready: its last converge was interrupted."
    assert not own.admitted(node.host)


def test_one_at_a_time(node):
    with node.host.lock(record.LOCK), pytest.raises(LockHeld, match="another run has been working on it"):
        node.run()
    assert node.ran == []


def test_what_a_boot_needs_is_there_before_the_first_change(node):
    seen = []
    node.refused.add("node_profile")  # so nothing of the node is changed at all
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            whole, "_profile", lambda *dummy: seen.append(node.host.read(UNIT)) or {"failed": True, "msg": "x"}
        )
        node.run(install=True)
    assert seen and "ExecStart=/opt/gpu_node/gpunode.pyz converge --boot" in seen[0]
    assert "ExecStartPre=/opt/gpu_node/gpunode.pyz boot admit" in node.host.read(GUARD)
    assert set(json.loads(node.host.read(wish.PATH))) == {"disks", "nvme_scratch", "health"}
    assert kept(node)["status"] == "not_ready" and record.each_boot(node.host)


@pytest.mark.parametrize("more", [{}, {"install": True}, {"undo": True}, {"check_mode": True}])
def test_a_mistake_in_a_declaration_takes_no_ready_node_out_and_replaces_no_good_one(node, more):
    node.run(install=True)
    before = kept(node), node.host.read(wish.PATH)
    sections = {"disks": {"size": 99}, "nvme_scratch": {"present": True}}
    with pytest.raises(NodeError, match="disks, option size: 99 is out of range.*nvme_scratch, option present"):
        node.run(sections=sections, **more)
    assert (kept(node), node.host.read(wish.PATH)) == before and own.admitted(node.host)
    assert node.ran == ["disks", "nvme_scratch"]


def test_what_does_not_go_with_the_profile_of_the_machine_is_on_record(node, monkeypatch):
    each_boot(node)
    monkeypatch.setitem(DATA, "infiniband", {"count": "many"})
    with pytest.raises(NodeError, match="option ports"):
        node.run()
    assert kept(node)["reason"].startswith("its converge was refused: disks, option ports: ")
    assert node.ran == []


def test_an_undo_ends_what_each_boot_does_and_one_that_failed_does_not(node, monkeypatch):
    node.run(install=True)
    node.broken.add("disks")
    node.run(undo=True)
    assert record.each_boot(node.host) and kept(node)["status"] == "ready"
    node.broken.clear()
    # The node command is gone by then, so none of its parts can be loaded any more.
    monkeypatch.setattr(own, "unready", lambda *dummy: pytest.fail("half of the library is asked for a verdict"))
    node.run(undo=True)
    assert not record.each_boot(node.host) and kept(node) is None
    assert node.host.read(UNIT) is None and node.host.read(GUARD) is None


def test_in_the_run_of_a_boot_nothing_waits_for_what_waits_for_it(node):
    sections = {"pyxis": {"source": "x"}, "slurm_hooks": {"reconfigure": True}, "nccl": {"a": 1}}
    assert wish.at_boot(sections) == {
        "pyxis": {"source": "x"},
        "slurm_hooks": {"reconfigure": False},
        "nccl": {"a": 1},
    }
