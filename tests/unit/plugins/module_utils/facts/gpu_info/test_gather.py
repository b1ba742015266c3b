# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_info over simulated machines, through NVIDIA's own binding."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.gpu_info import GROUPS, Options
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.gpu_info.read_nvlink_errors import highest
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.call import Kind, Reading, missing

pytest.importorskip("pynvml", reason="needs nvidia-ml-py")

CODE = """
import json, sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.gpu_info import Options, gather
print(json.dumps(gather(Options.from_mapping(json.loads(sys.argv[1]))).to_dict()))
"""


def read(machine, **options):
    return machine.python(CODE, json.dumps(options))


def nulls(value, path=""):
    """The paths of every None in a result, with one path for all items of a list."""
    if value is None:
        yield path
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from nulls(item, path + "." + name if path else name)
    elif isinstance(value, list):
        for item in value:
            yield from nulls(item, path + ".*")


def unexplained(gpu):
    """Paths that are None without a reason of their own or of the whole that they are part of."""
    values = {name: value for name, value in gpu.items() if name not in ("absent", "fault")}
    explained = set(gpu["absent"])
    return sorted(
        path for path in set(nulls(values)) if not any(path == one or path.startswith(one + ".") for one in explained)
    )


@pytest.mark.parametrize(
    ("machine", "name", "count", "gib"),
    [
        ("nd40rs_v2", "V100", 8, 32),
        ("nd96asr_v4", "A100", 8, 40),
        ("nd96amsr_a100_v4", "A100", 8, 80),
        ("nd96isr_h100_v5", "H100", 8, 80),
        ("nd96isr_h200_v5", "H200", 8, 140),
        ("nc24ads_a100_v4", "A100", 1, 80),
    ],
)
def test_every_kind_of_machine_is_read_and_no_null_is_without_a_reason(nvml_simulator, machine, name, count, gib):
    result = read(nvml_simulator(machine))
    assert (result["status"], result["gpu_count"], len(result["gpus"])) == ("ok", count, count)
    for gpu in result["gpus"]:
        assert name in gpu["name"]
        assert gib * 0.97 < gpu["memory"]["total_bytes"] / 2**30 < gib * 1.03
        assert set(GROUPS) <= set(gpu)
        assert unexplained(gpu) == []
        assert len(gpu["topology"]["peers"]) == count - 1


def test_an_a100_of_ndv4_in_detail(nvml_simulator):
    machine = nvml_simulator("nd96asr_v4")
    result = read(machine, gpus=["0"])
    gpu = result["gpus"][0]
    assert gpu["pci_address"] == "0001:00:00.0"
    assert gpu["board"]["architecture"] == "ampere" and gpu["board"]["compute_capability"] == "8.0"
    clocks = gpu["clocks"]
    assert (clocks["max_graphics_mhz"], clocks["max_memory_mhz"]) == (1410, 1215)
    assert clocks["default_application_graphics_mhz"] == 1095
    assert clocks["supported_memory_mhz"] == [1215]
    assert clocks["supported_graphics"] == {
        "memory_mhz": 1215,
        "count": 81,
        "min_mhz": 210,
        "max_mhz": 1410,
        "step_mhz": 15,
        "all_mhz": None,
    }
    assert gpu["power"]["default_limit_watts"] == 400.0
    assert gpu["numa"]["cpu_affinity"] and gpu["numa"]["memory_affinity"] == [1]
    assert gpu["nvlink"]["link_count"] == gpu["nvlink"]["active_count"] == 12
    assert {link["remote_type"] for link in gpu["nvlink"]["links"]} == {"switch"}
    assert gpu["ecc"]["current"] is True and gpu["settings"]["mig_current"] is False
    assert gpu["repair"]["remapped_rows"] == {"correctable": 0, "uncorrectable": 0, "pending": False, "failure": False}
    assert gpu["repair"]["recovery_action"] == "none"
    assert "NOT_SUPPORTED" in gpu["absent"]["repair.retired_pages_corrected"]


def test_a_v100_has_retired_pages_and_neither_row_remapping_nor_mig(nvml_simulator):
    machine = nvml_simulator("nd40rs_v2")
    machine.control("retire", "0", "dbe", "0x1000")
    gpu = read(machine, gpus=["0"])["gpus"][0]
    assert (gpu["repair"]["retired_pages_corrected"], gpu["repair"]["retired_pages_uncorrected"]) == (0, 1)
    assert gpu["repair"]["remapped_rows"] is None and "NOT_SUPPORTED" in gpu["absent"]["repair.remapped_rows"]
    assert gpu["settings"]["mig_current"] is None and "settings.mig_current" in gpu["absent"]
    assert gpu["nvlink"]["link_count"] == 6
    assert "gpu" in {link["remote_type"] for link in gpu["nvlink"]["links"]}
    assert any(link["remote_pci_address"] for link in gpu["nvlink"]["links"])


def test_an_h100_has_a_fabric(nvml_simulator):
    gpu = read(nvml_simulator("nd96isr_h100_v5"), gpus=["0"], gather=["fabric", "nvlink"])["gpus"][0]
    assert gpu["absent"]["nvlink.links.*.packets"] == "NVLink 4.0 does not count it"  # so the driver is not asked
    assert gpu["fabric"]["state"] == "completed" and gpu["fabric"]["status"] == "success"
    assert gpu["nvlink"]["link_count"] == 18


# nvml.h, nvmlNvlinkVersion_t, counts the versions 2.2 and 3.1, too.
@pytest.mark.parametrize(
    ("machine", "version"),
    [
        ("nd40rs_v2", "2.0"),
        ("nd96asr_v4", "3.0"),
        ("nd96amsr_a100_v4", "3.0"),
        ("nd96isr_h100_v5", "4.0"),
        ("nd96isr_h200_v5", "4.0"),
    ],
)
def test_the_version_of_nvlink_is_that_of_the_generation(nvml_simulator, machine, version):
    gpu = read(nvml_simulator(machine), gpus=["0"], gather=["nvlink"])["gpus"][0]
    assert {link["version"] for link in gpu["nvlink"]["links"]} == {version}


def errors(machine, link):
    gpu = read(machine, gpus=["0"], gather=["nvlink"])["gpus"][0]
    assert unexplained(gpu) == []
    found = gpu["nvlink"]["links"][link]
    return [found[name] for name in ("replay_errors", "recovery_errors", "crc_flit_errors", "crc_errors", "packets")]


@pytest.mark.parametrize(
    ("machine", "told"),
    [
        ("nd40rs_v2", [70, 6, 5, 9, None]),
        ("nd96asr_v4", [70, 6, 5, 9, None]),
        ("nd96isr_h100_v5", [70, 6, None, 9, None]),
    ],
)
def test_errors_of_a_link_are_read_on_every_generation(nvml_simulator, machine, told):
    node = nvml_simulator(machine)
    assert [value for value in errors(node, 3) if value is not None] in ([0] * 4, [0] * 3)
    for kind, count in (("replay", 70), ("recovery", 6), ("crc_flit", 5), ("crc_data", 4)):
        node.control("nvlink", "0", "3", "errors", str(count), kind)
    assert errors(node, 3) == told
    assert [value for value in errors(node, 2) if value] == []


ABSENT, FAILED = missing("not there"), missing("it failed", Kind.FAILED)
REFUSED = missing("the driver does not know this field", Kind.WRONG_VALUE)


@pytest.mark.parametrize(
    ("readings", "told"),
    [
        ((Reading(0), Reading(5)), Reading(5)),
        ((Reading(5), Reading(0)), Reading(5)),
        ((ABSENT, Reading(0)), Reading(0)),
        ((FAILED, Reading(3), ABSENT), Reading(3)),
        ((ABSENT, FAILED), FAILED),
        ((REFUSED, FAILED), FAILED),
        ((ABSENT, REFUSED), ABSENT),
        ((ABSENT, ABSENT), ABSENT),
    ],
)
def test_of_several_counts_of_the_same_the_highest_is_told(readings, told):
    assert highest(*readings) == told


def test_the_errors_of_a_link_are_told_as_long_as_one_way_to_ask_answers(nvml_simulator):
    node = nvml_simulator("nd96isr_h100_v5", "gpu.feature.nvlink_error_counters=yes")
    node.control("nvlink", "0", "3", "errors", "70", "replay")
    assert errors(node, 3)[0] == 70
    node.control("fault", "call", "nvmlDeviceGetFieldValues", "return", "UNKNOWN")
    assert errors(node, 3)[0] == 70
    node.control("clear", "call", "nvmlDeviceGetFieldValues")
    node.control("fault", "call", "nvmlDeviceGetNvLinkErrorCounter", "return", "UNKNOWN")
    assert errors(node, 3)[0] == 70


def test_a_blackwell_counts_the_errors_of_packets(nvml_simulator):
    node = nvml_simulator("nd96isr_h100_v5", "gpu.architecture=10", "gpu.nvlink.version=7")
    for kind, count in (("recovery", 6), ("malformed_packets", 2), ("symbol_errors", 3), ("effective_ber", 0x40F)):
        node.control("nvlink", "0", "3", "errors", str(count), kind)
    replays, recoveries, flits, crc, packets = errors(node, 3)
    assert (replays, recoveries, flits, crc) == (None, 6, None, None)
    assert packets == {
        "malformed": 2,
        "buffer_overruns": 0,
        "receive_errors": 0,
        "remote_errors": 0,
        "general_errors": 0,
        "integrity_errors": 0,
        "transmit_discards": 0,
        "recoveries_succeeded": 6,
        "recoveries_failed": 0,
        "effective_errors": 0,
        "effective_bit_error_rate": 4e-15,
        "symbol_errors": 3,
        "symbol_bit_error_rate": 0.0,
    }


def test_the_distance_at_which_the_hardware_slows_down(nvml_simulator):
    seen = read(nvml_simulator("nd96isr_h100_v5"), gpus=["0"], gather=["temperature"])["gpus"][0]
    assert seen["temperature"]["slowdown_margin_celsius"] == -2
    assert seen["temperature"]["margin_celsius"] == 87 - seen["temperature"]["gpu_celsius"]


def test_an_ampere_has_temperatures_and_no_distance(nvml_simulator):
    seen = read(nvml_simulator("nd96asr_v4"), gpus=["0"], gather=["temperature"])["gpus"][0]
    assert seen["temperature"]["slowdown_margin_celsius"] is None and seen["temperature"]["slowdown_celsius"] == 89
    assert "NOT_SUPPORTED" in seen["absent"]["temperature.margin_celsius"]


def test_a_gpu_without_nvlink_says_so(nvml_simulator):
    gpu = read(nvml_simulator("laptop"), gather=["nvlink"])["gpus"][0]
    assert gpu["nvlink"]["links"] == []
    assert "NOT_SUPPORTED" in gpu["absent"]["nvlink.links"]
    assert unexplained(gpu) == []


def test_counters_reasons_and_processes_show_what_happened(nvml_simulator):
    machine = nvml_simulator("nd96asr_v4", "gpu.count=2")
    machine.control("ecc", "add", "1", "uncorrected", "3")
    machine.control("remap", "1", "uncorrectable", "2", "pending")
    machine.control("throttle", "1", "0x48")
    machine.control("process", "add", "1", "1", "512")
    machine.control("nvlink", "1", "4", "down")
    gpu = read(machine, gpus=["1"])["gpus"][0]
    assert gpu["ecc"]["total"]["volatile_uncorrected"] == 3 and gpu["ecc"]["total"]["aggregate_uncorrected"] == 3
    assert gpu["repair"]["remapped_rows"]["uncorrectable"] == 2 and gpu["repair"]["remapped_rows"]["pending"] is True
    assert gpu["clocks"]["event_reasons"] == ["hardware_slowdown", "hardware_thermal_slowdown"]
    assert gpu["clocks"]["event_reasons_mask"] == 0x48
    (process,) = gpu["processes"]["running"]
    assert (process["pid"], process["kind"], process["used_memory_bytes"]) == (1, "compute", 512 * 2**20)
    assert process["name"] and process["gpu_instance_id"] is None
    assert unexplained(gpu) == []
    assert gpu["nvlink"]["active_count"] == 11 and gpu["nvlink"]["links"][4]["active"] is False


def test_every_clock_is_listed_when_asked_for(nvml_simulator):
    gpu = read(nvml_simulator("nd96asr_v4"), gpus=["0"], gather=["clocks"], every_clock=True)["gpus"][0]
    assert gpu["clocks"]["supported_graphics"]["all_mhz"] == list(range(1410, 209, -15))


def test_minimum_tells_the_names_only(nvml_simulator):
    (gpu,) = read(nvml_simulator("nd96asr_v4"), gpus=["000e:00:00.0"], gather=["minimum"])["gpus"]
    assert set(gpu) == {"index", "uuid", "pci_address", "serial", "minor_number", "name", "absent", "fault"}
    assert gpu["index"] == 7 and gpu["uuid"].startswith("GPU-") and gpu["serial"]


def test_symbols_that_a_driver_lacks_are_absent_and_named(nvml_simulator):
    machine = nvml_simulator("nd96asr_v4", "gpu.count=1")
    gone = (
        "nvmlDeviceGetGpuFabricInfoV",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetSramEccErrorStatus",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetNvLinkState",
        "nvmlDeviceGetComputeRunningProcesses_v3",
    )
    for name in gone:
        machine.control("fault", "call", name, "missing")
    result = read(machine)
    gpu = result["gpus"][0]
    assert result["status"] == "ok" and gpu["fault"] is None
    # Older ways to ask for the same are found.
    assert gpu["memory"]["total_bytes"] > 0 and gpu["memory"]["reserved_bytes"] is None
    assert isinstance(gpu["temperature"]["gpu_celsius"], int)
    assert gpu["clocks"]["event_reasons"] == ["gpu_idle"]
    assert gpu["absent"]["fabric.state"] == (
        "this driver version does not have this call (nvmlDeviceGetGpuFabricInfoV: FUNCTION_NOT_FOUND)"
    )
    assert "FUNCTION_NOT_FOUND" in gpu["absent"]["ecc.sram_status"]
    assert "FUNCTION_NOT_FOUND" in gpu["absent"]["nvlink.links"]
    assert unexplained(gpu) == []


def test_a_driver_of_another_age_is_read(nvml_simulator):
    machine = nvml_simulator("nd96asr_v4", "gpu.count=1")
    machine.control("set", "driver.version", "470.256.02")
    result = read(machine)
    assert (result["status"], result["driver_version"]) == ("ok", "470.256.02")
    assert result["gpus"][0]["clocks"]["max_graphics_mhz"] == 1410


def test_application_clocks_that_a_driver_has_withdrawn_are_absent(nvml_simulator):
    machine = nvml_simulator("nd96asr_v4", "gpu.count=1")
    machine.control("fault", "call", "nvmlDeviceGetApplicationsClock", "return", "DEPRECATED")
    gpu = read(machine, gather=["clocks"])["gpus"][0]
    assert gpu["clocks"]["application_graphics_mhz"] is None
    assert "withdrawn" in gpu["absent"]["clocks.application_graphics_mhz"]
    assert gpu["clocks"]["max_graphics_mhz"] == 1410


def test_a_lost_gpu_keeps_its_place_and_every_value_of_it_has_a_reason(nvml_simulator):
    machine = nvml_simulator("nd96asr_v4")
    machine.control("fault", "gpu", "5", "lost")
    result = read(machine)
    assert result["status"] == "partial" and len(result["gpus"]) == 8
    lost = result["gpus"][5]
    assert lost["fault"]["kind"] == "lost" and lost["fault"]["message"] in result["message"]
    assert lost["clocks"] is None and unexplained(lost) == []
    assert [gpu["index"] for gpu in result["gpus"] if gpu["clocks"]] == [0, 1, 2, 3, 4, 6, 7]
    assert [peer["index"] for peer in result["gpus"][0]["topology"]["peers"]] == [1, 2, 3, 4, 6, 7]


def test_a_gpu_that_hangs_late_keeps_what_was_read_before(nvml_simulator):
    machine = nvml_simulator("nd96asr_v4", "gpu.count=3")
    machine.control("fault", "call", "nvmlDeviceGetNvLinkState", "gpu", "1", "hang")
    started = time.monotonic()
    result = read(machine, call_timeout=0.5)
    assert time.monotonic() - started < 6
    hung = result["gpus"][1]
    assert hung["fault"]["kind"] == "hung" and hung["fault"]["call"] == "nvmlDeviceGetNvLinkState"
    assert "did not return within 0.5 s" in hung["fault"]["message"]
    assert hung["clocks"]["max_graphics_mhz"] == 1410 and hung["nvlink"] is None
    assert "nvlink" in hung["absent"] and "fabric" in hung["absent"]
    assert result["gpus"][0]["fault"] is None and result["gpus"][2]["fault"] is None


def test_reading_changes_nothing(nvml_simulator):
    machine = nvml_simulator("nd96asr_v4")

    def files():
        return {path.name: path.read_bytes() for path in machine.state.iterdir() if path.name != "lock"}

    before = files()
    read(machine)
    assert files() == before


def test_an_ordinary_user_reads_the_same(nvml_simulator):
    machine = nvml_simulator("nd96asr_v4", "gpu.count=1")
    as_user = machine.python(CODE, "{}", NVML_SIMULATOR_UID="1000")
    assert as_user["status"] == "ok" and as_user["gpus"][0]["ecc"]["current"] is True


# Options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gather", "groups"),
    [
        (["all"], tuple(GROUPS)),
        (["minimum"], ()),
        (["clocks", "board"], ("board", "clocks")),
        (["!nvlink"], tuple(name for name in GROUPS if name != "nvlink")),
        (["minimum", "power"], ("power",)),
        (["all", "!fabric", "!nvlink"], tuple(name for name in GROUPS if name not in ("fabric", "nvlink"))),
        (["power", "!power"], ()),
    ],
)
def test_groups(gather, groups):
    assert Options.from_mapping({"gather": gather}).groups == groups


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gather": ["clock"]}, "option gather: there is no group 'clock'; choose among all, minimum, board, "),
        ({"gpus": []}, "option gpus: the list is empty; name GPUs, or use all."),
        ({"call_timeout": 0}, "option call_timeout: 0 s is outside 0.1 to 600 s; "),
        ({"call_timeout": -5}, "option call_timeout: -5 s is outside 0.1 to 600 s; "),
        ({"call_timeout": float("nan")}, "option call_timeout: nan s is outside 0.1 to 600 s; "),
        ({"call_timeout": 1e9}, "option call_timeout: 1e+09 s is outside 0.1 to 600 s; "),
    ],
)
def test_wrong_options_are_one_sentence(options, message):
    with pytest.raises(NodeError) as caught:
        Options.from_mapping(options)
    assert str(caught.value).startswith(message)


@given(some.lists(some.sampled_from(["all", "minimum", *GROUPS, *("!" + name for name in GROUPS), "x", "!", "!!"])))
def test_any_list_of_groups_is_understood_or_refused(gather):
    try:
        groups = Options.from_mapping({"gather": gather}).groups
    except NodeError:
        assert {"x", "!", "!!"} & set(gather)
    else:
        assert set(groups) <= set(GROUPS)
        assert not any("!" + name in gather for name in groups)
