# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module slurm_node as Ansible runs it, before a Slurm that is two scripts over one file."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.node.run import DrainStands, run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.node.types import Busy, Desired
from ansible_collections.trainyard.gpu_node.tests.unit import forked

PYTHON = sys.executable + " -IS"
SCONTROL = """#!{python}
import json, os, sys
folder = os.path.dirname(os.path.abspath(__file__))
with open(folder + "/calls", "a") as stream:
    stream.write(" ".join(sys.argv) [len(sys.argv[0]) + 1:] + "\\n")
node = json.load(open(folder + "/node.json"))
# The moments at which slurmctld is away, counted in requests.
count = len(open(folder + "/calls").readlines())
if os.path.exists(folder + "/down") or count in node.get("away", []):
    sys.exit("slurm_load_node error: Unable to contact slurm controller (connect failure)")
if sys.argv[1] == "show":
    if sys.argv[3] != "gpu01":
        print("Node " + sys.argv[3] + " not found")
        sys.exit(1)
    print("NodeName=gpu01 Arch=x86_64\\n   NodeAddr=gpu01 NodeHostName=" + node.get("host", "(null)"))
    print("   State=" + node["state"] + " ThreadsPerCore=1")
    if node["reason"]:
        print("   Reason=" + node["reason"] + " [root@2026-01-31T12:00:00]")
    if node.get("jobs_end_after"):
        node["jobs_end_after"] -= 1
        if not node["jobs_end_after"]:
            node["state"] = node["state"].replace("MIXED", "IDLE")
elif os.path.exists(folder + "/refuses"):
    sys.exit("slurm_update error: Access/permission denied")
else:
    given = dict(word.split("=", 1) for word in sys.argv[2:])
    base = node["state"].replace("+DRAIN", "")
    if given["State"] == "DRAIN":
        node.update(state=base + "+DRAIN", reason=given["Reason"])
        if node.pop("job_begins", False):  # between our look and our drain
            node["state"] = "MIXED+DRAIN"
    elif given["State"] == "UNDRAIN":
        node.update(state=base, reason=given.get("Reason", node["reason"]) if node.get("keeps_reasons") else "")
    if node.get("stubborn"):
        node.update(state=base, reason="")
json.dump(node, open(folder + "/node.json", "w"))
"""
SQUEUE = """#!{python}
import json, os, sys
assert "--local" in sys.argv  # in a federation it would tell of the other clusters too
if os.path.exists(os.path.dirname(os.path.abspath(__file__)) + "/no_squeue"):
    sys.exit("slurm_load_jobs error: Unexpected message received")
print("\\n".join(json.load(open(os.path.dirname(os.path.abspath(__file__)) + "/node.json")).get("jobs", [])))
"""
RUNNER = """
import json, sys
from ansible.module_utils import basic
from ansible_collections.trainyard.gpu_node.plugins.modules import slurm_node as module

arguments = dict(json.loads(sys.argv[2]), _ansible_check_mode=sys.argv[1] == "check")
basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode()
basic._ANSIBLE_PROFILE = "legacy"
module.main()
"""
OURS = "gpu_node: rolling: being converged"
RUN = "3f2a9c1b"


class Slurm:
    def __init__(self, folder, monkeypatch):
        self.folder = folder
        for name, text in (("scontrol", SCONTROL), ("squeue", SQUEUE)):
            (folder / name).write_text(text.format(python=PYTHON))
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", "{0}:/usr/bin:/bin".format(folder))
        self.set("IDLE")

    def set(self, state, reason="", **more):
        (self.folder / "node.json").write_text(json.dumps(dict(more, state=state, reason=reason)))

    @property
    def node(self):
        found = json.loads((self.folder / "node.json").read_text())
        return found["state"], found["reason"]

    @property
    def calls(self):
        return (self.folder / "calls").read_text().splitlines()

    def __call__(self, busy="leave", state="drained", **wish):
        """The library alone, in this process."""
        desired = Desired("gpu01", drained=state == "drained", busy=Busy(busy), **wish)
        done = run(Host(), desired, pause=lambda seconds: time.sleep(min(seconds, 0.05)))
        return dict(done.to_dict(), changed=done.before != done.after)

    def module(self, check=False, **arguments):
        given = json.dumps(dict({"name": "gpu01"}, **arguments))
        done = forked.run(
            [sys.executable, "-c", RUNNER, "check" if check else "real", given], capture_output=True, text=True
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    return Slurm(tmp_path, monkeypatch)


def test_check_real_check_real_and_back(slurm):
    planned = slurm.module(check=True)
    assert planned["changed"] and planned["outcome"] == "ready" and slurm.node == ("IDLE", "")
    made = slurm.module()
    assert made["changed"] and (made["outcome"], made["owner"]) == ("ready", "rolling")
    assert made["diff"] == planned["diff"] and "State=DRAIN+IDLE" in made["diff"]["after"]
    assert slurm.node == ("IDLE+DRAIN", OURS)
    assert not slurm.module(check=True)["changed"] and not slurm.module()["changed"]
    assert slurm.module(check=True, state="in_service")["outcome"] == "in_service" and slurm.node == (
        "IDLE+DRAIN",
        OURS,
    )
    assert slurm.module(state="in_service")["changed"] and not slurm.module(state="in_service")["changed"]
    assert slurm.node == ("IDLE", "")


def test_a_reason_that_slurm_keeps_is_ours_no_more(slurm):
    slurm.set("IDLE", keeps_reasons=True)
    assert slurm()["outcome"] == "ready" and slurm(state="in_service")["outcome"] == "in_service"
    assert slurm.node == ("IDLE", "resumed by gpu-node")


def test_a_busy_node_is_not_even_drained(slurm):
    slurm.set("MIXED")
    done = slurm()
    assert done["outcome"] == "busy" and "MIXED" in done["why"] and not done["changed"]
    assert slurm.calls == ["show node gpu01"]


def test_a_suspended_job_holds_the_node(slurm):
    slurm.set("IDLE", jobs=["17", "18"])
    done = slurm()
    assert done["outcome"] == "busy" and done["jobs"] == ["17", "18"] and "job 17, 18" in done["why"]


def test_a_job_that_begins_before_our_drain_gets_its_node_back(slurm):
    slurm.set("IDLE", job_begins=True)
    done = slurm()
    assert done["outcome"] == "busy" and slurm.node == ("MIXED", "")
    assert [one["action"] for one in done["actions"]] == ["drain", "undrain"]


def test_jobs_are_waited_for_behind_our_drain(slurm):
    slurm.set("MIXED", jobs_end_after=4)
    assert slurm(wait_seconds=30)["outcome"] == "ready" and slurm.node == ("IDLE+DRAIN", OURS)
    slurm.set("MIXED")
    assert slurm(wait_seconds=0.2)["outcome"] == "busy" and slurm.node == ("MIXED", "")
    assert slurm(wait_seconds=0.2, busy="drain")["outcome"] == "busy" and slurm.node == ("MIXED+DRAIN", OURS)


def test_a_node_that_fails_says_why(slurm):
    slurm.set("IDLE+DRAIN", OURS)
    slurm(reason="failed: GPU 3 (0000:0b:00.0): 'lost'; replace it.", busy="drain")
    assert slurm.node == ("IDLE+DRAIN", "gpu_node: rolling: failed: GPU 3 (0000:0b:00.0): lost ; replace it.")
    assert slurm(state="in_service")["outcome"] == "in_service"


@pytest.mark.parametrize(
    "reason", ["gpu_node: rolling: being converged", "gres/gpu count reported lower than configured"]
)
def test_a_node_whose_registration_is_refused_does_not_count_as_back(slurm, monkeypatch, reason):
    """By whichever reason: 22.05 leaves ours, 24.11 puts its own."""
    monkeypatch.setattr(sys.modules[run.__module__], "REGISTERS_SECONDS", 0.2)
    slurm.set("IDLE+DRAIN+INVALID_REG", reason)
    with pytest.raises(NodeError, match="INVALID_REG.*Gres="):
        slurm(state="in_service")
    assert slurm.node == ("IDLE+DRAIN+INVALID_REG", reason)


@pytest.mark.parametrize("state, reason", [("IDLE+DRAIN", "anna: new memory"), ("DOWN", "Not responding")])
def test_what_others_did_stays(slurm, state, reason):
    slurm.set(state, reason)
    for wish in ({}, {"state": "in_service"}):
        assert not slurm(**wish)["changed"] and slurm.node == (state, reason)
    assert all(call.startswith("show") for call in slurm.calls)


@pytest.mark.parametrize("old, others", [("anna: new memory {{ 1 + 1 }}", True), ("gpu_node: health: GPU 3", False)])
def test_a_drain_of_others_is_held_meanwhile_and_there_again_afterwards(slurm, old, others):
    slurm.set("IDLE+DRAIN", old)
    planned = slurm.module(check=True, others=others, run=RUN)
    made = slurm.module(others=others, run=RUN)
    assert planned["diff"] == made["diff"] and made["outcome"] == "ready"
    assert slurm.node == ("IDLE+DRAIN", "{0} (run {1}); before: {2}".format(OURS, RUN, old))
    assert slurm.module(run="0badcafe", others=others)["outcome"] == "left"
    assert not slurm.module(run=RUN, others=others)["changed"]
    back = slurm.module(state="in_service", run=RUN)
    assert back["outcome"] == "left" and old in back["why"] and slurm.node == ("IDLE+DRAIN", old)


def test_a_slurmctld_that_is_away_for_a_moment_ends_no_wait(slurm):
    # 1 look, 2 drain, then looks.
    slurm.set("MIXED", jobs_end_after=4, away=[4, 5])
    assert slurm(wait_seconds=30)["outcome"] == "ready" and slurm.node == ("IDLE+DRAIN", OURS)


@pytest.mark.parametrize(
    "before, reason, left_behind",
    [
        (("IDLE", ""), "being converged", ("IDLE", "")),
        (("IDLE+DRAIN", OURS + " (run 0badcafe)"), "failed: GPU 3", ("IDLE+DRAIN", "gpu_node: rolling: failed: GPU 3")),
    ],
)
def test_a_look_that_fails_after_our_drain_gives_back_what_was_in_service(slurm, before, reason, left_behind):
    slurm.set(*before, away=[3])
    with pytest.raises(NodeError, match="slurmctld: it does not answer") as caught:
        slurm(reason=reason, busy="drain")
    assert slurm.node == left_behind and isinstance(caught.value, DrainStands) == (before[0] != "IDLE")


def test_a_drain_that_may_stand_is_told(slurm):
    slurm.set("IDLE", away=[3, 4])
    result = slurm.module()
    assert result["failed"] and result["drained"] and "(our drain of the node may stand); " in result["msg"]
    slurm.set("IDLE+DRAIN", "gpu_node: rolling: failed: GPU 3")
    (slurm.folder / "no_squeue").touch()
    assert not slurm.module()["drained"]  # not yet


def test_the_machine_of_another_node_is_not_touched(slurm):
    here = os.uname().nodename.split(".")[0]
    slurm.set("IDLE", host="gpu-of-somebody-else")
    result = slurm.module()
    text = "node gpu01: Slurm has it on host gpu-of-somebody-else, and this is {0}; ".format(here)
    assert result["failed"] and result["msg"].startswith(text) and slurm.node == ("IDLE", "")
    assert slurm.module(same_host=False)["outcome"] == "ready"
    slurm.set("IDLE", host=here.upper() + ".example.org")
    assert slurm.module()["outcome"] == "ready"


@pytest.mark.parametrize(
    "mark, arguments, told",
    [
        ("down", {}, "slurmctld: it does not answer: slurm_load_node error: Unable to contact slurm controller"),
        ("refuses", {}, "it was refused: slurm_update error: Access/permission denied"),
        ("", {"name": "gpu02"}, "gpu02: slurmctld has no such node; give the NodeName that slurm.conf has."),
        ("", {"name": "gpu[01-02]"}, "this is not the name of one node"),
    ],
)
def test_what_goes_wrong_is_one_sentence(slurm, mark, arguments, told):
    if mark:
        (slurm.folder / mark).touch()
    result = slurm.module(**arguments)
    assert result["failed"] and told in result["msg"] and "\n" not in result["msg"]


def test_somebody_who_resumes_it_all_the_time_is_told(slurm):
    slurm.set("IDLE", stubborn=True)
    with pytest.raises(NodeError, match="its state does not stay as it is set"):
        slurm()


def test_a_machine_without_slurm(slurm, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")  # the machine that runs this test may have Slurm
    with pytest.raises(NodeError, match="scontrol: it is not on this machine"):
        slurm()
