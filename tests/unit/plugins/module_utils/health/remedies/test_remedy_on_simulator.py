# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remedies in a folder as the node: simulated GPUs, scripts for slurmctld, systemd and nvidia-smi, all as root."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import attempts, journal, registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import history, owing
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import (
    Cost,
    Finding,
    Outcome,
    Remedy,
    Result,
    Verdict,
)
from ansible_collections.trainyard.gpu_node.tests.unit import forked
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.command import gpunode_on
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.jobs.hooks.slurm_stand_in import Cluster

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="remedies are root's")
PEERS = "gpu_peer_bandwidth"
KEPT = ("gpu_lost", "gpu_recovery_action", "remedies")
REASON = "gpu_node: health: GPU 3 (0004:00:00.0): the driver asks for a reset of this GPU"
PERSISTENCED = "nvidia-persistenced.service"
SYSTEMCTL = """#!{python} -IS
import os, sys
folder, words = os.path.dirname(os.path.abspath(__file__)), [one for one in sys.argv[1:] if not one.startswith("-")]
runs = folder + "/running"
running = set(open(runs).read().split())
with open(folder + "/did", "a") as stream:
    if words[0] != "show":
        stream.write("systemctl " + " ".join(sys.argv[1:]) + "\\n")
if words[0] == "show":
    print("\\n\\n".join("Id={{0}}\\nActiveState={{1}}".format(one, "active" if one in running else "inactive")
                      for one in words[1:]))
elif words[0] == "stop":
    running -= set(words[1:])
    if os.path.exists(folder + "/cut_at_stop"):
        open(runs, "w").write(" ".join(sorted(running)))
        os.kill(os.getppid(), 9)
elif words[0] in ("start", "restart"):
    running |= set(words[1:])
open(runs, "w").write(" ".join(sorted(running)))
"""
# As the real one: it refuses while the daemon has the GPU.
SMI = """#!{python} -IS
import os, subprocess, sys
folder, words = os.path.dirname(os.path.abspath(__file__)), sys.argv[1:]
with open(folder + "/did", "a") as stream:
    stream.write("nvidia-smi " + " ".join(words) + "\\n")
if words[0] == "-q":
    print("==NVSMI LOG==")
elif words[0] == "--gpu-reset":
    if os.path.exists(folder + "/fails"):
        print("GPU 0004:00:00.0 is not allowed to be reset")
        sys.exit(3)
    if "{persistenced}" in open(folder + "/running").read():
        print("In use by another client")
        sys.exit(19)
    if os.path.exists(folder + "/cut_at_reset"):
        os.kill(os.getppid(), 9)
    for name in words[2].split(","):
        subprocess.run(["{control}", "gpu-reset", {uuids}[name]], check=True)
"""


class Node:
    def __init__(self, simulator, root):
        self.root, self.simulator, self.control = root, simulator, simulator.control
        self.cluster = Cluster(root / "usr/bin", ["gpu{0:02}".format(number) for number in range(1, 11)])
        self.tools = root / "tools"
        for folder in ("proc/self", "run/systemd/system", "tools", "sys/class/dmi/id", "proc/sys/kernel/random"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "proc/self/mountinfo").write_text("20 1 0:5 / /proc rw - proc proc rw\n")
        (root / "sys/class/dmi/id/product_uuid").write_text("6e4ba0a2-0d1c-4c1f-9c0f-3f6f5d1b7a01\n")
        self.boot("0a6a3e1c-0000-4000-8000-000000000001")
        (self.tools / "running").write_text(PERSISTENCED)
        told = self.simulator.python(
            "import json, pynvml as n\nn.nvmlInit()\n"
            "print(json.dumps([n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(one)) for one in range(4)]))"
        )
        self.uuids = {uuid: str(number) for number, uuid in enumerate(told)}
        script = {
            "systemctl": SYSTEMCTL.format(python=sys.executable),
            "nvidia-smi": SMI.format(
                python=sys.executable,
                persistenced=PERSISTENCED,
                control=simulator.built / "nvml-simulator",
                uuids=repr(self.uuids),
            ),
            "journalctl": "#!/bin/sh\necho 'NVRM: Xid (PCI:0004:00:00): 95'\n",
        }
        for name, text in script.items():
            (self.tools / name).write_text(text)
            (self.tools / name).chmod(0o755)
        self.declare()

    def boot(self, name):
        (self.root / "proc/sys/kernel/random/boot_id").write_text(name + "\n")

    def uuid(self, number):
        return list(self.uuids)[number]

    def declare(self, *remedies, **gate):
        without = sorted({one.id for one in registry.checks(Cost.ACTIVE)} - set(KEPT))
        section = {"scontrol": str(self.root / "usr/bin/scontrol"), "remedies": list(remedies or ("reset_gpu",))}
        sections = {"health": {"without": without}, "health_gate": dict(section, **gate)}
        (self.root / "etc/gpu_node").mkdir(parents=True, exist_ok=True)
        (self.root / "etc/gpu_node/node.json").write_text(json.dumps(sections))

    def sick(self):
        self.control("fault", "gpu", "3", "recovery-action", "1")
        self.cluster.set("gpu01", "IDLE+DRAIN", REASON)

    def run(self, *words):
        path = "{0}:{1}".format(self.tools, os.environ["PATH"])
        done = forked.run(
            [sys.executable, gpunode_on.__file__, str(self.root), "--", *words, "--json"],
            env=self.simulator.environment(PATH=path, SLURMD_NODENAME="gpu01"),
            capture_output=True,
            timeout=120,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, json.loads(done.stdout or "{}")

    @property
    def did(self):
        """What was done since the last look here."""
        path = self.tools / "did"
        lines = path.read_text().splitlines() if path.exists() else []
        path.write_text("")
        return lines

    @property
    def record(self):
        path = self.root / attempts.PATH.lstrip("/")
        return json.loads(path.read_text()) if path.exists() else None

    @property
    def reason(self):
        return self.cluster.node("gpu01")[1]


@pytest.fixture
def node(nvml_simulator, tmp_path):
    made = Node(nvml_simulator("nd96asr_v4", "gpu.count=4"), tmp_path / "node")
    made.sick()
    return made


def reset_of(node):
    return "nvidia-smi --gpu-reset -i {0}".format(node.uuid(3))


def journal_of(node):
    path = node.root / journal.PATH.lstrip("/")
    events = json.loads(path.read_text())["events"] if path.exists() else []
    return [(one["what"], one["part"]["kind"], one["part"]["name"], one["code"], one["node"]) for one in events]


def test_the_sick_gpu_is_reset_and_the_node_stays_drained(node):
    (node.root / "dev").mkdir(exist_ok=True)
    (node.root / "dev/kmsg").write_text("5,0,1,-;Linux version 6.1.0\n6,1,5250000,-;the last line before the reset\n")
    status, report = node.run("remedy")
    assert status == 0 and report["outcome"] == "it was carried out", report
    assert node.did == [
        "nvidia-smi -q",
        "systemctl stop -- " + PERSISTENCED,
        reset_of(node),
        "systemctl start -- " + PERSISTENCED,
    ]
    state, reason = node.cluster.node("gpu01")
    assert state == "IDLE+DRAIN"
    assert reason == REASON.replace("health: ", "health: remedy reset_gpu: ")
    assert journal_of(node) == [("remedy", "gpu", node.uuid(3), "reset_gpu", "gpu01")]
    assert node.record["attempts"][-1]["log_seconds"] == 5.25  # Xids before it are settled
    assert node.record["attempts"][-1]["gpus"] == [node.uuid(3)]
    (folder,) = (node.root / "var/lib/gpu_node/remedies").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    saved = {path.name: path.read_text() for path in folder.iterdir()}
    assert "Xid" in saved["kernel.log"] and "NVSMI" in saved["nvidia-smi.txt"]
    assert json.loads(saved["verdict.json"])["outcome"] == "fail" and json.loads(saved["gpu_info.json"])["gpus"]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())
    # What the driver asked for is gone, so there is nothing more to try.
    status, report = node.run("remedy")
    assert status == 0 and report["remedy"] is None and "nothing fails" in report["why"] and node.did == []


def test_check_mode_tells_the_plan_and_changes_nothing(node):
    status, report = node.run("remedy", "--check")
    assert status == 0 and report["remedy"] == "reset_gpu" and report["part"] == "gpu:" + node.uuid(3)
    told = [one["description"] for one in report["steps"] + report["after"]]
    assert told[2:5] == [
        "stop " + PERSISTENCED,
        "check that no process has GPU 3 (0004:00:00.0) open",
        reset_of(node).replace("nvidia-smi", "run nvidia-smi"),
    ]
    assert node.did == [] and node.record is None and node.reason == REASON


@pytest.mark.parametrize(
    "state, reason, jobs",
    [
        ("IDLE+DRAIN", "anna: new memory", []),
        ("IDLE+DRAIN", "gpu_node: rolling: anna", []),
        ("MIXED+DRAIN", REASON, []),
        ("IDLE+DRAIN", REASON, [4711]),
        ("IDLE+DRAIN+MAINT", REASON, []),
        ("IDLE", "", []),
    ],
)
def test_a_node_with_jobs_or_of_a_person_is_never_touched(node, state, reason, jobs):
    node.cluster.set("gpu01", state, reason)
    node.cluster.change(on={"gpu01": jobs})
    status, report = node.run("remedy")
    assert status == 0 and report["remedy"] is None, report
    assert node.did == [] and node.record is None and node.cluster.node("gpu01") == (state, reason)


def test_a_slurmctld_that_does_not_answer_leaves_the_node_alone(node):
    node.cluster.down()
    status, report = node.run("remedy")
    assert status == 0 and "state in Slurm is not known" in report["why"] and node.did == []


def test_a_process_that_has_the_gpu_open_is_named_and_the_units_come_back(node):
    held = node.root / "proc/4711/fd"
    held.mkdir(parents=True)
    (held / "3").symlink_to("/dev/nvidia3")
    (node.root / "proc/4711/comm").write_text("python\n")
    status, report = node.run("remedy")
    assert status == 1 and "process 4711 (python) has it open, so it is not reset" in report["outcome"]
    assert node.did[1:] == ["systemctl stop -- " + PERSISTENCED, "systemctl start -- " + PERSISTENCED]
    assert node.record["attempts"][0]["ended"] is not None
    assert journal_of(node) == []  # it was not reset


@pytest.mark.parametrize("cut", ["cut_at_stop", "cut_at_reset"])
def test_killed_in_the_middle_the_next_run_starts_what_was_stopped(node, cut):
    (node.tools / cut).touch()
    assert node.run("remedy")[0] == -9
    assert (node.tools / "running").read_text() == "" and node.record["attempts"][0]["ended"] is None
    (node.tools / cut).unlink()
    node.did  # noqa: B018
    # Whoever has the node by now.
    node.cluster.set("gpu01", "MIXED", "")
    status, report = node.run("remedy")
    assert status == 0 and report["remedy"] is None, report
    assert node.did == ["systemctl start -- " + PERSISTENCED]
    (attempt,) = node.record["attempts"]
    assert attempt["ended"] is not None and attempt["counts"] and "did not end" in attempt["outcome"]


def test_a_reset_that_fails_twice_leads_to_a_reboot_that_leaves_the_node_drained(node):
    node.declare("reset_gpu", "reboot")
    node.cluster.change(reboots="/sbin/reboot", resume_timeout=1800)
    (node.tools / "fails").touch()
    for _again in range(2):
        status, report = node.run("remedy")
        assert status == 1 and "is not allowed to be reset" in report["outcome"]
        assert node.record["attempts"][-1]["log_seconds"] is None
        assert "less than 120 s ago" in node.run("remedy")[1]["why"]
        _older(node)
    node.did  # noqa: B018
    status, report = node.run("remedy")
    assert status == 0 and report["remedy"] == "reboot", report
    assert node.cluster.node("gpu01")[0] == "DOWN+DRAIN+REBOOT_ISSUED"
    assert "scontrol reboot gpu01" in node.cluster.calls
    # Before it has come, nothing is done; after it, the attempt has ended, and the node is drained still.
    assert "is still to come" in node.run("remedy")[1]["why"]
    node.boot("0a6a3e1c-0000-4000-8000-000000000002")
    node.cluster.set("gpu01", "IDLE+DRAIN", node.reason + " : reboot complete")
    status, report = node.run("remedy")
    assert [one[3] for one in journal_of(node)] == ["reset_gpu", "reset_gpu", "reboot"]
    assert {one[1:3] for one in journal_of(node)} == {("gpu", node.uuid(3))}
    assert "the machine was started since" in node.record["attempts"][-1]["outcome"]
    assert "less than 120 s ago" in report["why"]


def _older(node):
    """As if an hour had passed."""
    record = node.record
    for one in record["attempts"]:
        one.update(time=one["time"] - 3600, ended=one["ended"] and one["ended"] - 3600)
    (node.root / attempts.PATH.lstrip("/")).write_text(json.dumps(record))


def test_the_breaker_latches_is_told_and_is_released_by_a_person(node):
    node.declare("reset_gpu", remedies_a_day=1)
    (node.tools / "fails").touch()
    node.run("remedy")
    _older(node)
    node.did  # noqa: B018
    status, report = node.run("remedy")
    assert status == 1 and report["latches"] == "1 remedies were tried on this node within a day, and it fails still"
    assert node.reason == REASON.replace("health: ", "health: remedies latched: ")
    (node.tools / "fails").unlink()
    assert "the breaker is latched" in node.run("remedy")[1]["why"] and node.did == []
    status, report = node.run("remedy", "status")
    assert status == 1 and report["latched"] and len(report["attempts"]) == 1 and report["others"].endswith("gpu01")
    # Every verdict tells it.
    findings = [one for check in node.run("health")[1]["results"] for one in check["findings"]]
    assert [one["code"] for one in findings if one["thing"] == "remedies"] == ["latched"]
    # Another node does nothing meanwhile.
    assert node.run("remedy", "release")[0] == 2
    for name in ("a\nb", "", "  ", "a\x85b", "a\u202eb", "x" * 65):
        assert node.run("remedy", "release", "--by", name)[0] == 2, name
    status, report = node.run("remedy", "release", "--by", "anna")
    assert status == 0 and report["changed"] and "were tried on this node" in report["latched"]
    assert report["released"].startswith("anna, 20")
    assert node.reason == REASON and node.run("remedy", "status")[1]["released"].startswith("anna, 20")
    assert node.run("remedy")[1]["outcome"] == "it was carried out"


def test_a_release_of_nothing_says_so_and_writes_nothing(node):
    node.declare("reset_gpu")
    status, report = node.run("remedy", "release", "--by", "anna")
    assert (status, report) == (0, {"released": None, "latched": None, "changed": False})
    assert not (node.root / attempts.PATH.lstrip("/")).exists()
    # Attempts that count begin anew without a latch, once.
    (node.tools / "fails").touch()
    node.run("remedy")
    status, report = node.run("remedy", "release", "--by", "anna")
    assert status == 0 and report["changed"] and report["latched"] is None and report["released"].startswith("anna")
    before = node.record
    assert before["attempts"][0]["counts"] is False
    assert node.run("remedy", "release", "--by", "bob")[1]["changed"] is False and node.record == before


def test_of_many_nodes_at_once_those_that_were_not_the_first_withdraw_and_latch(node):
    """Others are marked while this one waits: what it saw before was nobody."""
    script = node.root / "usr/bin/scontrol"
    path = str(node.root / "usr/bin")
    wrapper = '#!/bin/sh\n"{0}/real_scontrol" "$@" || exit\ncase "$*" in *remedy*) "{0}/first_scontrol" ;; esac\n'
    (node.root / "usr/bin/real_scontrol").write_text(
        script.read_text().replace("os.path.basename(sys.argv[0])", "'scontrol'")
    )
    (node.root / "usr/bin/first_scontrol").write_text(
        "#!{0}\nimport json\np='{1}/cluster.json'\nc=json.load(open(p))\n"
        "told = dict(state='IDLE+DRAIN', reason='gpu_node: health: remedy reset_gpu: x', since='2026-01-01T00:00:00')\n"
        "c['nodes']['gpu09'].update(told)\n"
        "json.dump(c, open(p, 'w'))\n".format(sys.executable, path)
    )
    script.write_text(wrapper.format(path))
    for name in ("real_scontrol", "first_scontrol", "scontrol"):
        (node.root / "usr/bin" / name).chmod(0o755)
    status, report = node.run("remedy")
    assert status == 1 and "2 of 10 nodes of partition gpu have a remedy at the same time" in report["outcome"], report
    assert node.did == [] and node.record["latched"]
    assert node.reason.startswith("gpu_node: health: remedies latched: GPU 3")


def test_a_redeploy_gets_the_findings_and_must_be_of_root_alone(node):
    command = node.root / "redeploy"
    command.write_text('#!/bin/sh\ncat > "$0.in"\necho asked for a new machine\n')
    command.chmod(0o775)
    node.declare("reset_gpu", "redeploy", redeploy_command=["/redeploy"], remedy_attempts=1)
    (node.tools / "fails").touch()
    node.run("remedy")
    _older(node)
    status, report = node.run("remedy")
    assert (
        status == 1
        and "other users can write to it (mode 0775), and root acts by it" in report["outcome"]
        and not (node.root / "redeploy.in").exists()
    )
    command.chmod(0o755)
    node.run("remedy", "release", "--by", "anna")
    node.run("remedy")
    _older(node)
    status, report = node.run("remedy")
    assert status == 0 and report["remedy"] == "redeploy", report
    given = json.loads((node.root / "redeploy.in").read_text())
    assert given["node"] == "gpu01" and given["findings"][0]["action"] == "reset_gpu" and given["attempts"]


def test_a_journal_that_cannot_be_written_keeps_no_remedy_from_being_tried(node):
    (node.root / "var/lib/gpu_node/health/journal.json").mkdir(parents=True)
    status, report = node.run("remedy")
    assert status == 0 and report["outcome"] == "it was carried out" and reset_of(node) in node.did


def test_without_a_record_of_it_nothing_is_begun(node):
    """As on a full disk."""
    (node.root / "var/lib/gpu_node").mkdir(parents=True)
    (node.root / "var/lib/gpu_node/health").symlink_to("/proc/nowhere")
    status, report = node.run("remedy")
    assert status == 1 and "error" in report and node.did == [] and node.reason == REASON


def test_the_hook_starts_the_unit_and_waits_for_nothing(node):
    status, report = node.run("hook", "health")
    assert status == 1 and "systemctl start --no-block -- gpu-node-remedy.service" in node.did, report
    node.declare(remedies=[])
    node.run("hook", "health")
    assert node.did == []


def found_by_an_active_check(node):
    """The proof of this drained node has found GPU 3 slow, and a passive look finds nothing."""
    node.control("clear", "gpu", "3")
    path = node.root / "etc/gpu_node/node.json"
    declared = json.loads(path.read_text())
    declared["health"]["without"].remove(PEERS)
    path.write_text(json.dumps(declared))
    words = ("GPU 3", "it is slow", "reset it", Remedy.RESET_GPU)
    slow = Finding(Outcome.FAIL, *words, key="0004:00:00.0", code="low_peer")
    one = Result(PEERS, "", Outcome.FAIL, "", (slow,), (), 1.0)
    made = Verdict("gpu01", time.time(), Cost.ACTIVE, "", Outcome.FAIL, (one,), {}, (), 1.0)
    owing.tell(Host(str(node.root)), made)


def test_a_fault_that_only_an_active_check_found_is_tried_once_and_then_measured_again(node):
    node.control("clear", "gpu", "3")
    assert "nothing fails" in node.run("remedy")[1]["why"]
    found_by_an_active_check(node)
    status, report = node.run("remedy")
    assert status == 0 and report["outcome"] == "it was carried out", report
    assert report["finding"] == "GPU 3: it is slow"
    assert reset_of(node) in node.did and node.cluster.node("gpu01")[0] == "IDLE+DRAIN"
    # Nothing was measured since, so it is not tried again, and the node owes the measurement still.
    record = node.record
    record["attempts"][0]["ended"] -= 300
    (node.root / attempts.PATH.lstrip("/")).write_text(json.dumps(record))
    assert "nothing fails" in node.run("remedy")[1]["why"] and node.did == []
    assert PEERS in owing.checks(Host(str(node.root)), "gpu01", time.time())


def test_none_is_tried_for_it_where_no_proof_would_follow(node):
    found_by_an_active_check(node)
    assert node.run("remedy", "--check")[1]["remedy"] == "reset_gpu"
    host = Host(str(node.root))
    known = history.read(host)
    history.write(host, dataclasses.replace(known, debt=dataclasses.replace(known.debt, attempts=3)))
    assert "the proof was tried 3 times" in node.run("remedy")[1]["why"] and node.did == []
    history.write(host, known)
    path = node.root / "etc/gpu_node/node.json"
    declared = json.loads(path.read_text())
    overrule = {"until": "2100-01-01", "owner": "anna", "reason": "the demo", "nodes": ["gpu01"]}
    declared["health"]["overrules"] = [overrule]
    path.write_text(json.dumps(declared))
    assert "no proof would follow" in node.run("remedy")[1]["why"] and node.did == []


def test_the_hook_measures_once_more_before_it_starts_a_remedy_for_what_was_measured(node):
    found_by_an_active_check(node)
    node.run("hook", "health")
    started = [one for one in node.did if "start --no-block" in one]
    assert started == ["systemctl start --no-block -- gpu-node-health-proof.service"]
    node.run("hook", "health")  # the next proof is due in an hour
    started = [one for one in node.did if "start --no-block" in one]
    assert started == ["systemctl start --no-block -- gpu-node-remedy.service"]
    node.cluster.set("gpu01", "IDLE", "")
    node.run("hook", "health")
    assert node.did == []


def test_a_node_is_not_resumed_while_a_remedy_runs(node):
    node.control("clear", "gpu", "3")
    node.declare(resume_after=1)
    lock = node.root / "run/gpu_node/health_remedy.lock"
    lock.parent.mkdir(parents=True)
    with subprocess.Popen(["flock", "--no-fork", str(lock), "sleep", "60"]) as holder:
        while not lock.exists():
            pass
        report = node.run("hook", "health")[1]
        assert report["decision"]["decision"]["why"] == "a remedy runs on it"
        assert node.run("remedy")[0] == 75
        holder.kill()
    assert node.run("hook", "health")[1]["decision"]["decision"]["action"] == "resume"
