# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of GPUs: each is told as exactly what it is, and nothing else moves; a healthy machine is quiet."""

from __future__ import annotations

import json

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks.health_on_simulator import (
    MACHINES,
    NVSWITCHES,
    Node,
    names,
)

pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
pytest.importorskip("yaml", reason="needs PyYAML")

V100, A100, H100 = "nd40rs_v2", "nd96asr_v4", "nd96isr_h100_v5"
HEAT, BRAKE = "hardware_thermal_slowdown", "hardware_power_brake_slowdown"


@pytest.fixture(name="node")
def _node(nvml_simulator, tmp_path):
    def make(machine=H100, *settings, profile=True):
        return Node(nvml_simulator(machine, *settings), machine, tmp_path, profile)

    return make


@pytest.mark.sampled(8)
@pytest.mark.parametrize("profile", [True, False], ids=["profile", "unknown"])
@pytest.mark.parametrize("machine", MACHINES)
def test_a_healthy_machine_is_quiet(node, machine, profile):
    verdict = node(machine, profile=profile).verdict()
    assert names(verdict) == []
    assert verdict["outcome"] == "pass"
    assert {"gpu_driver", "gpu_count", "gpu_lost", "gpu_temperature", "gpu_xid"} <= {
        one["id"] for one in verdict["results"]
    }


def test_a_machine_without_gpu_has_nothing_to_check(node, tmp_path):
    machine = node(H100, "gpu.count=0", profile=False)
    for gpu in machine.gpus:
        (tmp_path / "sys/bus/pci/devices" / gpu / "vendor").unlink()
    verdict = machine.verdict()
    assert names(verdict) == [] and verdict["results"] == []


def test_a_machine_whose_gpus_have_all_left(node):
    sick = node(H100, "gpu.count=0")
    assert names(sick.verdict()) == [("gpu_count", "unclaimed", "fail", "reboot", gpu) for gpu in sorted(sick.gpus)]


# name → machine, what breaks it (words of nvml-simulator), and what is told: check, code, outcome, action, GPU.
# Each GPU of a fault is the one with index 3, or all of them.
SIMULATED = {
    "lost": (H100, ["fault gpu 3 lost"], ("gpu_lost", "lost", "fail", "reboot")),
    "absent": (H100, ["fault gpu 3 absent"], ("gpu_count", "unclaimed", "fail", "reboot")),
    "reset required": (
        H100,
        ["fault call nvmlDeviceGetRemappedRows gpu 3 return RESET_REQUIRED"],
        # The driver refuses, so it cannot be told how many rows were remapped.
        ("gpu_lost", "reset_required", "fail", "reset_gpu"),
    ),
    "asks for a reset": (
        H100,
        ["fault gpu 3 recovery-action 1"],
        ("gpu_recovery_action", "gpu_reset", "fail", "reset_gpu"),
    ),
    "asks for a reboot": (
        H100,
        ["fault gpu 3 recovery-action 2"],
        ("gpu_recovery_action", "node_reboot", "fail", "reboot"),
    ),
    "asks for quiet": (
        H100,
        ["fault gpu 3 recovery-action 3"],
        ("gpu_recovery_action", "drain_p2p", "fail", "reset_gpu"),
    ),
    "asks for a reset later": (
        H100,
        ["fault gpu 3 recovery-action 4"],
        ("gpu_recovery_action", "drain_and_reset", "warn", "reset_gpu"),
    ),
    "asks for what is newer": (
        H100,
        ["fault gpu 3 recovery-action 99"],
        ("gpu_recovery_action", "unknown", "fail", "look"),
    ),
    "remap pending": (A100, ["remap 3 correctable 1 pending"], ("gpu_row_remap", "pending", "warn", "reset_gpu")),
    "remap failed": (A100, ["remap 3 uncorrectable 9 failure"], ("gpu_row_remap", "failure", "fail", "replace")),
    "too many rows": (A100, ["remap 3 uncorrectable 513"], ("gpu_row_remap", "rows", "fail", "replace")),
    "corrected errors": (
        A100,
        ["ecc add 3 corrected 20000001 dram"],
        ("gpu_ecc", "corrected_dram", "fail", "replace"),
    ),
    "corrected errors of the SRAM": (
        A100,
        ["ecc add 3 corrected 10001 sram"],
        ("gpu_ecc", "corrected_sram", "fail", "replace"),
    ),
    "uncorrected errors": (A100, ["ecc add 3 uncorrected 1 dram"], ("gpu_ecc", "uncorrected", "warn", "reset_gpu")),
    "uncorrected errors of a V100": (
        V100,
        ["ecc add 3 uncorrected 1 dram"],
        ("gpu_ecc", "uncorrected", "fail", "reset_gpu"),
    ),
    "ECC counters cannot be read": (
        H100,
        ["fault call nvmlDeviceGetTotalEccErrors gpu 3 return UNKNOWN"],
        ("gpu_ecc", "unread", "unknown", "look"),
    ),
    "fabric not joined": (H100, ["set gpu.3.fabric.state 2"], ("gpu_fabric", "state", "fail", "restart_service")),
    "fabric refused": (H100, ["set gpu.3.fabric.status 999"], ("gpu_fabric", "status", "fail", "restart_service")),
    "fabric unhealthy": (H100, ["set gpu.3.fabric.health_summary 2"], ("gpu_fabric", "unhealthy", "fail", "reset_gpu")),
    "fabric degraded": (H100, ["set gpu.3.fabric.health_summary 3"], ("gpu_fabric", "degraded", "warn", "reset_gpu")),
    "NVLink down": (H100, ["nvlink 3 7 down"], ("gpu_nvlink", "links", "fail", "reset_gpu")),
    "power brake": (
        H100,
        ["throttle 3 hw_slowdown hw_power_brake"],
        ("gpu_slowdown", "hardware_power_brake_slowdown", "warn", "replace"),
    ),
    "too hot": (
        H100,
        ["throttle 3 sw_power_cap sw_thermal hw_thermal"],
        ("gpu_slowdown", "hardware_thermal_slowdown", "warn", "replace"),
    ),
    "slowed by the driver": (
        H100,
        ["throttle 3 sw_thermal"],
        ("gpu_slowdown", "software_thermal_slowdown", "warn", "look"),
    ),
    "slowed by the hardware": (
        H100,
        ["throttle 3 hw_slowdown"],
        ("gpu_slowdown", "hardware_slowdown", "warn", "replace"),
    ),
    # Its highest operating temperature is 87 °C, and the hardware slows down 2 °C beyond it.
    "beyond its highest operating temperature": (
        H100,
        ["set gpu.3.temperature.gpu 89"],
        ("gpu_temperature", "operating", "warn", "look"),
    ),
    "beyond the temperature of a slowdown": (
        H100,
        ["set gpu.3.temperature.gpu 90"],
        ("gpu_temperature", "slowdown", "fail", "look"),
    ),
    "at the slowdown temperature, before T.Limit": (
        A100,
        ["set gpu.3.temperature.gpu 89"],
        ("gpu_temperature", "slowdown", "fail", "look"),
    ),
    "a temperature that is none": (
        H100,
        ["set gpu.3.temperature.gpu 4294967295"],
        ("gpu_temperature", "unread", "unknown", "look"),
    ),
    "clocks that cannot be read": (
        H100,
        ["fault call nvmlDeviceGetClockInfo gpu 3 return UNKNOWN"],
        ("gpu_performance", "unread", "unknown", "look"),
    ),
    "a name that is no text": (H100, ["set gpu.3.name \udcff\udcfe"], ("gpu_product", "unread", "unknown", "look")),
    "a power limit that nobody declared": (
        H100,
        ["set gpu.3.power.limit_mw 400000"],
        ("gpu_performance", "power_limit", "warn", "configure"),
    ),
    "persistence that nobody declared": (
        H100,
        ["set gpu.3.persistence_mode 0"],
        ("gpu_performance", "persistence", "warn", "configure"),
    ),
    "lower clocks than the profile": (
        H100,
        ["set gpu.3.clocks.supported 2619:345-1755/15"],
        ("gpu_performance", "graphics_clock_max_mhz", "warn", "look"),
    ),
    "above the limit of the profile": (
        V100,
        ["set gpu.3.temperature.slowdown 100", "set gpu.3.temperature.gpu 94"],
        ("gpu_temperature", "limit", "warn", "look"),
    ),
    "hot memory": (H100, ["set gpu.3.temperature.memory 95"], ("gpu_temperature", "memory", "fail", "look")),
    "narrow PCIe link": (H100, ["set gpu.3.pcie.width 8"], ("gpu_pcie", "width", "fail", "replace")),
    "another product": (
        H100,
        ["set gpu.3.name 'NVIDIA H100 PCIe'"],
        ("gpu_product", "product", "fail", "configure"),
    ),
    "less memory": (H100, ["set gpu.3.memory.total_mib 70000"], ("gpu_product", "memory", "fail", "replace")),
    "corrupted InfoROM": (
        H100,
        ["fault call nvmlDeviceValidateInforom gpu 3 return CORRUPTED_INFOROM"],
        ("gpu_inforom", "corrupted", "fail", "replace"),
    ),
    "InfoROM that cannot be read": (
        H100,
        ["fault call nvmlDeviceValidateInforom gpu 3 return UNKNOWN"],
        ("gpu_inforom", "unread", "unknown", "look"),
    ),
    "another VBIOS": (H100, ["set gpu.3.vbios 96.00.30.00.01"], ("gpu_firmware", "vbios", "warn", "look")),
}


# The judges have each of them in test_gpu_readings.py.
@pytest.mark.sampled(14)
@pytest.mark.parametrize("fault", SIMULATED)
def test_a_fault_is_told_and_nothing_else_moves(node, fault):
    machine, commands, told = SIMULATED[fault]
    sick = node(machine)
    for command in commands:
        words = command.split(" ", 2)
        sick.simulator.control(*([*words[:2], words[2].strip("'")] if words[0] == "set" else command.split()))
    found = names(sick.verdict())
    if fault == "reset required":
        found = [one for one in found if one[1] != "unread"]
    assert found == [(*told, sick.gpus[3])]


def test_a_gpu_that_hangs_is_named_and_the_rest_goes_on(node):
    sick = node(H100)
    sick.simulator.control(*"fault call nvmlDeviceGetMemoryInfo_v2 gpu 3 hang".split())
    sick.simulator.control(*"fault call nvmlDeviceGetMemoryInfo gpu 3 hang".split())
    verdict = sick.verdict(call_timeout=0.5)
    assert names(verdict) == [("gpu_lost", "hung", "fail", "reboot", sick.gpus[3])]
    assert verdict["seconds"] < 30


def test_a_gpu_that_hangs_when_asked_for_its_processes(node):
    sick = node(H100)
    sick.simulator.control(*"fault call nvmlDeviceGetComputeRunningProcesses_v3 gpu 3 hang".split())
    assert names(sick.verdict()) == [("gpu_processes", "silent", "unknown", "reboot", sick.gpus[3])]


@pytest.mark.parametrize(
    ("command", "code", "outcome", "action"),
    [
        ("fault driver not-loaded", "driver_not_loaded", "fail", "reboot"),
        ("fault driver version-mismatch", "driver_mismatch", "fail", "reboot"),
        ("fault call nvmlInitWithFlags return UNKNOWN", "failed", "fail", "look"),
    ],
)
def test_a_driver_that_does_not_answer_is_told_once(node, command, code, outcome, action):
    sick = node(H100)
    sick.declare(gpu_settings={"persistence": True})
    sick.simulator.control(*command.split())
    verdict = sick.verdict()
    assert names(verdict) == [("gpu_driver", code, outcome, action, "")]
    assert {"gpu_lost", "gpu_ecc", "gpu_settings", "gpu_processes"} <= set(verdict["not_applicable"])


def test_a_gpu_that_left_the_bus_is_counted(node, tmp_path):
    sick = node(H100)
    sick.simulator.control(*"fault gpu 3 absent".split())
    (tmp_path / "sys/bus/pci/devices" / sick.gpus[3] / "vendor").unlink()
    assert names(sick.verdict()) == [("gpu_count", "missing", "fail", "replace", "")]


def test_more_gpus_than_the_profile_has_are_the_wrong_profile(node):
    sick = node(V100)
    sick.declaration["profile"]["data"]["gpus"]["count"] = 4
    sick.declare()
    assert names(sick.verdict()) == [("gpu_count", "too_many", "fail", "configure", "")]


LEGACY = (
    "NVRM: The NVIDIA GeForce GT 710 GPU installed in this system is\\x0aNVRM:  supported through the NVIDIA 470.xx "
    "Legacy drivers. Please\\x0aNVRM:  visit http://www.nvidia.com/object/unix.html for more\\x0aNVRM:  information.  "
    "The 580.95.05 NVIDIA driver will ignore\\x0aNVRM:  this GPU.  Continuing probe..."
)
IGNORING = "NVRM: ignoring the legacy GPU 0000:03:00.0"
NOT_SUPPORTED = (
    "NVRM: The NVIDIA GPU 0000:03:00.0 (PCI ID: 10de:128b)\\x0aNVRM: installed in this system is not supported by the"
    "\\x0aNVRM: NVIDIA 580.95.05 driver release."
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lines", [[LEGACY], [IGNORING], [LEGACY, IGNORING], [NOT_SUPPORTED]])
def test_a_display_card_that_the_driver_ignores_is_not_missing(node, lines):
    healthy = node(H100)
    healthy.pci("0000:03:00.0", "0x030000")
    healthy.log(*[(8.0, line) for line in lines])
    assert names(healthy.verdict("quick")) == []
    healthy.log()  # the same card without a message of the driver
    unclaimed = ("gpu_count", "unclaimed", "fail", "reboot")
    assert (*unclaimed, "0000:03:00.0") in names(healthy.verdict("quick"))
    healthy.log(*[(8.0, line) for line in lines])
    healthy.pci("0000:04:00.0", "0x030000")  # a second card that is not ignored
    assert (*unclaimed, "0000:04:00.0") in names(healthy.verdict("quick"))


def test_an_ignored_display_card_hides_no_lost_gpu(node):
    sick = node(H100)
    for at in (*sick.gpus, "0000:03:00.0"):
        sick.write("sys/bus/pci/devices/{0}/device".format(at), "0x128b\n" if at == "0000:03:00.0" else "0x2330\n")
    sick.pci("0000:03:00.0", "0x030000")
    sick.log((8.0, LEGACY))
    sick.simulator.control("fault", "gpu", "3", "absent")
    assert names(sick.verdict("quick")) == [("gpu_count", "unclaimed", "fail", "reboot", sick.gpus[3])]


def test_a_broken_gpu_that_the_driver_calls_unsupported_is_missing(node):
    sick = node(H100)
    for at in sick.gpus:
        sick.write("sys/bus/pci/devices/{0}/device".format(at), "0x2330\n")
    sick.simulator.control("fault", "gpu", "3", "absent")
    sick.log((8.0, NOT_SUPPORTED.replace("0000:03:00.0", sick.gpus[3]).replace("128b", "2330")))
    assert names(sick.verdict("quick")) == [("gpu_count", "unclaimed", "fail", "reboot", sick.gpus[3])]


def test_a_remapped_memory_error_is_one_warning_if_the_driver_has_no_recovery_action(node):
    sick = node(A100, "driver.version=535.161.08", "gpu.feature.recovery_action=no")
    sick.simulator.control("ecc", "add", "3", "uncorrected", "1", "dram")
    fail = ("gpu_ecc", "uncorrected", "fail", "reset_gpu", sick.gpus[3])
    assert names(sick.verdict("quick")) == [fail]  # nothing shows that the row was replaced
    sick.simulator.control("remap", "3", "uncorrectable", "1")
    assert names(sick.verdict("quick")) == [("gpu_ecc", "uncorrected", "warn", "reset_gpu", sick.gpus[3])]
    bus = "NVRM: Xid (PCI:{0}): ".format(sick.gpus[3][:-2])
    sick.log((100.0, bus + "63, Row Remapper: New row marked for remapping"), (100.0, bus + "94, Contained: SM (0x1)"))
    assert {one[2] for one in names(sick.verdict("quick"))} == {"warn"}
    sick.log((100.0, bus + "95, pid=1, name=x, Uncontained: LTC TAG"))
    assert ("gpu_xid", "xid_95", "fail", "reset_gpu", sick.gpus[3]) in names(sick.verdict("quick"))
    sick.log()
    sick.simulator.control("ecc", "add", "3", "uncorrected", "1", "sram")
    assert fail in names(sick.verdict("quick"))


def test_retired_pages_of_a_v100(node):
    sick = node(V100)
    for page in range(16):
        sick.simulator.control("retire", "3", "dbe", hex(0x1000 + page * 0x10000))
    sick.simulator.control("gpu-reset", "3")
    found = names(sick.verdict())
    assert ("gpu_retired_pages", "double_bit", "warn", "watch", sick.gpus[3]) in found
    assert {one[0] for one in found} == {"gpu_retired_pages"}


def test_ecc_that_is_off_is_told(node):
    sick = node(H100)
    change = "import pynvml; pynvml.nvmlInit(); pynvml.nvmlDeviceSetEccMode(pynvml.nvmlDeviceGetHandleByIndex(3), {0})"
    sick.simulator.python(change.format(0), NVML_SIMULATOR_UID="0")
    assert names(sick.verdict()) == [("gpu_ecc_mode", "changes", "warn", "configure", sick.gpus[3])]
    sick.simulator.control("gpu-reset", "3")
    assert names(sick.verdict()) == [("gpu_ecc_mode", "off", "fail", "configure", sick.gpus[3])]
    sick.simulator.python(change.format(1), NVML_SIMULATOR_UID="0")
    assert names(sick.verdict()) == [("gpu_ecc_mode", "pending", "fail", "reset_gpu", sick.gpus[3])]
    sick.declare(gpu_settings={"ecc": False})
    assert names(sick.verdict()) == [("gpu_ecc_mode", "changes", "warn", "configure", sick.gpus[3])] + [
        ("gpu_ecc_mode", "on", "warn", "configure", gpu) for gpu in sick.gpus if gpu != sick.gpus[3]
    ]


def test_a_slot_that_is_slower_than_those_of_the_others(node):
    sick = node(H100)
    sick.simulator.control("set", "gpu.3.pcie.slot_generation", "3", check=False)
    sick.simulator.control("set", "gpu.3.pcie.max_generation", "3")
    assert names(sick.verdict()) == [("gpu_pcie", "generation", "fail", "replace", sick.gpus[3])]


def test_half_of_the_nvlinks_by_design_is_no_fault(node):
    healthy = node(H100, profile=False)
    for gpu in range(8):
        for link in range(12, 18):
            healthy.simulator.control("nvlink", str(gpu), str(link), "down")
    assert names(healthy.verdict()) == []


def test_fewer_nvlinks_than_the_siblings_without_a_profile(node):
    sick = node(H100, profile=False)
    sick.simulator.control(*"nvlink 3 0 down".split())
    assert names(sick.verdict()) == [("gpu_nvlink", "links", "fail", "reset_gpu", sick.gpus[3])]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("same", []),
        ("535.104.05", [("fabric_manager_version", "version", "fail", "configure", "")]),
        (None, [("fabric_manager_version", "missing", "warn", "configure", "")]),
        ("", [("fabric_manager_version", "unread", "unknown", "look", "")]),
    ],
)
def test_the_fabric_manager_must_be_of_the_driver_version(node, version, told):
    machine = node(A100)
    machine.fabric_manager(machine.driver if version == "same" else version, NVSWITCHES)
    assert names(machine.verdict()) == told


@pytest.mark.sampled(2)
# What grew since the baseline of ten hours ago.
@pytest.mark.parametrize(
    ("machine", "commands", "counter", "told"),
    [
        (
            A100,
            ["ecc add 3 uncorrected 2 dram", "driver-reload"],
            "gpu_ecc_uncorrected_aggregate_errors",
            ("gpu_ecc", "uncorrected_growth", "warn", "watch"),
        ),
        (
            A100,
            ["nvlink 3 0 errors 5"],
            "gpu_nvlink_replay_errors",
            ("gpu_nvlink", "replays", "warn", "watch"),
        ),
        (
            H100,
            ["nvlink 3 0 errors 5000 replay"],
            "gpu_nvlink_replay_errors",
            ("gpu_nvlink", "replays", "warn", "watch"),
        ),
        (
            H100,
            ["nvlink 3 17 errors 5000 recovery"],
            "gpu_nvlink_recovery_errors",
            ("gpu_nvlink", "recoveries", "warn", "watch"),
        ),
        (
            H100,
            ["nvlink 3 17 errors 5000 crc_data"],
            "gpu_nvlink_crc_errors",
            ("gpu_nvlink", "crc_errors", "warn", "watch"),
        ),
        (
            H100,
            ["nvlink 3 17 errors 36000000 crc_data"],  # 1000 a second
            "gpu_nvlink_crc_errors",
            ("gpu_nvlink", "crc_errors", "fail", "reset_gpu"),
        ),
        (
            H100,
            ["set gpu.architecture 10", "set gpu.nvlink.version 7", "nvlink 3 17 errors 1 symbol_errors"],
            "gpu_nvlink_packet_errors",
            ("gpu_nvlink", "packet_errors", "warn", "watch"),
        ),
        (
            A100,
            ["set gpu.3.pcie.replays 9700"],  # 16 a minute and more
            "gpu_pcie_replays",
            ("gpu_pcie", "replays", "warn", "look"),
        ),
    ],
)
def test_a_counter_that_grew_within_a_day(node, machine, commands, counter, told):
    sick = node(machine)
    for command in commands:
        sick.simulator.control(*command.split())
    before = sick.verdict()
    assert names(before) == []  # nothing to compare with yet
    parts = [
        one["parts"]
        for result in before["results"]
        for one in result["measured"]
        if (one["name"], one["key"]) == (counter, sick.gpus[3])
    ]
    sick.baseline((counter, sick.gpus[3] + ("#" + parts[0] if parts[0] else ""), 0.0))
    found = names(sick.verdict())
    assert (*told, sick.gpus[3]) in found
    assert {one[0] for one in found} == {told[0]}


def test_settings_that_are_not_as_declared(node):
    sick = node(H100)
    sick.declare(gpu_settings={"persistence": True, "compute_mode": "default"})
    for gpu in range(8):
        sick.simulator.control("set", "gpu.{0}.persistence_mode".format(gpu), "1")
    assert names(sick.verdict()) == []
    sick.simulator.control("set", "gpu.3.persistence_mode", "0")
    assert names(sick.verdict()) == [("gpu_settings", "drift", "warn", "configure", sick.gpus[3])]


def test_gpus_that_are_not_divided_as_declared(node):
    sick = node(H100, "gpu.3.mig_mode=yes")
    layout = {"gpus": [sick.gpus[3]], "instances": [{"profile": "3g"}, {"profile": "2g", "compute": ["1c", "1c"]}]}
    sick.declare(mig_layout={"layouts": [layout]})
    lacks = ("gpu_mig_layout", "missing", "fail", "configure", sick.gpus[3])
    # That only one is in MIG mode is as declared, and no finding.
    assert names(sick.verdict()) == [lacks]
    for key, value in (("gi.2", "2 4"), ("ci.2.0", "2 0"), ("gi.3", "1 0"), ("ci.3.0", "0 0"), ("ci.3.1", "0 1")):
        sick.simulator.control("set", "gpu.3." + key, value)
    assert names(sick.verdict()) == []
    # Without root nobody is told what stands, which is not the same as that all stands.
    verdict = sick.verdict(NVML_SIMULATOR_UID="1000")
    found = names(verdict)
    assert ("gpu_mig_layout", "unread", "unknown", "look", "") in found, found
    # One remedy, which is that of the reason.
    told = json.dumps(verdict)
    assert "is told to root only" in told and "mend that GPU" not in told
    sick.simulator.control("set", "gpu.3.gi.11", "0 2")
    assert names(sick.verdict()) == [("gpu_mig_layout", "undeclared", "warn", "configure", sick.gpus[3])]
    sick.simulator.control("unset", "gpu.3.gi.11")
    sick.simulator.control("unset", "gpu.3.ci.3.1")
    assert names(sick.verdict()) == [lacks]
    sick.declare(mig_layout={"layouts": [dict(layout, gpus=[sick.gpus[0]])]})
    told = json.dumps(sick.verdict())
    assert "it lacks what was declared: its MIG mode, 3g.40gb at 4, 2g.20gb at 0, divided into 1c + 1c" in told


def test_a_mode_that_cannot_be_read_does_not_pass_as_declared(node):
    sick = node(H100, "gpu.count=4", "gpu.mig_mode=yes")
    for gpu in range(4):
        for key, value in (("gi.2", "2 4"), ("ci.2.0", "2 0"), ("gi.3", "1 0"), ("ci.3.0", "1 0")):
            sick.simulator.control("set", "gpu.{0}.{1}".format(gpu, key), value)
    sick.declare(mig_layout={"layouts": [{"gpus": ["all"], "instances": [{"profile": "3g"}, {"profile": "2g"}]}]})
    assert "gpu_mig_layout" not in [one[0] for one in names(sick.verdict())]
    sick.simulator.control(*"fault call nvmlDeviceGetMigMode gpu 3 return UNKNOWN".split())
    assert ("gpu_mig_layout", "unread", "unknown", "look", "") in names(sick.verdict())


def test_a_gres_conf_that_names_other_gpus_than_there_are(node):
    path = "/etc/slurm/gres.conf"
    sick = node(H100)
    assert "slurm_gres" in sick.verdict()["not_applicable"]
    sick.write("usr/sbin/slurmd", "#!/bin/sh\n").chmod(0o755)
    sick.write("etc/slurm/slurm.conf", "GresTypes=gpu\n")
    sick.write("etc/slurm/gres.conf", "Name=gpu Type=h100 File=/dev/nvidia[0-7] Cores=0-3\n")
    files = [sick.write("dev/nvidia{0}".format(number), "") for number in range(8)]
    found = sick.verdict()
    assert names(found) == [] and "slurm_gres" not in found["not_applicable"]
    files[7].unlink()
    found = sick.verdict()
    assert names(found) == [("slurm_gres", "missing", "fail", "configure", path)]
    assert "it names /dev/nvidia7, which is not there, and slurmd ends at that when it starts" in json.dumps(found)
    files[7].write_text("")
    sick.write("etc/slurm/gres.conf", "Name=gpu File=/dev/nvidia[0-6]\n")
    found = sick.verdict()
    assert names(found) == [("slurm_gres", "differs", "warn", "configure", path)]
    assert "it does not list /dev/nvidia7, which no job gets" in json.dumps(found)
    sick.write("etc/slurm/slurm.conf", "GresTypes=craynetwork\n")
    assert "slurm_gres" in sick.verdict()["not_applicable"]


def _instances(verdict):
    (check,) = [one for one in verdict["results"] if one["id"] == "gpu_mig_instances"]
    return check, [(one["name"], one["key"], one["value"]) for one in check["measured"]]


def test_instances_that_nobody_declared_have_figures_and_can_be_used(node):
    sick = node(H100, "gpu.mig_mode=yes")
    assert "gpu_mig_instances" not in sick.verdict()["not_applicable"]
    for key, value in (("gi.2", "2 4"), ("ci.2.0", "0 0"), ("ci.2.1", "1 1"), ("gi.7", "0 0"), ("ci.7.0", "0 0")):
        sick.simulator.control("set", "gpu.3." + key, value)
    sick.simulator.control("process", "add", "3", "4242", "1024", "2", "1")
    sick.process(4242, "S")
    verdict = sick.verdict()
    assert names(verdict) == []
    check, figures = _instances(verdict)
    assert check["seen"] == "2 instances of 8 GPUs; NVML tells no utilisation of them"
    gpu = sick.gpus[3]
    assert [one for one in figures if one[1].startswith(gpu)] == [
        ("gpu_instance_multiprocessors", gpu + "/gi7", 16.0),
        ("gpu_instance_memory_total_bytes", gpu + "/gi7", float(9984 << 20)),
        ("gpu_instance_memory_used_bytes", gpu + "/gi7", 0.0),
        ("gpu_instance_multiprocessors", gpu + "/gi2", 60.0),
        ("gpu_instance_memory_total_bytes", gpu + "/gi2", float(40448 << 20)),
        ("gpu_instance_memory_used_bytes", gpu + "/gi2", float(1 << 30)),
        ("gpu_instances", gpu + "/1g.10gb", 1.0),
        ("gpu_instances", gpu + "/3g.40gb", 1.0),
        ("gpu_instances_share_percent", gpu, 100.0 * 76 / 132),
    ]
    labels = [one["labels"] for one in check["measured"] if one["key"] == gpu + "/gi2"][0]
    assert labels["UUID"].startswith("GPU-") and (labels["GPU_I_ID"], labels["GPU_I_PROFILE"]) == ("2", "3g.40gb")
    # One that no program can use; gpu_mig_layout tells it where it was declared.
    sick.simulator.control("set", "gpu.3.gi.8", "0 1")
    useless = ("gpu_mig_instances", "no_compute_instance", "warn", "configure", gpu + "/gi8")
    assert names(sick.verdict()) == [useless]
    declared = {"gpus": [gpu], "instances": [{"profile": "3g", "compute": ["1c", "2c"]}, {"profile": "1g", "count": 2}]}
    sick.declare(mig_layout={"layouts": [declared]})
    assert [one[:2] for one in names(sick.verdict())] == [("gpu_mig_layout", "missing")]


def test_instances_that_are_not_told_are_unknown_and_a_lost_gpu_is_told_once(node):
    sick = node(H100, "gpu.mig_mode=yes")
    sick.simulator.control("set", "gpu.3.gi.7", "0 0")
    sick.simulator.control("set", "gpu.3.ci.7.0", "0 0")
    untold = names(sick.verdict(NVML_SIMULATOR_UID="1000"))
    assert ("gpu_mig_instances", "unread", "unknown", "look", "") in untold
    sick.simulator.control(*"fault call nvmlDeviceGetMemoryInfo_v2 gpu 3 return UNKNOWN".split())
    assert names(sick.verdict()) == []  # an older driver has the first form alone
    sick.simulator.control(*"fault call nvmlDeviceGetMemoryInfo gpu 3 return UNKNOWN".split())
    found = names(sick.verdict())
    assert ("gpu_mig_instances", "memory_unread", "unknown", "look", sick.gpus[3] + "/gi7") in found, found
    sick.simulator.control(*"fault gpu 3 lost".split())
    assert [one[0] for one in names(sick.verdict())] == ["gpu_lost"]


def test_a_layout_that_waits_for_a_reboot_is_no_failure(node):
    """On an A100 the mode comes with the reset: that is what is told, and that nothing else is to be done."""
    sick = node("nd96asr_v4")
    layout = {"gpus": [sick.gpus[3]], "instances": [{"profile": "3g", "count": 2}]}
    sick.declare(mig_layout={"layouts": [layout]})
    assert ("gpu_mig_layout", "missing", "fail", "configure", sick.gpus[3]) in names(sick.verdict())
    sick.simulator.control("set", "gpu.3.latched.mig_mode", "0")
    sick.simulator.control("set", "gpu.3.mig_mode", "1")
    verdict = sick.verdict()
    assert names(verdict) == [
        ("gpu_mig_layout", "waits", "warn", "reboot", sick.gpus[3]),
        ("gpu_mig_mode", "pending", "warn", "reset_gpu", sick.gpus[3]),
    ]
    assert verdict["outcome"] == "warn" and "reboot the node" in json.dumps(verdict)
    # The other way round: it is off after the reboot, which nobody has declared.
    sick.declare(mig_layout={"layouts": [{"gpus": [sick.gpus[3]], "mig": False}]})
    assert names(sick.verdict()) == [("gpu_mig_mode", "pending", "warn", "reset_gpu", sick.gpus[3])]


def test_processes_that_hold_a_gpu(node):
    sick = node(H100)
    sick.declare(slurm_hooks={})
    for pid, state in ((4001, "S"), (4002, "Z"), (4003, None), (4004, "S"), (4005, "D"), (4006, "S")):
        sick.simulator.control("process", "add", "3", str(pid), "1024")
        if state is not None:
            environ = {4004: "SLURM_JOB_ID=77\0", 4006: "SLURM_JOB_ID=78\0"}.get(pid, "")
            daemon = pid == 4001
            sick.process(pid, state, "nvidia-cuda-mps" if daemon else "python3", environ, uid=None if daemon else 1000)
    sick.write("run/gpu_node/jobs/77.json", '{"uid": 1000, "gpus": ["3"]}')
    verdict = sick.verdict()
    assert [one[:4] for one in names(verdict)] == [
        ("gpu_processes", "foreign", "warn", "look"),  # of a job that does not run here
        ("gpu_processes", "gone", "warn", "reset_gpu"),
        ("gpu_processes", "stuck", "warn", "reboot"),
        ("gpu_processes", "zombie", "warn", "reset_gpu"),
    ]
    sick.declaration.pop("slurm_hooks")
    sick.declare()
    assert "foreign" not in [one[1] for one in names(sick.verdict())]


def test_the_quick_level_finds_what_must_not_take_a_job(node):
    sick = node(H100)
    sick.log((600, "NVRM: Xid (PCI:{0}): 79, GPU has fallen off the bus.".format(sick.gpus[0][:-2])))
    sick.simulator.control(*"fault gpu 1 lost".split())
    sick.simulator.control(*"remap 2 uncorrectable 9 failure".split())
    sick.simulator.control(*"fault gpu 3 recovery-action 1".split())
    sick.simulator.control(*"set gpu.4.fabric.state 1".split())
    found = names(sick.verdict("quick"))
    assert [(one[0], one[1]) for one in found] == [
        ("gpu_fabric", "state"),
        ("gpu_lost", "lost"),
        ("gpu_recovery_action", "gpu_reset"),
        ("gpu_row_remap", "failure"),
        ("gpu_xid", "xid_79"),
    ]


def test_a_gpu_in_mig_mode_is_judged_by_what_it_still_tells(node):
    # No volatile errors, no utilisation, and with instances no remapped rows.
    sick = node("nc24ads_a100_v4", "gpu.mig_mode=yes")
    sick.simulator.control("set", "gpu.0.gi.1", "2 0")
    sick.simulator.control("set", "gpu.0.ci.1.0", "2 0")
    assert names(sick.verdict()) == []
    sick.simulator.control("ecc", "add", "0", "uncorrected", "2", "dram")
    sick.baseline(("gpu_ecc_uncorrected_aggregate_errors", sick.gpus[0], 0.0))
    assert names(sick.verdict()) == [("gpu_ecc", "uncorrected_growth", "warn", "watch", sick.gpus[0])]


@pytest.mark.parametrize("key, name", [("hardware_thermal", HEAT), ("power_brake", BRAKE)])
def test_a_slowdown_that_the_driver_has_counted_since_the_last_look_warns(node, key, name):
    """Fields 270 and 271, which the driver has from branch 575 on."""
    sick = node(H100)
    sick.simulator.control("set", "gpu.3.slowed.{0}_ns".format(key), "700000000000")
    assert names(sick.verdict()) == []  # it may have been months ago
    sick.baseline(("gpu_{0}_seconds".format(name), sick.gpus[3], 650.0))
    assert names(sick.verdict()) == []
    sick.baseline(("gpu_{0}_seconds".format(name), sick.gpus[3], 300.0))
    assert names(sick.verdict()) == [("gpu_slowdown", name + "_before", "warn", "replace", sick.gpus[3])]


def test_a_slowdown_that_look_after_look_sees_fails(node):
    sick = node(H100)
    sick.simulator.control(*"throttle 3 hw_slowdown".split())
    assert names(sick.verdict())[0][:3] == ("gpu_slowdown", "hardware_slowdown", "warn")
    # Five minutes ago every look had seen it for six.
    sick.baseline(("gpu_hardware_slowdown_seen_seconds", sick.gpus[3], 360.0), hours=300 / 3600)
    assert names(sick.verdict()) == [("gpu_slowdown", "hardware_slowdown", "fail", "replace", sick.gpus[3])]
