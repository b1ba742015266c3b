# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""History, the machine and the files of a verdict: what is read back, and what does not crash them."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import machine
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import history, kubernetes, record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.history import Entry, History
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.settings import RANGES, Settings
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
    assert bool(machine.identity(host)) == told


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


# Settings -----------------------------------------------------------------------------------------------


@given(
    st.dictionaries(
        st.sampled_from([field.name for field in dataclasses.fields(Settings)]),
        st.none() | st.integers() | st.floats() | st.text(max_size=5) | st.booleans() | st.lists(st.text(max_size=3)),
    )
)
def test_no_declaration_makes_a_hook_fail(section):
    found = Settings.from_section(section)
    for field in dataclasses.fields(Settings):
        assert type(getattr(found, field.name)) is type(field.default)
    assert all(least <= getattr(found, name) <= most for name, (least, most) in RANGES.items())


def test_what_was_declared_holds():
    wanted = Settings(drain=False, drained_percent=50.0, keepalive=("jetpack", "keepalive", "6h"), resume_after=5)
    assert Settings.from_section(json.loads(json.dumps(dataclasses.asdict(wanted)))) == wanted


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
    taint, patch = content["commands"]
    assert taint[:5] == ["kubectl", "taint", "node", "gpu01", "--overwrite"]
    assert taint[5].endswith(":NoSchedule-") != content["tainted"]
    condition = json.loads(patch[-1].partition("=")[2])["status"]["conditions"][0]
    assert condition["type"] == "GpuNodeUnhealthy"
    if one.outcome is FAIL:
        assert content["tainted"] and condition["status"] == "True"
    if one.outcome is PASS:
        assert not content["tainted"] and condition["status"] == "False"
