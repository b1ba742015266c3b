# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control program: what it refuses, in which words, and that it then changes nothing."""

from __future__ import annotations

import os
import stat

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.tools.nvml_simulator.asking import ask

REFUSALS = {
    "init nonesuch": "nonesuch: there is no such machine",
    "init nd96asr_v4 --set": "--set: the only option is --set KEY=VALUE",
    "init nd96asr_v4 --set gpu.0.pci_bus_id=1:2": "1:2 is not a PCI address: write it as 0001:00:00.0",
    "init nd96asr_v4 --set gpu.count=65": "gpu.count = 65: 0 to 64 GPUs can be simulated",
    "set gpu.0.numa_node one": "gpu.0.numa_node = one: this key takes a number",
    "set nonsense": "nonsense: write KEY=VALUE",
    "fault gpu 8 lost": "there is no GPU 8: this machine has 8",
    "fault gpu x lost": "x is not the number of a GPU: give a number from 0",
    "fault gpu 0 broken": "broken: a GPU can be lost, absent, recovery-action CODE or xid CODE [TEXT]",
    "fault call nvmlNonesuch hang": "nvmlNonesuch is not a call of the simulator: see nvml-simulator calls",
    "fault call nvmlDeviceGetName return NONSENSE": "NONSENSE is not a return code of NVML: give a number, or ",
    "fault call nvmlDeviceGetName gpu 0 missing": 'a symbol is missing for all GPUs: leave out "gpu N"',
    "fault call nvmlInit hang": "nvmlInit is an old name that nobody calls: name nvmlInitWithFlags (Python) or",
    "fault driver gone": "usage: nvml-simulator fault driver not-loaded | version-mismatch",
    "throttle 0 sadness": "sadness is not a reason: ",
    "ecc add 0 corrected 1 texture": "texture: this GPU counts errors in: dram sram",
    "retire 0 dbe 0x1000": "GPU 0 does not retire pages: it remaps rows (nvml-simulator remap)",
    "nvlink 0 12 down": "GPU 0 has no link 12: it has 12",
    "dance": "there is no command dance: see nvml-simulator help",
    "gpu-reset": "usage: nvml-simulator gpu-reset N",
}


@pytest.mark.parametrize("words", sorted(REFUSALS))
def test_a_wrong_command_ends_in_one_sentence_and_no_change(nvml_simulator, words):
    simulator = nvml_simulator()
    before = {path.name: path.read_bytes() for path in simulator.state.iterdir()}
    done = simulator.run_control(*words.split())
    assert done.returncode == 2
    assert done.stderr.startswith("nvml-simulator: " + REFUSALS[words])
    assert done.stderr.count("\n") == 1 and done.stdout == ""
    assert {path.name: path.read_bytes() for path in simulator.state.iterdir()} == before


def test_init_starts_afresh(nvml_simulator):
    simulator = nvml_simulator("nd96asr_v4", "gpu.name=Changed")
    for command in ("set gpu.0.compute_mode 3", "ecc add 0 corrected 1", "fault gpu 1 lost"):
        simulator.control(*command.split())
    simulator.control("init", "nd40rs_v2")
    assert ask(
        simulator,
        "[n.nvmlDeviceGetName(gpu(0)), n.nvmlDeviceGetComputeMode(gpu(0)),"
        " n.nvmlDeviceGetTotalEccErrors(gpu(0), 0, 1)]",
    ) == [
        "Tesla V100-SXM2-32GB",
        0,
        0,
    ]
    assert simulator.control("fault", "list") == ""


def test_init_takes_a_path(nvml_simulator, tmp_path):
    own = tmp_path / "own.conf"
    own.write_text("# mine\nmachine.name = own\ndriver.version = 580.1\ngpu.count = 2\ngpu.name = Own GPU\n")
    simulator = nvml_simulator(str(own))
    assert ask(simulator, "[n.nvmlDeviceGetCount(), n.nvmlDeviceGetName(gpu(1))]") == [2, "Own GPU"]


def test_a_machine_file_of_the_environment_is_used_and_not_overwritten(nvml_simulator):
    simulator = nvml_simulator()
    path = str(simulator.built / "machines" / "nd40rs_v2.conf")
    environment = {"NVML_SIMULATOR_MACHINE": path}
    assert ask(simulator, "n.nvmlDeviceGetName(gpu(0))", **environment) == "Tesla V100-SXM2-32GB"
    assert simulator.run_control("init", "nd96asr_v4", **environment).returncode == 2
    simulator.control("init", "nd40rs_v2", **environment)
    assert ask(simulator, "n.nvmlDeviceGetName(gpu(0))") == "NVIDIA A100-SXM4-40GB"


def test_set_and_get_and_unset_agree(nvml_simulator):
    simulator = nvml_simulator()
    assert simulator.control("get", "gpu.0.name") == "NVIDIA A100-SXM4-40GB\n"
    simulator.control("set", "gpu.0.name", "Other")
    assert simulator.control("get", "gpu.0.name") == "Other\n"
    assert simulator.control("get", "gpu.1.name") == "NVIDIA A100-SXM4-40GB\n"
    simulator.control("unset", "gpu.0.name")
    assert simulator.control("get", "gpu.0.name") == "NVIDIA A100-SXM4-40GB\n"
    assert simulator.run_control("get", "gpu.0.nonesuch").returncode == 1


def test_what_is_set_ends_where_it_belongs(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("set", "gpu.0.temperature.gpu", "91")
    simulator.control("set", "gpu.0.persistence_mode", "1")
    simulator.control("set", "gpu.0.ecc_mode", "0")
    simulator.control("reboot")
    assert ask(
        simulator,
        "[n.nvmlDeviceGetTemperature(gpu(0), 0), n.nvmlDeviceGetPersistenceMode(gpu(0)),"
        " n.nvmlDeviceGetEccMode(gpu(0))]",
    ) == [
        91,
        0,
        [0, 0],
    ]


def test_show_tells_settings_and_readings(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("set", "gpu.2.locked.graphics_min_mhz", "1410")
    text = simulator.control("show", "gpu", "2")
    assert "gpu.2.locked.graphics_min_mhz = 1410\n" in text
    assert "gpu.2.clock.graphics_mhz = 1410\n" in text
    assert "gpu.3." not in text


def test_a_gpu_in_use_is_not_reset(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("process", "add", "0", "4242", "10")
    assert (
        simulator.run_control("gpu-reset", "0").stderr == "nvml-simulator: GPU 0 is in use by a process: end it first\n"
    )


def test_state_is_readable_for_others_whatever_the_umask(nvml_simulator):
    simulator = nvml_simulator()
    before = os.umask(0o077)
    try:
        simulator.control("set", "gpu.0.persistence_mode", "1")
    finally:
        os.umask(before)
    for name in ("driver.state", "lock"):
        assert stat.S_IMODE((simulator.state / name).stat().st_mode) == 0o644


def test_help_names_every_command(nvml_simulator):
    text = nvml_simulator().control("help")
    for command in (
        "init",
        "fault",
        "clear",
        "gpu-reset",
        "driver-reload",
        "reboot",
        "throttle",
        "ecc",
        "remap",
        "retire",
        "process",
        "nvlink",
    ):
        assert "nvml-simulator {0} ".format(command) in text
