# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recordings of what NVML answers: taken of simulated machines, and made by hand."""

from __future__ import annotations

import copy
import ctypes
import json
import os
import pathlib
import subprocess
import sys

import pytest

from ansible_collections.trainyard.gpu_node.tools.nvml_answers import getters, record, simulated
from ansible_collections.trainyard.gpu_node.tools.nvml_answers.compare import Difference, compare, not_simulated

pynvml = pytest.importorskip("pynvml", reason="needs nvidia-ml-py")

ROOT = pathlib.Path(__file__).resolve().parents[4]
RECORDINGS = sorted((ROOT / "tests" / "hardware" / "recordings").glob("*.json"))


def command(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "tools.nvml_answers", *words],
        cwd=str(ROOT),
        env=dict(os.environ, **environment),
        capture_output=True,
        text=True,
        check=False,
    )


def recording_of(simulator, path):
    done = command("record", str(path), **simulator.env)
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "settings",
    [
        ("nd40rs_v2",),
        ("nd96asr_v4", "driver.version=470.256.02", "driver.cuda_version=11040"),
        ("nd96isr_h100_v5", "driver.version=610.43.02"),
        ("vm_h100", "gpu.mig_mode=yes"),
        ("nc24ads_a100_v4", "gpu.mig_mode=yes", "gpu.persistence_mode=1"),
    ],
    ids=lambda settings: settings[0],
)
def test_a_recording_of_a_described_machine_does_not_differ_from_it(
    nvml_simulator, nvml_simulator_built, tmp_path, settings
):
    real = recording_of(nvml_simulator(*settings), tmp_path / "file")
    assert len(real["answers"]) > 500
    assert simulated.machine_of(real) == settings[0]
    assert compare(real, simulated.simulated(real, nvml_simulator_built)) == ()


def test_every_difference_is_listed_and_is_the_exit_status(nvml_simulator, nvml_simulator_built, tmp_path):
    path = tmp_path / "file"
    real = recording_of(nvml_simulator("nd96isr_h100_v5"), path)
    changes = {
        "nvmlDeviceGetNvLinkErrorCounter(3, 0)": {"code": 0, "type": "int", "value": 0},
        "field 161 of 3": {"code": 0, "type": "field type 1", "value": 0},
        "nvmlDeviceGetPowerManagementLimitConstraints()": {"code": 0, "type": "list of int", "value": [1, 700000]},
        "nvmlDeviceGetTemperature(0)": {"code": 0, "type": "int", "value": 99},  # of the day, not of the product
        "nvmlDeviceGetFanSpeed()": {"code": 0, "type": "int", "value": 30},  # the simulator has no such call
    }
    assert set(changes) <= set(real["answers"])
    real["answers"].update(changes)
    path.write_text(json.dumps(real), encoding="utf-8")
    done = command("compare", str(path), "--built", str(nvml_simulator_built))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert sorted(lines[:-1]) == [
        "field 161 of 3: type 'field type 1', simulated 'field type 3'",
        "nvmlDeviceGetNvLinkErrorCounter(3, 0): code 0, simulated 3",
        "nvmlDeviceGetPowerManagementLimitConstraints(): value [1, 700000], simulated [200000, 700000]",
    ]
    assert lines[-1].endswith(" answers, 3 differ, 1 not simulated")


# By hand, so that what the comparison means does not hang on what the simulator says.
REAL = {
    "nvmlDeviceGetName()": {"code": 0, "type": "str", "value": "One"},
    "nvmlDeviceGetMigMode()": {"code": 3},
    "nvmlDeviceGetFanSpeed()": {"code": 0, "type": "int", "value": 30},
    "nvmlDeviceGetRetiredPages(0)": {"code": 0, "type": "list", "value": []},
    "nvmlDeviceGetPowerUsage()": {"code": 0, "type": "int", "value": 7},
    "nvmlDeviceGetP2PStatus(peer, 0)": {"code": None, "reason": "there is one GPU"},
    "field 230 of 0": {"code": 0, "type": "field type 1", "value": 0},
}


@pytest.mark.parametrize(
    ("label", "answer", "what"),
    [
        ("nvmlDeviceGetName()", {"code": 0, "type": "str", "value": "Two"}, "value"),
        ("nvmlDeviceGetName()", {"code": 0, "type": "bytes", "value": "One"}, "type"),
        ("nvmlDeviceGetName()", {"code": 13}, None),
        ("nvmlDeviceGetMigMode()", {"code": 0, "type": "list of int", "value": [0, 0]}, "code"),
        ("nvmlDeviceGetFanSpeed()", {"code": 3}, "code"),
        ("nvmlDeviceGetRetiredPages(0)", {"code": 0, "type": "list of int", "value": [1]}, None),
        ("nvmlDeviceGetPowerUsage()", {"code": 0, "type": "int", "value": 8}, None),
        ("nvmlDeviceGetPowerUsage()", {"code": 999}, "code"),
        ("nvmlDeviceGetP2PStatus(peer, 0)", {"code": 0, "type": "int", "value": 0}, None),
        ("field 230 of 0", {"code": 0, "type": "field type 3", "value": 0}, "type"),
        ("field 230 of 0", {"code": 0, "type": "field type 1", "value": 5}, None),
    ],
)
def test_what_counts_as_a_difference(label, answer, what):
    real = {"answers": REAL}
    other = copy.deepcopy(real)
    assert compare(real, other) == ()
    other["answers"][label] = answer
    found = compare(real, other)
    assert [(one.label, one.what) for one in found] == ([(label, what)] if what else [])
    assert not_simulated(real, other) == ((label,) if answer["code"] == 13 else ())


def test_a_difference_is_one_line():
    assert str(Difference("nvmlDeviceGetMigMode()", "code", 3, 0)) == "nvmlDeviceGetMigMode(): code 3, simulated 0"


def test_who_a_gpu_is_stands_in_no_recording(nvml_simulator, tmp_path):
    simulator = nvml_simulator("nd96asr_v4")
    simulator.control("process", "add", "0", "424242", "1")
    recording_of(simulator, tmp_path / "file")
    text = (tmp_path / "file").read_text(encoding="utf-8")
    for secret in (simulator.control("get", "gpu.0.uuid"), simulator.control("get", "gpu.0.serial"), "424242"):
        assert secret.split()[-1] not in text


class Platform(ctypes.Structure):
    _fields_ = [
        ("chassisSerialNumber", ctypes.c_ubyte * 2),
        ("ibGuid", ctypes.c_ubyte * 2),
        ("slotNumber", ctypes.c_ubyte),
        ("name", ctypes.c_char * 8),
    ]


def test_members_that_name_a_gpu_keep_their_shape_only():
    one = Platform((1, 2), (3, 4), 5, b"tray-7")
    shown = {"chassisSerialNumber": [0, 0], "ibGuid": [0, 0], "slotNumber": 5, "name": "tray-7"}
    assert record.plain(one) == shown
    assert record.plain(one, private=True) == dict(shown, slotNumber=0, name="xxxx-x")


def test_only_getters_are_asked():
    asked = [question.function for question in getters.questions(pynvml, 2, (1215,))]
    assert len(set(asked)) > 150
    assert [name for name in (*asked, *getters.SYSTEM) if not name.startswith(("nvmlDeviceGet", "nvmlSystemGet"))] == []
    assert set(getters._WITH_ARGUMENTS) | set(getters._OF_A_LINK) | set(getters.LEFT_OUT) <= set(vars(pynvml))


def test_a_product_that_nobody_described_is_told(tmp_path, nvml_simulator_built):
    path = tmp_path / "file"
    name = {"code": 0, "type": "str", "value": "NVIDIA B300"}
    path.write_text(json.dumps({"gpus": 8, "answers": {"nvmlDeviceGetName()": name}}), encoding="utf-8")
    done = command("compare", str(path), "--built", str(nvml_simulator_built))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("'NVIDIA B300': no description in tools/nvml_simulator/machines has such a GPU")


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_the_simulator_answers_as_a_recorded_machine(path, nvml_simulator_built):
    real = json.loads(path.read_text(encoding="utf-8"))
    assert [str(one) for one in compare(real, simulated.simulated(real, nvml_simulator_built))] == []
