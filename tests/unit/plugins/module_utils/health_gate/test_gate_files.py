# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""History, the answers of scontrol and the files of a verdict: what is read back, and what does not crash them."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health_gate import (
    cluster,
    history,
    kubernetes,
    record,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health_gate.history import Entry, History
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health_gate.settings import RANGES, Settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.host import Host
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health_formats.formats_verdicts import (
    HEALTHY,
    NOW,
    SICK,
    VERDICTS,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health_gate.gate_states import (
    FAIL,
    HISTORIES,
    PASS,
    PASSIVE,
)

# As Slurm 22.05 and 23.11 write it; gpu03 was powered down by Slurm, gpu04 drained by a person.
SHOWN = """NodeName=gpu01 Arch=x86_64 CoresPerSocket=24
   CPUAlloc=0 CPUEfctv=96 CPUTot=96 CPULoad=0.40
   Gres=gpu:8
   NodeAddr=gpu01 NodeHostName=gpu01 Version=22.05.8
   OS=Linux 6.1.0-32-amd64 #1 SMP
   RealMemory=900000 AllocMem=0 FreeMem=800000 Sockets=4 Boards=1
   State=IDLE+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=gpu,debug
   BootTime=2026-01-30T12:00:00 SlurmdStartTime=2026-01-30T12:01:00
   Reason=gpu_node: health: GPU 3: lost (a|b) Partitions=x [root@2026-01-31T12:00:05]

NodeName=gpu02 CoresPerSocket=24
   State=MIXED+CLOUD ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=gpu
   Comment=State=DOWN

NodeName=gpu03 CoresPerSocket=24
   State=IDLE+CLOUD+POWERED_DOWN ThreadsPerCore=1 TmpDisk=0 Weight=1
   Partitions=gpu

NodeName=gpu04 CoresPerSocket=24
   State=MIXED+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1
   Partitions=gpu
   Reason=anna: new memory [anna@2026-01-31T09:00:00]

NodeName=gpu05 CoresPerSocket=24
   State=IDLE+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1
   Partitions=gpu
   Reason=gpu_node: scratch /mnt: it is not mounted [root@2026-01-31T11:00:00]

"""


def test_the_answer_of_scontrol_is_read():
    nodes = cluster.parse(SHOWN)
    assert list(nodes) == ["gpu01", "gpu02", "gpu03", "gpu04", "gpu05"]
    first = nodes["gpu01"]
    assert first.partitions == ("gpu", "debug") and first.since == "2026-01-31T12:00:05" and first.ours
    assert first.state.reason == "gpu_node: health: GPU 3: lost (a|b) Partitions=x"
    assert nodes["gpu02"].state.flags == {"MIXED", "CLOUD"} and nodes["gpu02"].state.reason is None
    assert not nodes["gpu03"].there and not nodes["gpu04"].ours


def test_a_partition_has_the_machines_that_are_there_and_the_first_drained_one_first():
    nodes = cluster.parse(SHOWN).values()
    assert cluster.partitions_of(nodes, "gpu02") == (cluster.Partition("gpu", 4, ("gpu05", "gpu01")),)
    assert [one.name for one in cluster.partitions_of(nodes, "gpu01")] == ["gpu", "debug"]
    assert cluster.partitions_of(nodes, "gpu99") == ()


@given(st.text(max_size=300) | st.integers(0, len(SHOWN)).map(lambda cut: SHOWN[cut:] + SHOWN[:cut]))
def test_no_answer_of_scontrol_crashes_it(text):
    for name in cluster.parse(text):
        cluster.partitions_of(cluster.parse(text).values(), name)


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
def test_a_broken_history_is_none(host, tmp_path, text):
    (tmp_path / "var/lib/gpu_node/health").mkdir(parents=True)
    (tmp_path / history.PATH[1:]).write_text(text)
    assert history.read(host) == History()


def test_a_history_is_bounded_and_keeps_the_last_drain_and_the_resumes_of_a_day():
    known = History()
    for number in range(1000):
        known = known.added(Entry(NOW + number * 60, PASSIVE, FAIL if number == 500 else PASS))
        if number in (500, 503):
            known = known.acted("drain" if number == 500 else "resume", number == 500)
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
    assert 'gpu_node_health_outcome{outcome="fail"} 1' in (tmp_path / "textfile/gpu_node.prom").read_text()
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
