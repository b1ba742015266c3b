# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sessions over simulated machines, through NVIDIA's own binding: bad GPUs do not hide good ones."""

from __future__ import annotations

import json
import os
import time

import pytest

pytest.importorskip("pynvml", reason="needs nvidia-ml-py")

# Ask every GPU for its name and a temperature, and print what came back. The PCI bus is that of argv[2].
CODE = """
import json, sys, time
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.session import survey
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError

def visit(gpu):
    yield gpu.read("nvmlDeviceGetName").value
    yield gpu.read("nvmlDeviceGetTemperature", 0).value
    yield len(gpu.peers)

options = json.loads(sys.argv[1])
started = time.monotonic()
try:
    answer = survey(visit, host=Host(sys.argv[2]), **options)
except NodeError as error:
    print(json.dumps({"error": str(error)}))
else:
    print(json.dumps({
        "status": answer.status.value,
        "message": answer.message,
        "driver": answer.system.driver_version.value,
        "gpu_count": answer.gpu_count,
        "error": None if answer.error is None else str(answer.error),
        "seconds": time.monotonic() - started,
        "visits": [
            {
                "index": visit.identity.index,
                "pci_address": visit.identity.pci_address,
                "parts": visit.parts,
                "kind": visit.fault and visit.fault.kind.value,
                "call": visit.fault and visit.fault.call,
                "fault": visit.fault and str(visit.fault),
            }
            for visit in answer.visits
        ],
    }))
"""


@pytest.fixture
def bus(tmp_path):
    """A PCI bus with the eight GPUs of an ND96asr_v4; ``bus(n)`` with the first n of them."""

    def make(count=8):
        for address in ("0001", "0002", "0003", "0004", "000b", "000c", "000d", "000e")[:count]:
            folder = tmp_path / "sys/bus/pci/devices" / (address + ":00:00.0")
            folder.mkdir(parents=True)
            (folder / "vendor").write_text("0x10de\n")
            (folder / "class").write_text("0x030200\n")
        return str(tmp_path)

    return make


def survey(machine, root="/nowhere", **options):
    return machine.python(CODE, json.dumps(options), root)


def test_eight_gpus_answer(nvml_simulator, bus):
    answer = survey(nvml_simulator("nd96asr_v4"), bus())
    assert (answer["status"], answer["message"], answer["gpu_count"]) == ("ok", "8 GPUs answered.", 8)
    assert [visit["index"] for visit in answer["visits"]] == list(range(8))
    assert answer["visits"][3]["pci_address"] == "0004:00:00.0"
    assert all(visit["parts"][0] == "NVIDIA A100-SXM4-40GB" and visit["parts"][2] == 7 for visit in answer["visits"])
    assert answer["driver"]


def test_only_the_selected_gpus_are_visited_and_know_their_peers(nvml_simulator, bus):
    answer = survey(nvml_simulator("nd96asr_v4"), bus(), selectors=["5", "00000002:00:00.0"])
    assert [(visit["index"], visit["parts"][2]) for visit in answer["visits"]] == [(1, 7), (5, 7)]


def test_an_unknown_gpu_is_refused_before_anything_is_visited(nvml_simulator, bus):
    answer = survey(nvml_simulator("nd96asr_v4", "gpu.count=2"), bus(2), selectors=["0", "GPU-none"])
    assert answer["error"].startswith(
        "GPU 'GPU-none': this machine has no such GPU; choose among 0 = 0001:00:00.0 = GPU-"
    )


def test_one_lost_gpu_does_not_hide_the_other_seven(nvml_simulator, bus):
    machine = nvml_simulator("nd96asr_v4")
    machine.control("fault", "gpu", "3", "lost")
    answer = survey(machine, bus())
    assert answer["status"] == "partial"
    assert [visit["index"] for visit in answer["visits"] if visit["fault"] is None] == [0, 1, 2, 4, 5, 6, 7]
    lost = answer["visits"][3]
    # NVML tells nothing of a lost GPU; the PCI bus has exactly one address left for it.
    assert (lost["kind"], lost["pci_address"]) == ("lost", "0004:00:00.0")
    assert lost["fault"].startswith("GPU 3 (0004:00:00.0): the GPU is lost")
    assert lost["fault"] in answer["message"]


def test_a_lost_gpu_that_was_not_asked_for_is_not_told(nvml_simulator, bus):
    machine = nvml_simulator("nd96asr_v4")
    machine.control("fault", "gpu", "3", "lost")
    answer = survey(machine, bus(), selectors=["0"])
    assert (answer["status"], len(answer["visits"])) == ("ok", 1)


def test_two_lost_gpus_are_not_given_each_others_address(nvml_simulator, bus):
    machine = nvml_simulator("nd96asr_v4")
    machine.control("fault", "gpu", "3", "lost")
    machine.control("fault", "gpu", "4", "lost")
    answer = survey(machine, bus())
    assert [visit["pci_address"] for visit in answer["visits"][3:5]] == [None, None]
    assert "GPU 3 (PCI address unknown): the GPU is lost" in answer["message"]


def test_a_gpu_that_is_gone_from_the_driver_is_missed(nvml_simulator, bus):
    machine = nvml_simulator("nd96asr_v4")
    machine.control("fault", "gpu", "7", "absent")
    answer = survey(machine, bus())
    assert (answer["status"], answer["gpu_count"]) == ("partial", 7)
    assert answer["message"].startswith("GPU 000e:00:00.0: the PCI bus has it, the driver does not")


def test_a_hanging_gpu_is_named_with_call_and_limit_and_the_others_are_visited(nvml_simulator, bus):
    machine = nvml_simulator("nd96asr_v4")
    machine.control("fault", "call", "nvmlDeviceGetTemperature", "gpu", "2", "hang")
    answer = survey(machine, bus(), call_timeout=0.5)
    assert answer["status"] == "partial"
    hung = answer["visits"][2]
    assert hung["kind"] == "hung" and hung["call"] == "nvmlDeviceGetTemperature"
    assert hung["parts"] == ["NVIDIA A100-SXM4-40GB"]  # what it told before it hung is kept
    assert hung["fault"].startswith(
        "GPU 2 (0003:00:00.0): the call nvmlDeviceGetTemperature did not return within 0.5 s; "
    )
    assert [visit["index"] for visit in answer["visits"] if len(visit["parts"]) == 3] == [0, 1, 3, 4, 5, 6, 7]
    assert answer["visits"][0]["parts"][2] == 7 and answer["visits"][7]["parts"][2] == 6  # no more calls to GPU 2
    assert answer["seconds"] < 3


def test_a_gpu_that_hangs_before_it_told_its_name(nvml_simulator, bus):
    machine = nvml_simulator("nd96asr_v4", "gpu.count=3")
    machine.control("fault", "call", "nvmlDeviceGetHandleByIndex_v2", "gpu", "1", "hang")
    answer = survey(machine, bus(3), call_timeout=0.5)
    assert [visit["kind"] for visit in answer["visits"]] == [None, "hung", None]
    assert answer["visits"][1]["pci_address"] == "0002:00:00.0"


def test_a_machine_where_every_gpu_hangs_ends_within_its_total_limit(nvml_simulator, bus):
    machine = nvml_simulator("nd96asr_v4")
    machine.control("fault", "call", "nvmlDeviceGetTemperature", "hang")
    answer = survey(machine, bus(), call_timeout=0.4, total_timeout=1.2)
    kinds = [visit["kind"] for visit in answer["visits"]]
    assert kinds.count("hung") >= 2 and kinds.count("out_of_time") >= 3
    assert kinds == sorted(kinds, key=["hung", "out_of_time"].index)
    assert answer["seconds"] < 4


def test_nvml_that_hangs_when_it_is_opened_is_an_error_of_the_machine(nvml_simulator, bus):
    machine = nvml_simulator("nd96asr_v4")
    machine.control("fault", "call", "nvmlInitWithFlags", "hang")
    answer = survey(machine, bus(), call_timeout=0.3)
    assert answer["status"] == "hung" and answer["visits"] == []
    assert "the call nvmlInit did not return within 0.9 s" in answer["error"]


def test_the_driver_is_not_loaded(nvml_simulator, bus):
    machine = nvml_simulator("nd96asr_v4")
    machine.control("fault", "driver", "not-loaded")
    answer = survey(machine, bus())
    assert answer["status"] == "driver_not_loaded" and "the NVIDIA kernel driver is not loaded" in answer["error"]
    assert survey(machine)["status"] == "no_gpu"  # the same image on a machine whose PCI bus has no GPU


def test_library_and_driver_differ(nvml_simulator, bus):
    machine = nvml_simulator("nd96asr_v4")
    machine.control("fault", "driver", "version-mismatch")
    answer = survey(machine, bus())
    assert answer["status"] == "driver_mismatch" and "reboot" in answer["error"]


def test_no_library(nvml_simulator, bus):
    machine = nvml_simulator("nd96asr_v4")
    machine.env["LD_LIBRARY_PATH"] = ""
    with_gpus = survey(machine, bus())
    assert with_gpus["status"] == "no_library" and "libnvidia-ml.so.1 was not found" in with_gpus["error"]
    without = survey(machine)
    assert without["status"] == "no_gpu" and without["error"] is None


def test_the_user_may_not_open_the_driver(nvml_simulator, bus):
    machine = nvml_simulator("nd96asr_v4")
    machine.control("fault", "call", "nvmlInitWithFlags", "return", "NO_PERMISSION")
    answer = survey(machine, bus())
    assert answer["status"] == "no_permission" and "the driver allows this to root only" in answer["error"]
    # Root of a container is not told to be root.
    assert ("run it as root" in answer["error"]) == (os.geteuid() != 0)


def test_a_getter_that_is_not_permitted_is_a_reading_without_a_value(nvml_simulator, bus):
    machine = nvml_simulator("nd96asr_v4", "gpu.count=1")
    machine.control("fault", "call", "nvmlDeviceGetTemperature", "return", "NO_PERMISSION")
    answer = survey(machine, bus(1))
    assert answer["status"] == "ok" and answer["visits"][0]["parts"] == ["NVIDIA A100-SXM4-40GB", None, 0]


def test_a_bug_of_a_visitor_is_the_fault_of_one_gpu(nvml_simulator):
    code = CODE.replace("    yield len(gpu.peers)\n", "    yield 1 // gpu.identity.index\n")
    assert code != CODE
    answer = nvml_simulator("nd96asr_v4", "gpu.count=3").python(code, "{}", "/nowhere")
    assert [visit["kind"] for visit in answer["visits"]] == ["failed", None, None]
    assert "ZeroDivisionError" in answer["visits"][0]["fault"]


def test_a_crash_in_the_library_is_the_fault_of_one_gpu(nvml_simulator):
    crash = "    import os, signal\n    gpu.identity.index == 1 and os.kill(os.getpid(), signal.SIGSEGV)\n"
    code = CODE.replace("    yield len(gpu.peers)\n", crash + "    yield len(gpu.peers)\n")
    answer = nvml_simulator("nd96asr_v4", "gpu.count=3").python(code, "{}", "/nowhere")
    assert [visit["kind"] for visit in answer["visits"]] == [None, "failed", None]
    assert "child process ended" in answer["visits"][1]["fault"]
    assert answer["visits"][1]["call"] == "nvmlDeviceGetTemperature"


def test_a_hung_child_is_gone_afterwards(nvml_simulator, bus):
    machine = nvml_simulator("nd96asr_v4", "gpu.count=2")
    machine.control("fault", "call", "nvmlDeviceGetTemperature", "gpu", "0", "hang")
    survey(machine, bus(2), call_timeout=0.3)
    time.sleep(0.2)
    marker = str(machine.state).encode()
    left = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/{0}/environ".format(pid), "rb") as stream:
                if marker in stream.read():
                    left.append(pid)
        except OSError:
            continue
    assert left == []


IN_TURN = """
import itertools, json, sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.session import survey

steps = itertools.count()

def visit(gpu):
    for _turn in range(3):
        gpu.read("nvmlDeviceGetName")
        yield next(steps)
        gpu.nvml.pause(float(sys.argv[1]))

answer = survey(visit, call_timeout=float(sys.argv[2]), in_turn=True)
print(json.dumps([[visit.parts, visit.fault and visit.fault.kind.value] for visit in answer.visits]))
"""


def test_in_turn_each_gpu_makes_a_step_before_any_makes_its_next(nvml_simulator):
    visits = nvml_simulator("nd96asr_v4", "gpu.count=3").python(IN_TURN, "0", "10")
    assert visits == [[[0, 3, 6], None], [[1, 4, 7], None], [[2, 5, 8], None]]


def test_a_pause_is_no_call_that_hangs(nvml_simulator):
    assert nvml_simulator("nd96asr_v4", "gpu.count=1").python(IN_TURN, "0.7", "0.3") == [[[0, 1, 2], None]]


def test_in_turn_a_gpu_that_hangs_keeps_what_it_told_and_the_others_begin_anew(nvml_simulator):
    machine = nvml_simulator("nd96asr_v4", "gpu.count=3")
    # Calls of the process: three when the GPUs are opened, three in the first turn, that of GPU 0 in the second.
    machine.control("fault", "call", "nvmlDeviceGetName", "gpu", "1", "after", "7", "hang")
    (first, one), (second, two), (third, three) = machine.python(IN_TURN, "0", "1")
    assert (one, two, three) == (None, "hung", None)
    assert second == [1] and first == [0, 3, 0, 2, 4] and third == [2, 1, 3, 5]
