# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode share advise`` over simulated GPUs that work in different ways, through NVIDIA's own binding."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import share
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.identity import Identity
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.sharing.types import (
    MIG,
    TIME_SLICE,
    Advice,
    TimeSlice,
    Use,
)
from ansible_collections.trainyard.gpu_node.tests.unit import forked
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.command import gpunode_on

# Half a second of work every four seconds.
BURSTS = ",".join(["100"] * 2 + ["0"] * 14)
PID = "4294901"


def started(machine, root, *words, **environment):
    return subprocess.Popen(
        [sys.executable, gpunode_on.__file__, str(root), "--", "share", "advise", *words],
        env=machine.environment(**environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process):
    try:
        output, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    return process.returncode, output, errors


def advise(machine, root, *words, **environment):
    done = forked.run(
        [sys.executable, gpunode_on.__file__, str(root), "--", "share", "advise", *words],
        env=machine.environment(**environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr


def busy(machine, gpu, utilisation, gib=0, sm=None):
    machine.control("set", "gpu.{0}.course.step_ms".format(gpu), "250")
    machine.control("set", "gpu.{0}.utilization.gpu_percent".format(gpu), utilisation)
    if gib:
        machine.control("process", "add", str(gpu), PID, str(gib * 1024))
    if sm is not None:
        machine.control("set", "gpu.{0}.gpm.sm_percent".format(gpu), sm)


def kinds(document):
    return [gpu["advice"] and gpu["advice"]["kind"] for gpu in document["gpus"]]


def test_each_gpu_of_an_a100_node_gets_the_advice_for_what_ran_on_it(nvml_simulator, tmp_path):
    machine = nvml_simulator("nd96asr_v4")
    busy(machine, 0, "14", 4)
    busy(machine, 1, "98", 30)
    busy(machine, 2, BURSTS, 4)
    busy(machine, 4, "0", 8)
    machine.control("fault", "gpu", "5", "lost")
    # In the sixth of turns in which seven GPUs are asked.
    machine.control("fault", "call", "nvmlDeviceGetUtilizationRates", "gpu", "6", "after", "40", "hang")
    machine.control("set", "gpu.7.mig_mode", "1")
    machine.control("gpu-reset", "7")
    machine.control("set", "gpu.7.gi.1", "2 0")
    status, output, errors = advise(machine, tmp_path, "--seconds", "12", "--interval", "0.5", "--json")
    document = json.loads(output)
    assert (status, errors, document["status"]) == (1, "", "partial"), errors
    assert kinds(document) == [
        "mig", "dedicated", "time-slice", "not-enough-seen", "not-enough-seen", None, None, "not-enough-seen",
    ]  # fmt: skip
    light, full, bursts, idle, held, lost, hung, divided = document["gpus"]
    assert light["advice"]["mig"]["profile"] == "2g.10gb" and light["advice"]["mig"]["count"] == 3
    assert light["seen"]["sm_percent"] is None and "Hopper" in light["advice"]["notes"][0]
    assert (light["seen"]["busy_percent"], light["seen"]["processes"]) == (14, 1)
    assert light["seen"]["memory_peak_bytes"] == 4 * 1024**3
    assert full["advice"]["time_slice"] is None and full["advice"]["mig"] is None
    assert bursts["seen"]["busy_peak_percent"] == 100 and 4 < bursts["seen"]["busy_percent"] < 25
    assert 2 <= bursts["advice"]["time_slice"]["replicas"] == document["replicas"] <= 8
    assert "nothing ran" in idle["advice"]["reasons"][0] and "held 8.0 GiB" in held["advice"]["reasons"][0]
    assert "GPU_IS_LOST" in lost["fault"]["message"]
    assert hung["fault"]["kind"] == "hung" and "nvmlDeviceGetUtilizationRates" in hung["fault"]["message"]
    assert hung["seen"]["samples"] == 5
    assert "no process was seen in 1 of its 1 instances: 3g.20gb at 0" in divided["advice"]["reasons"]
    # What one GPU hung is no time in which the others were seen.
    assert all(one["seen"]["samples"] >= 22 and 11 < one["seen"]["seconds"] < 14 for one in (light, full, idle))
    assert document["layouts"] == [{"gpus": ["0001:00:00.0"], "instances": [{"profile": "2g.10gb", "count": 3}]}]
    assert document["figures"]["time_slicing_loss_percent"]["value"] == 38


def test_an_h100_tells_how_many_multiprocessors_have_work(nvml_simulator, tmp_path):
    machine = nvml_simulator("nd96isr_h100_v5")
    busy(machine, 0, "100", 4, "7,8,9,8")
    busy(machine, 1, "100", 4, "7,8,9,8")
    busy(machine, 2, "100", 60, "92")
    busy(machine, 3, BURSTS, 4, BURSTS)
    busy(machine, 4, "100", 4, "8")
    machine.control("fault", "call", "nvmlGpmSampleGet", "gpu", "4", "return", "NO_PERMISSION")
    machine.control("set", "gpu.3.compute_mode", "3")
    busy(machine, 6, "10", 1, "5")
    process = started(machine, tmp_path, "--seconds", "12", "--interval", "0.5", "--json")
    time.sleep(6)
    machine.control("process", "add", "6", "4294902", str(30 * 1024))
    time.sleep(2)
    machine.control("process", "remove", "6", "4294902")
    status, output, errors = ended(process)
    document = json.loads(output)
    assert (status, errors) == (0, "")
    assert kinds(document) == [
        "mig", "mig", "dedicated", "time-slice", "dedicated", "not-enough-seen", "mig", "not-enough-seen",
    ]  # fmt: skip
    narrow, _alike, full, bursts, silent, _idle, grown, _other = document["gpus"]
    assert (narrow["advice"]["mig"]["profile"], narrow["advice"]["mig"]["count"]) == ("1g.10gb", 7)
    assert narrow["seen"]["busy_percent"] == 100 and narrow["seen"]["sm_percent"] == pytest.approx(8, abs=0.5)
    assert full["seen"]["sm_peak_percent"] == pytest.approx(92) and full["seen"]["occupancy_percent"] == 0
    assert any("set it to default" in note for note in bursts["advice"]["notes"])
    assert silent["seen"]["sm_percent"] is None and "not told: " in silent["advice"]["notes"][0]
    # What was there for two seconds counts.
    assert grown["seen"]["memory_peak_bytes"] == 31 * 1024**3 and grown["seen"]["processes"] == 2
    assert (grown["advice"]["mig"]["profile"], grown["advice"]["time_slice"]["replicas"]) == ("3g.40gb", 2)
    assert document["layouts"][0] == {
        "gpus": [narrow["pci_address"], _alike["pci_address"]],
        "instances": [{"profile": "1g.10gb", "count": 7}],
    }


def test_a_node_gets_the_number_of_its_fullest_gpu():
    def judged(replicas, kind=TIME_SLICE):
        advice = Advice(kind, ("why",), (), TimeSlice(replicas, 38, 0))
        return share.Judged(Identity(0), Use(60.0, 60), advice, None)

    assert share._replicas([judged(7), judged(3), judged(5), judged(2, MIG)]) == 3
    assert share._replicas([judged(2, MIG)]) is None


def test_the_text_fits_80_columns_and_has_what_to_set(nvml_simulator, tmp_path):
    machine = nvml_simulator("nd96asr_v4", "gpu.count=4")
    busy(machine, 0, "14", 4)
    busy(machine, 1, "5", 4)
    machine.control("fault", "gpu", "2", "lost")
    busy(machine, 3, BURSTS, 4)
    status, output, errors = advise(machine, tmp_path, "--seconds", "11", "--interval", "0.5")
    lines = output.splitlines()
    assert (status, errors) == (1, "") and max(map(len, lines)) <= 80, output
    assert "4 x NVIDIA A100-SXM4-40GB, seen for 11 s, every 0.5 s" in lines[0] or "3 x NVIDIA" in lines[0]
    rows = {line.split()[0]: line for line in lines[1:6]}
    assert rows["0"].endswith("mig 3 x 2g.10gb") and "14/14%" in rows["0"] and "4.0/" in rows["0"]
    assert rows["1"].endswith("mig 4 x 1g.10gb") and rows["2"].endswith("DOES NOT ANSWER")
    replicas = rows["3"].rpartition("time-slice x ")[2]
    assert "  slurm_hooks_shards_per_gpu: {0}".format(replicas) in lines
    assert "GPU_IS_LOST" in output
    # Once, and not for each GPU.
    assert " ".join(output.split()).count("note: GPU 0-1,3: a kernel counts as if it used all multiprocessors") == 1
    written = yaml.safe_load(output[output.index("mig_layout_layouts:") :].partition("\nGPU ")[0])
    assert written["mig_layout_layouts"] == [
        {"gpus": ["0001:00:00.0"], "instances": [{"profile": "2g.10gb", "count": 3}]},
        {"gpus": ["0002:00:00.0"], "instances": [{"profile": "1g.10gb", "count": 4}]},
    ]


def test_an_interrupt_ends_the_look_with_what_was_seen(nvml_simulator, tmp_path):
    machine = nvml_simulator("nd96asr_v4", "gpu.count=2")
    busy(machine, 0, "98", 4)
    for everybody in (False, True):
        process = started(machine, tmp_path, "--interval", "0.2", "--json")
        time.sleep(4)
        began = time.monotonic()
        if everybody:  # as a terminal does: the child gets it, too
            children = subprocess.run(
                ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True
            )
            for child in children.stdout.split():
                subprocess.run(["kill", "-INT", child], check=True)
        process.send_signal(signal.SIGINT)
        status, output, errors = ended(process)
        document = json.loads(output)
        assert (status, errors) == (0, "") and time.monotonic() - began < 3
        assert kinds(document) == ["not-enough-seen"] * 2
        seen = document["gpus"][0]["seen"]
        assert 5 <= seen["samples"] <= 20 and seen["busy_percent"] == 98
        assert "are too few" in document["gpus"][0]["advice"]["reasons"][0]


def test_gpus_can_be_named_by_place_and_by_option(nvml_simulator, tmp_path):
    machine = nvml_simulator("nd96asr_v4", "gpu.count=4")
    for words in (("1", "0004:00:00.0"), ("--gpu", "1,3"), ("1", "--gpu", "3"), ("1,3",)):
        status, output, errors = advise(machine, tmp_path, *words, "--seconds", "1", "--json")
        assert (status, errors) == (0, "")
        assert [gpu["index"] for gpu in json.loads(output)["gpus"]] == [1, 3]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("9",), "this machine has no such GPU"),
        (("0,",), "'0,' names no GPU"),
        (("--seconds", "0"), "no number of seconds from 1 to 86400"),
        (("--seconds", "nan"), "no number of seconds"),
        (("--interval", "0.1"), "no number of seconds from 0.2 to 60"),
        (("--seconds", "7200"), "more than 3600 samples; choose an interval of 2.0 or more"),
        (("--secnds", "7"), "did you mean '--seconds'"),
    ],
)
def test_wrong_use_is_a_sentence(nvml_simulator, tmp_path, words, told):
    machine = nvml_simulator("nd96asr_v4", "gpu.count=2")
    status, output, errors = advise(machine, tmp_path, *words)
    assert (status, output) == (2, "") and told in errors and errors.count("\n") == 1
    status, output, errors = advise(machine, tmp_path, *words, "--json")
    assert (status, errors) == (2, "") and told in json.loads(output)["error"]["message"]


def test_without_a_gpu_there_is_nothing_to_advise(nvml_simulator, tmp_path):
    machine = nvml_simulator("nd96asr_v4")
    machine.control("fault", "driver", "not-loaded")
    status, output, errors = advise(machine, tmp_path)
    assert (status, errors) == (0, "") and output.startswith("The PCI bus has no NVIDIA GPU")
    assert advise(machine, tmp_path, "0")[0] == 2


def test_long_steps_are_told_where_the_driver_tells_a_second(nvml_simulator, tmp_path):
    machine = nvml_simulator("nd96asr_v4", "gpu.count=1")
    assert "note: a driver tells of the last second at most, and the samples are 1.5 s apart" in " ".join(
        advise(machine, tmp_path, "--seconds", "2", "--interval", "1.5")[1].split()
    )
    assert "at most, and the samples" not in advise(machine, tmp_path, "--seconds", "2")[1]
