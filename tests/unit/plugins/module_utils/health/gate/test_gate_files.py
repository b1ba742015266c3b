# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""History, the machine and the files of a verdict: what is read back, and what does not crash them."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import machine
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.moment import moment
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import history, kubernetes, record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.history import Entry, History
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.kubectl import FIELD_MANAGER
from ansible_collections.trainyard.gpu_node.tests.kubernetes_api import Api
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.formats.formats_verdicts import (
    HEALTHY,
    NOW,
    SICK,
    VERDICTS,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.gate.gate_states import (
    FAIL,
    HISTORIES,
    PASS,
    PASSIVE,
    UNKNOWN,
)

# The machine --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, told",
    [
        ("6e4ba0a2-0d1c-4c1f-9c0f-3f6f5d1b7a01\n", True),
        ("6E4BA0A2-0D1C-4C1F-9C0F-3F6F5D1B7A01\n", True),
        ("00000000-0000-0000-0000-000000000000\n", False),
        ("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF\n", False),
        ("03000200-0400-0500-0006-000700080009\n", False),
        ("Not Settable\n", False),
        (None, False),
    ],
)
def test_a_machine_is_known_by_the_number_of_its_firmware(host, tmp_path, text, told):
    if text is not None:
        (tmp_path / "sys/class/dmi/id").mkdir(parents=True)
        (tmp_path / "sys/class/dmi/id/product_uuid").write_text(text)
    assert bool(machine.fingerprint(host)) == told


# History ------------------------------------------------------------------------------------------------


@pytest.fixture
def host(tmp_path):
    return Host(str(tmp_path))


@given(known=HISTORIES)
@settings(max_examples=20)
def test_a_history_comes_back_as_it_was_written(tmp_path_factory, known):
    host = Host(str(tmp_path_factory.mktemp("node")))
    history.write(host, known)
    assert history.read(host) == known


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"entries": 3}', '{"entries": [{"time": "x"}]}', '{"drained": 7}', "null", '"x"']
)
def test_a_broken_history_says_only_that_the_node_must_be_validated(host, tmp_path, text):
    (tmp_path / "var/lib/gpu_node/health").mkdir(parents=True)
    (tmp_path / history.PATH[1:]).write_text(text)
    assert history.read(host) == history.lost("its content is invalid")


def test_a_history_is_bounded_and_keeps_the_last_drain_and_the_resumes_of_a_day():
    known = History()
    for number in range(1000):
        known = known.added(Entry(NOW + number * 60, PASSIVE, FAIL if number == 500 else PASS))
        if number in (500, 503):
            known = known.acted("drain" if number == 500 else "resume", number == 500, "boot-1")
    assert len(known.entries) == history.LONGEST + 2
    assert [one.action for one in known.entries[:3]] == ["drain", "resume", ""]
    later = known.added(Entry(NOW + 2 * 86400, PASSIVE, PASS))
    assert [one.action for one in later.entries[:2]] == ["drain", ""]


@given(VERDICTS)
def test_any_verdict_goes_into_a_history(one):
    assert Entry.of(one).outcome is one.outcome


# Files of a verdict -------------------------------------------------------------------------------------


def test_a_verdict_is_written_for_all_that_want_it(host, tmp_path):
    (tmp_path / "textfile").mkdir()
    (tmp_path / "features.d").mkdir()
    declared = {
        "health_gate": {
            "textfile": "/textfile/gpu_node.prom",
            "labels_file": "/features.d/gpu_node",
            "kubernetes_node": "gpu01",
            "interval_seconds": 100,
        }
    }
    assert record.write(host, SICK, declared) == ()
    assert record.stored(host)["outcome"] == "fail"
    textfile = (tmp_path / "textfile/gpu_node.prom").read_text()
    assert 'gpu_node_health_outcome{outcome="fail"} 1' in textfile
    assert "\ngpu_node_health_interval_seconds 100\n" in textfile
    assert "# +expiry-time=2026-11-18T11:10:50Z" in (tmp_path / "features.d/gpu_node").read_text()
    assert json.loads((tmp_path / record.KUBERNETES[1:]).read_text())["tainted"] is True
    assert record.write(host, HEALTHY, declared) == ()
    assert "gpu-node-health=pass" in (tmp_path / "features.d/gpu_node").read_text()


def test_what_is_of_others_or_has_no_folder_is_told_and_left(host, tmp_path):
    (tmp_path / "textfile").mkdir()
    (tmp_path / "textfile/gpu_node.prom").write_text("mine 1\n")
    declared = {"health_gate": {"textfile": "/textfile/gpu_node.prom", "labels_file": "/features.d/gpu_node"}}
    notes = record.write(host, SICK, declared)
    assert len(notes) == 2 and "is not ours" in notes[0] and "no such folder" in notes[1]
    assert (tmp_path / "textfile/gpu_node.prom").read_text() == "mine 1\n" and not (tmp_path / "features.d").exists()
    assert record.stored(host)["node"] == "gpu01"


# Kubernetes ---------------------------------------------------------------------------------------------


@given(VERDICTS, st.booleans())
def test_taint_and_condition_agree(one, unknown_taints):
    content = kubernetes.document(one, "gpu01", unknown_taints)
    *taints, patch = content["commands"]
    for taint in taints:
        assert taint[:5] == ["kubectl", "taint", "node", "gpu01", "--field-manager=" + FIELD_MANAGER]
    assert [taint[-1].rpartition(":")[2] for taint in taints] == (
        ["NoSchedule"]
        if content["tainted"]
        else []
        if one.outcome is UNKNOWN
        else ["PreferNoSchedule", "trainyard.io/gpu-node-health-"]
    )
    condition = json.loads(patch[-1].partition("=")[2])["status"]["conditions"][0]
    assert condition["type"] == "GpuNodeUnhealthy"
    if one.outcome is FAIL:
        assert content["tainted"] and condition["status"] == "True"
    if one.outcome is PASS:
        assert not content["tainted"] and condition["status"] == "False"


def transition(content):
    return content["condition"]["status"]["conditions"][0]["lastTransitionTime"]


def test_the_condition_has_the_time_when_it_changed():
    def after(verdict, seconds, before):
        return kubernetes.document(replaced(verdict, time=NOW + seconds), "gpu01", before=before)

    first = after(HEALTHY, 0, None)
    again = after(HEALTHY, 300, first)
    assert transition(first) == transition(again) == moment(NOW)
    sick = after(SICK, 600, again)
    assert transition(sick) == transition(after(SICK, 900, sick)) == moment(NOW + 600)
    assert transition(after(HEALTHY, 1200, sick)) == moment(NOW + 1200)
    # Of another node, from the future, or of no form that we write.
    assert transition(after(HEALTHY, 300, dict(first, node="gpu02"))) == moment(NOW + 300)
    assert transition(after(HEALTHY, -300, first)) == moment(NOW - 300)
    for odd in ([], {"node": "gpu01", "condition": []}, {"node": "gpu01", "condition": {"status": 1}}, "x"):
        assert transition(after(HEALTHY, 300, odd)) == moment(NOW + 300)


DAY = 86400.0


@pytest.mark.parametrize("away", [300.0, DAY, 30 * DAY])
def test_a_taint_is_removed_for_a_day_from_the_first_healthy_verdict_on(away):
    """A node may be off for weeks after the verdict that tainted it."""
    sick = kubernetes.document(SICK, "gpu01")
    found = [sick]
    for seconds in (away, away + DAY - 1, away + DAY, away + DAY + 300):
        found.append(kubernetes.document(replaced(HEALTHY, time=SICK.time + seconds), "gpu01", before=found[-1]))
    assert [len(one["commands"]) for one in found] == [2, 3, 3, 1, 1]
    again = kubernetes.document(replaced(SICK, time=SICK.time + away + 2 * DAY), "gpu01", before=found[-1])
    later = replaced(HEALTHY, time=SICK.time + away + 4 * DAY)
    assert len(kubernetes.document(later, "gpu01", before=again)["commands"]) == 3


def test_a_taint_stays_while_nothing_is_known_of_the_node():
    sick = kubernetes.document(SICK, "gpu01")
    unknown = kubernetes.document(replaced(HEALTHY, outcome=UNKNOWN, time=SICK.time + 300), "gpu01", before=sick)
    assert [one[1] for one in unknown["commands"]] == ["patch"] and unknown["healthy_since"] is None
    healthy = kubernetes.document(replaced(HEALTHY, time=SICK.time + 3 * DAY), "gpu01", before=unknown)
    assert [one[1] for one in healthy["commands"]] == ["taint", "taint", "patch"]


def test_the_files_of_two_runs_keep_the_time(host, tmp_path):
    declared = {"health_gate": {"kubernetes_node": "gpu01"}}
    record.write(host, HEALTHY, declared)
    record.write(host, replaced(HEALTHY, time=NOW + 300), declared)
    assert transition(json.loads((tmp_path / record.KUBERNETES[1:]).read_text())) == moment(HEALTHY.time)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl; on Debian it is in kubernetes-client")
def test_each_command_exits_0_however_often_it_runs(tmp_path, monkeypatch):
    """With the real kubectl; tests/real_kubernetes has the patch of the condition, too."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with Api() as api:
        api.add("nodes", {"metadata": {"name": "gpu01"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})
        monkeypatch.setenv("KUBECONFIG", api.kubeconfig(tmp_path / "kubeconfig"))
        before = None
        for verdict, keys in ((HEALTHY, ["a"]), (SICK, ["a", kubernetes.TAINT]), (HEALTHY, ["a"])):
            before = kubernetes.document(verdict, "gpu01", before=before)
            for _again in range(2):
                for command in before["commands"][:-1]:
                    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
                    assert done.returncode == 0, done.stderr
            assert sorted(one["key"] for one in api.get("nodes", "gpu01")["spec"]["taints"]) == keys
        assert set(api.managers) == {FIELD_MANAGER}
