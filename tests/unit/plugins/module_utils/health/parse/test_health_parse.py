# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parsers of known tools: right figures from each format, and nothing but an error from a damaged one."""

from __future__ import annotations

import collections
import json
import pathlib
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.parse import (
    ParseError,
    common,
    dcgmi,
    dcgmi_health,
    fio,
    hpl,
    nccl_tests,
    nvbandwidth,
    perftest,
)
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples

DATA = pathlib.Path(__file__).resolve().parents[4] / "data" / "health"
PARSERS = {
    "nvbandwidth": nvbandwidth.parse,
    "nccl": nccl_tests.parse,
    "perftest": perftest.parse,
    "hpl": hpl.parse,
    "dcgmi": dcgmi.parse,
    "health": dcgmi_health.parse,
    "fio": fio.parse,
}
SAMPLES = sorted(path.name for path in DATA.iterdir() if path.name.split("_")[0].split(".")[0] in PARSERS)
MIB = 2**20 * 8 / 1e9


def text(name):
    return (DATA / name).read_text(encoding="utf-8")


def parser(name):
    return PARSERS[name.split("_")[0].split(".")[0]]


def test_every_tool_has_samples_of_three_versions_with_their_sources():
    rows = re.findall(r"^\| `(\S+)` \| (.+?) \| (.+?) \| (.+) \|$", text("SOURCES.md"), re.MULTILINE)
    assert sorted(name for name, *dummy in rows) == SAMPLES
    versions = collections.defaultdict(set)
    for name, tool, version, after in rows:
        assert "github.com" in after or "netlib.org" in after or "docs.nvidia.com" in after, name
        versions[parser(name)].add((tool, version))
    assert set(versions) == set(PARSERS.values())
    for found in versions.values():
        assert len({tool for tool, dummy in found}) == 1 and len(found) >= 3, sorted(found)


# nvbandwidth ------------------------------------------------------------------------------------------


def test_nvbandwidth_0_4_text():
    tests = nvbandwidth.parse(text("nvbandwidth_0.4.txt"))
    assert [(one.name, one.status) for one in tests] == [
        ("host_to_device_memcpy_ce", "passed"),
        ("device_to_host_memcpy_ce", "passed"),
        ("device_to_device_memcpy_read_ce", "waived"),
    ]
    assert tests[0].rows == ((25.91, 25.87, 25.90, 25.94, 25.88, 25.93, 25.86, 12.71),)


def test_nvbandwidth_0_8_text():
    tests = {one.name: one for one in nvbandwidth.parse(text("nvbandwidth_0.8.txt"))}
    peers = tests["device_to_device_memcpy_read_ce"]
    assert peers.rows[0][:3] == (None, 269.11, 269.22) and peers.rows[7][0] == 275.16
    assert len(peers.values) == 56
    assert tests["device_to_device_bidirectional_memcpy_read_ce_total"].rows == ((None, 502.0), (503.25, None))
    assert tests[nvbandwidth.NAMELESS].status == "waived"


def test_nvbandwidth_0_6_text_does_not_name_what_it_waived():
    tests = nvbandwidth.parse(text("nvbandwidth_0.6.txt"))
    assert [(one.name, one.status, one.values) for one in tests] == [
        ("host_to_device_memcpy_ce", "passed", (369.36,)),
        ("device_to_host_memcpy_ce", "passed", (295.15,)),
        ("", "waived", ()),
        ("", "waived", ()),
        ("host_device_latency_sm", "passed", (772.58,)),
        ("", "waived", ()),
    ]


def test_nvbandwidth_0_2_text_names_what_it_waived():
    (test,) = nvbandwidth.parse(text("nvbandwidth_0.2_waived.txt"))
    assert test == nvbandwidth.Test("device_to_device_memcpy_read_ce", "waived")


@pytest.mark.parametrize(
    ("name", "count"),
    [("0.2_waived.txt", 2), ("0.4.txt", 2), ("0.6.txt", 1), ("0.8.txt", 8), ("0.8.json", 2)],
)
def test_nvbandwidth_says_how_many_gpus_it_saw(name, count):
    whole = text("nvbandwidth_" + name)
    assert nvbandwidth.devices(whole) == nvbandwidth.devices(tagged(whole)) == count
    assert nvbandwidth.devices("") is None


def tagged(whole, rank=0):
    return "".join("[1,{0}]<stdout>:{1}".format(rank, line) for line in whole.splitlines(keepends=True))


def test_nvbandwidth_0_7_that_found_wrong_data_has_no_result():
    output = (
        "nvbandwidth Version: v0.7\n\nRunning device_to_device_memcpy_read_ce.\n"
        " Invalid value when checking the pattern at 0x70a640000000\n Current offset : 11136 \n"
        "ASSERT in expression h_errorFlag == 0 in memcmpPatternHelper() : memcpy.cpp:165\n"
    )
    with pytest.raises(ParseError, match="in the middle of test device_to_device_memcpy_read_ce"):
        nvbandwidth.parse(output)


@pytest.mark.parametrize(
    "name", ["nvbandwidth_0.8.txt", "nvbandwidth_0.8.json", "nccl_tests_2.17.txt", "hpl_nvidia.txt"]
)
@pytest.mark.parametrize(
    "tag", ["[1,0]<stdout>:", "[1,0]<stdout>: ", "[node-1:12.0]<stdout>:", "(head, pid=38) [1,0]<stdout>:"]
)
def test_an_output_that_mpirun_tagged_is_the_same_output(name, tag):
    whole = text(name)
    lines = [tag + line for line in whole.splitlines(keepends=True)]
    lines.insert(3, "[1,1]<stderr>:a warning of another process, 1 2 3\n")
    assert parser(name)("".join(lines)) == parser(name)(whole)


def test_nccl_tests_of_an_mpi_job():
    run = nccl_tests.parse(text("nccl_tests_tagged.txt"))
    assert (run.ranks, run.wrong, len(run.rows)) == (8, 0, 3)
    assert run.average_busbw_gigabytes_per_second == pytest.approx(479.945) and run.rows[-1].size_bytes == 2**34


def test_nvbandwidth_json():
    tests = nvbandwidth.parse(text("nvbandwidth_0.8.json"))
    assert [one.rows for one in tests[:3]] == [
        ((55.3142, 55.2781),),
        ((54.9701, 55.0113),),
        ((None, 371.204), (370.998, None)),
    ]
    assert tests[3].status == "waived"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("25.91", "25,91"),  # another locale
        ("25.91", "52.91"),  # a damaged digit does not fit the sum
        ("25.91", "nan"),
        ("     25.91", ""),
        ("SUM host_to_device_memcpy_ce", "SUM host"),
    ],
)
def test_nvbandwidth_text_that_contradicts_itself(old, new):
    broken = text("nvbandwidth_0.4.txt").replace(old, new, 1)
    assert broken != text("nvbandwidth_0.4.txt")
    with pytest.raises(ParseError):
        nvbandwidth.parse(broken)


def test_nvbandwidth_errors_are_told():
    with pytest.raises(ParseError, match="out of memory"):
        nvbandwidth.parse('{"nvbandwidth": {"error": "[CUDA_ERROR_OUT_OF_MEMORY] out of memory", "testcases": []}}')
    failed = nvbandwidth.parse("Running host_to_device_memcpy_ce.\nERROR: no such thing\n")
    assert failed[0].status == "ERROR: no such thing" and failed[0].rows == ()
    with pytest.raises(ParseError, match="Invalid Arguments"):
        nvbandwidth.parse("nvbandwidth Version: v0.4\nERROR: Invalid Arguments \nnvbandwidth -j\n")


# nccl-tests -------------------------------------------------------------------------------------------


def test_nccl_tests_text():
    run = nccl_tests.parse(text("nccl_tests_2.17.txt"))
    assert run.average_busbw_gigabytes_per_second == 474.58
    assert run.best_busbw_gigabytes_per_second == 478.40
    assert (run.ranks, run.hosts, run.out_of_bounds, run.wrong) == (8, 1, 0, 0)
    assert run.rows[0] == nccl_tests.Row(
        4294967296,
        (nccl_tests.Timing(16012.0, 268.24, 469.42, 0.0), nccl_tests.Timing(15980.0, 268.77, 470.35, 0.0)),
    )


def test_nccl_tests_before_wrong_elements_were_counted():
    run = nccl_tests.parse(text("nccl_tests_2.10.txt"))
    assert (run.average_busbw_gigabytes_per_second, run.ranks, run.wrong) == (107.81, 4, 0)
    assert run.rows[1].timings[1] == nccl_tests.Timing(225.4, 74.43, 111.65, None)


def test_nccl_tests_of_a_whole_rack():
    run = nccl_tests.parse(text("nccl_tests_2.13.txt"))
    assert (run.average_busbw_gigabytes_per_second, run.best_busbw_gigabytes_per_second, run.wrong) == (
        745.53,
        846.82,
        0,
    )
    assert [row.size_bytes for row in run.rows] == [2**29, 2**30, 2**31, 2**32, 2**33]


def test_nccl_tests_wrong_results():
    run = nccl_tests.parse(text("nccl_tests_wrong.txt"))
    assert (run.out_of_bounds, run.wrong) == (1, 37)


def test_nccl_tests_json_and_its_environment_is_not_kept():
    run = nccl_tests.parse(text("nccl_tests_2.19.json"))
    assert run.average_busbw_gigabytes_per_second == pytest.approx(350.548451)
    assert (run.rows[0].size_bytes, run.wrong, run.ranks, run.hosts) == (8589934592, 0, 1, 1)
    assert "SECRET" not in repr(run)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("nccl_tests_2.17.txt", "474.58", "574.58"),
        ("nccl_tests_2.17.txt", "474.58", "474,58"),
        ("nccl_tests_2.17.txt", "0 OK", "3 OK"),
        ("nccl_tests_2.17.txt", "268.24  469.42", "286.24  469.42"),
        ("nccl_tests_2.17.txt", "469.42      0", "469.42     -5"),
        ("nccl_tests_2.17.txt", "# Avg bus", "# bus"),
        ("nccl_tests_2.17.txt", "  268.24  469.42", "  268.24"),
        ("nccl_tests_2.19.json", '"okay":"true"', '"okay":"false"'),
        ("nccl_tests_2.19.json", "350.632139,", '"nan",'),
    ],
)
def test_nccl_tests_that_contradict_themselves(name, old, new):
    broken = text(name).replace(old, new)
    assert broken != text(name)
    with pytest.raises(ParseError):
        nccl_tests.parse(broken)


@pytest.mark.parametrize("rate", ["1e300", "10001", "-480"])
def test_a_bus_bandwidth_that_no_machine_has_is_no_figure(rate):
    table = re.sub(r"4[67]\d\.\d\d(?= )", rate, text("nccl_tests_2.17.txt").replace("478.40", rate))
    table = table.replace("474.58", rate)
    json_text = re.sub(
        r'("(?:bus_bw|bandwidth)":)[\d.]+', r"\g<1>" + rate.replace("1e300", "1e29"), text("nccl_tests_2.19.json")
    )
    for broken in (table, json_text):
        with pytest.raises(ParseError, match="bus bandwidth of .* GB/s"):
            nccl_tests.parse(broken)
    # One rank alone copies to itself in no time; its bus bandwidth is 0 (src/all_reduce.cu).
    alone = re.sub(
        r'("alg_bw":)[\d.]+',
        r"\g<1>35791394.13",
        re.sub(r'("(?:bus_bw|bandwidth)":)[\d.]+', r"\g<1>0.0", text("nccl_tests_2.19.json")),
    )
    assert nccl_tests.parse(alone).best_busbw_gigabytes_per_second == 0


# perftest ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "size", "gigabits"),
    [
        ("perftest_gbits.txt", 8388608, 391.87),
        ("perftest_cuda.txt", 8388608, 388.42),
        ("perftest_mib.txt", 65536, 97.55),
        ("perftest.json", 65536, 196.54),
        ("perftest_4.5.txt", 8388608, 201.80),
        ("perftest_24.01.txt", 65536, 195.69),
        ("perftest_26.01.txt", 65536, 392.34),
    ],
)
def test_perftest(name, size, gigabits):
    (row,) = perftest.parse(text(name))
    assert row.size_bytes == size and row.average_gigabits_per_second == pytest.approx(gigabits, abs=0.01)


def test_perftest_of_all_sizes():
    rows = perftest.parse(text("perftest_all.txt"))
    assert [row.size_bytes for row in rows] == [2, 4096, 65536, 8388608]
    assert rows[-1].average_gigabits_per_second == pytest.approx(97.6, abs=0.01)


def test_perftest_json_in_mebibytes_is_known_by_its_messages():
    broken = text("perftest.json").replace("196.54", "{0:.2f}".format(196.54 / MIB))
    assert perftest.parse(broken)[0].average_gigabits_per_second == pytest.approx(196.54, abs=0.01)


@pytest.mark.parametrize(
    "figures",
    [
        "0          0.00               0.00   \t\t     0.000000",  # -D, and no message was done
        "0           0.000000            0.000000            0.000000",  # the same with --report_gbits
        "0          -nan               -nan   \t\t     -nan",
        "5000       0.00               -1.00  \t\t     -0.000000",
        "5000       0.00               -391.87\t\t     -0.005839",
        "0          0.00               391.87 \t\t     0.005839",
    ],
)
def test_perftest_that_measured_nothing_has_no_figure(figures):
    rows = text("perftest_gbits.txt")
    (row,) = re.findall(r"(?m)^ 8388608 .*$", rows)
    with pytest.raises(ParseError, match="measured nothing|is no number"):
        perftest.parse(rows.replace(row, " 8388608    " + figures))


def test_perftest_json_that_measured_nothing_has_no_figure():
    for old, new in (("196.54", "0.00"), ("5000", "0"), ("196.54", "-196.54")):
        broken = text("perftest.json").replace(old, new)
        broken = broken if new == "0" else broken.replace("0.374870", "-0.374870" if new[0] == "-" else "0.000000")
        with pytest.raises(ParseError, match="measured nothing"):
            perftest.parse(broken)


def test_perftest_tells_the_first_complaint_of_the_tool():
    with pytest.raises(ParseError, match="Couldn't connect to 127.0.0.1:18600"):
        perftest.parse("Couldn't connect to 127.0.0.1:18600\n Unable to open file descriptor for socket connection")


@pytest.mark.parametrize(("old", "new"), [("391.87", "319.87"), ("391.87", "391,87"), ("Gb/sec", "Tb/sec")])
def test_perftest_that_contradicts_itself(old, new):
    with pytest.raises(ParseError):
        perftest.parse(text("perftest_gbits.txt").replace(old, new))


# dcgmi ------------------------------------------------------------------------------------------------


def of_status(diagnosis, *statuses):
    return [(one.test, one.gpu, one.status) for one in diagnosis.results if one.status in statuses]


def test_dcgmi_3_text():
    diagnosis = dcgmi.parse(text("dcgmi_3.3.txt"))
    assert diagnosis.version == "3.3.9" and len(diagnosis.results) == 14
    assert of_status(diagnosis, "fail", "warn") == [
        ("Persistence Mode", None, "fail"),
        ("GPU Memory", 2, "fail"),
        ("GPU Memory", 5, "fail"),
    ]
    assert of_status(diagnosis, "skip") == [("Inforom", None, "skip"), ("Targeted Stress", None, "skip")]
    (failed,) = [one for one in diagnosis.results if one.test == "Persistence Mode"]
    assert failed.messages[0].startswith("Persistence mode for GPU 3 is disabled. Enable persistence mode")


def test_dcgmi_3_1_text_of_a_gpu_without_persistence_mode():
    diagnosis = dcgmi.parse(text("dcgmi_3.1.txt"))
    assert (diagnosis.version, len(diagnosis.results)) == ("3.1.8", 9)
    (failed,) = [one for one in diagnosis.results if one.status != "pass"]
    assert (failed.test, failed.gpu, failed.status) == ("Persistence Mode", None, "fail")
    assert failed.messages[0].startswith("Persistence mode for GPU 0 is currently disab")


def test_dcgmi_4_4_text_of_a_healthy_gpu():
    diagnosis = dcgmi.parse(text("dcgmi_4.4.txt"))
    assert diagnosis.version == "4.4.2" and {one.status for one in diagnosis.results} == {"pass"}
    tests = ("software", "memory", "pcie")
    assert [(one.test, one.gpu) for one in diagnosis.results] == [(test, gpu) for test in tests for gpu in (None, 0)]


def test_dcgmi_4_text():
    diagnosis = dcgmi.parse(text("dcgmi_4.2.txt"))
    assert of_status(diagnosis, "fail") == [("memory", None, "fail"), ("memory", 1, "fail")]
    messages = [one.messages for one in diagnosis.results if one.gpu == 1 and one.status == "fail"]
    assert messages == [("GPU 1 had an uncorrectable memory error while testing: run a field diagnostic.",)]


def test_dcgmi_3_json():
    diagnosis = dcgmi.parse(text("dcgmi_3.3.json"))
    assert of_status(diagnosis, "fail", "warn") == [("Graphics Processes", None, "warn"), ("PCIe", 1, "fail")]
    assert diagnosis.results[-1].messages == ("bandwidth 5.20 is below the minimum",)
    assert (diagnosis.version, diagnosis.results[-1].error) == ("3.3.9", 58)


def test_dcgmi_3_1_json_with_nulls():
    diagnosis = dcgmi.parse(text("dcgmi_3.1.json"))
    assert (diagnosis.version, diagnosis.gpus) == ("3.1.8", 4)
    assert of_status(diagnosis, "fail", "not_run") == [
        ("Page Retirement/Row Remap", None, "fail"),
        ("PCIe", None, "not_run"),
        ("GPU Memory", 3, "fail"),
        ("GPU Memory", None, "not_run"),
    ]
    assert [one.messages for one in diagnosis.results if one.status == "not_run"] == [
        ("1 of 4 GPUs did not run it",),
        ("3 of 4 GPUs did not run it",),
    ]


def test_dcgmi_that_is_nothing_but_nulls():
    broken = text("dcgmi_3.1.json").replace('"gpu_ids"', '"x"')
    assert {one.gpu for one in dcgmi.parse(broken).results} == {None}
    for tests in ("[null]", '[{"name": "PCIe", "results": [null, 7]}]', '[{"name": "PCIe", "results": []}]'):
        with pytest.raises(ParseError):
            dcgmi.parse('{"DCGM GPU Diagnostic": {"test_categories": [{"category": "x", "tests": ' + tests + "}]}}")


def test_dcgmi_says_how_many_gpus_it_found():
    assert [dcgmi.parse(text("dcgmi_" + name)).gpus for name in ("4.2.json", "3.3.json", "4.2.txt")] == [2, None, None]


# dcgmi health -----------------------------------------------------------------------------------------


def incidents(name):
    report = dcgmi_health.parse(text(name))
    return report.status, [(one.group, one.number, one.system, one.status) for one in report.incidents]


def test_dcgmi_health_3_text():
    assert incidents("health_3.3.txt") == (
        "fail",
        [
            ("GPU", 0, "PCIe system", "warn"),
            ("GPU", 5, "Memory system", "fail"),
            ("GPU", 5, "Thermal system", "warn"),
        ],
    )
    first = dcgmi_health.parse(text("health_3.3.txt")).incidents[0].message
    assert first.startswith("Detected more than 8 PCIe replays per minute for GPU 0 : 99999 Reconnect PCIe card.")


def test_dcgmi_health_2_writes_a_severity_where_the_gpu_belongs():
    assert incidents("health_2.1.txt") == ("warn", [("GPU", None, "PCIe system", "warn")])


def test_dcgmi_health_json():
    assert incidents("health_4.5_healthy.json") == ("pass", [])
    assert incidents("health_4.5.json") == (
        "fail",
        [("GPU", 1, "Driver", "fail"), ("Switch", 0, "NVLINK system", "warn")],
    )


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("health_3.3.txt", "| Overall Health            | Failure", "| Overall Health            | Healthy"),
        ("health_3.3.txt", "| Overall Health            | Failure", "| Overall Health            | Internal error"),
        ("health_4.5.json", '"value": "Failure"', '"value": 7'),
        ("health_4.5.json", '"children"', '"parents"'),
        ("health_4.5_healthy.json", "Healthy", ""),
    ],
)
def test_dcgmi_health_that_contradicts_itself(name, old, new):
    broken = text(name).replace(old, new)
    assert broken != text(name)
    if new == '"parents"':
        assert dcgmi_health.parse(broken) == dcgmi_health.Report("fail", ())  # the judge tells it, see dcgm
        return
    with pytest.raises(ParseError):
        dcgmi_health.parse(broken)


def entity(value, *errors):
    told = {system: {"value": status, "overflow": [system + " is bad"]} for system, status in errors}
    return {"value": value, "children": {"Errors": {"children": told}} if errors else {}}


def watched(overall, **gpus):
    body = {"Overall Health": {"value": overall}}
    if gpus:
        body["GPU"] = {"children": {name[1:]: one for name, one in gpus.items()}}
    return json.dumps({"body": body, "header": ["Health Monitor Report"]})


@pytest.mark.parametrize(
    "report",
    [
        watched("Healthy", g1=entity("Failure")),
        watched("Healthy", g1=entity("Warning")),
        watched("Warning", g1=entity("Failure")),
        watched("Healthy", g1=entity("Internal error")),
        watched("Healthy", g1=entity("")),
        text("health_2.1.txt")
        .replace("Health            | Warning", "Health            | Healthy")
        .split("|    -> Errors")[0]
        + "+---------------------------+----------------------------------------------------------+\n",
    ],
)
def test_dcgmi_health_of_a_gpu_without_errors_is_not_passed_over(report):
    with pytest.raises(ParseError, match="contradict|unknown state"):
        dcgmi_health.parse(report)


def test_dcgmi_health_tells_a_state_that_no_error_explains():
    report = watched("Failure", g1=entity("Failure"), g2=entity("Failure", ("Driver", "Warning")), g3=entity("Healthy"))
    assert [(one.number, one.system, one.status) for one in dcgmi_health.parse(report).incidents] == [
        (1, "overall", "fail"),
        (2, "Driver", "warn"),
        (2, "overall", "fail"),
    ]


def test_dcgmi_health_that_says_why():
    with pytest.raises(ParseError, match="Health watches not enabled"):
        dcgmi_health.parse("Error: Health watches not enabled. Please enable watches. \n")


def test_dcgmi_4_json_after_a_line_of_text():
    diagnosis = dcgmi.parse(text("dcgmi_4.2.json"))
    assert of_status(diagnosis, "fail") == [("software", 1, "fail")]
    (failed,) = [one for one in diagnosis.results if one.status == "fail"]
    assert (failed.error, failed.severity) == (80, 2) and diagnosis.version == "4.2.3"


def test_dcgmi_that_refuses():
    diagnosis = dcgmi.parse(text("dcgmi_refused.json"))
    assert diagnosis.results == () and "MIG" in (diagnosis.refused or "")
    with pytest.raises(ParseError, match="unable to establish a connection"):
        dcgmi.parse("Error: unable to establish a connection to the specified host: localhost\n")


# HPL --------------------------------------------------------------------------------------------------


def test_hpl_of_netlib():
    runs = hpl.parse(text("hpl_netlib.txt"))
    assert [(run.kind, run.n, run.processes, run.passed) for run in runs] == [
        ("hpl", 29184, 8, True),
        ("hpl", 34944, 8, True),
    ]
    assert runs[0].gigaflops == pytest.approx(270.0, rel=0.01) and runs[0].residual == pytest.approx(0.00341270092)


def test_hpl_of_nvidia():
    (run,) = hpl.parse(text("hpl_nvidia.txt"))
    assert (run.n, run.processes, run.seconds, run.passed) == (264192, 8, 131.44, True)
    assert run.gigaflops == pytest.approx(93520, rel=0.001)


@pytest.mark.parametrize(
    ("name", "n", "seconds", "gigaflops", "residual"),
    [
        ("hpl_nvidia_1.0.txt", 72000, 111.21, 2238.0, 0.0029328),
        ("hpl_rocm_2.3.txt", 384000, 4645.37, 8126.1, 4.12139792e-03),
        ("hpl_mxp_24.3.txt", 380000, None, 8.7877e5, 4.477002e-04),
    ],
)
def test_hpl_of_other_makers_and_versions(name, n, seconds, gigaflops, residual):
    (run,) = hpl.parse(text(name))
    assert (run.n, run.seconds, run.gigaflops, run.residual, run.passed) == (n, seconds, gigaflops, residual, True)
    assert run.processes == (8 if run.kind == "hpl-mxp" else 2)


def test_hpl_with_a_wrong_answer():
    (run,) = hpl.parse(text("hpl_failed.txt"))
    assert not run.passed and run.residual == pytest.approx(83175.441)
    (nan,) = hpl.parse(text("hpl_failed.txt").replace("8.31754410e+04", "nan"))
    assert not nan.passed


def test_hpl_mxp():
    (run,) = hpl.parse(text("hpl_mxp.txt"))
    assert (run.kind, run.n, run.processes, run.gigaflops) == ("hpl-mxp", 264192, 8, 1.5288e6)
    assert run.passed and run.seconds is None


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("hpl_nvidia.txt", "131.44", "231.44"),
        ("hpl_nvidia.txt", "131.44", "131,44"),
        ("hpl_nvidia.txt", "Finished      1", "Finished      2"),
        ("hpl_netlib.txt", "PASSED", ""),
        ("hpl_nvidia.txt", "3.41270092e-03 ...... PASSED", "nan ...... PASSED"),
        ("hpl_mxp.txt", "191100.32", "391100.32"),
    ],
)
def test_hpl_that_contradicts_itself(name, old, new):
    broken = text(name).replace(old, new, 1)
    assert broken != text(name)
    with pytest.raises(ParseError):
        hpl.parse(broken)


# fio --------------------------------------------------------------------------------------------------


def test_fio():
    write, read = fio.parse(text("fio_3.33.json"))
    assert (write.write_bytes_per_second, write.read_bytes_per_second) == (6839119898.0, 0.0)
    assert (read.write_bytes_per_second, read.read_bytes_per_second) == (0.0, 9544371768.0)
    (old,) = fio.parse(text("fio_2.2.json"))
    assert old.write_bytes_per_second == 1398101 * 1024
    (first,) = fio.parse(text("fio_3.1.json"))
    assert (first.write_bytes_per_second, first.read_bytes_per_second) == (1753471 * 1024, 0.0)
    (fast,) = fio.parse(text("fio_3.28.json"))
    assert (fast.read_bytes_per_second, fast.write_bytes_per_second) == (12411965845.0, 0.0)


@pytest.mark.parametrize(
    ("old", "new"), [('"error" : 0', '"error" : 28'), ("6839119898", "9839119898"), (" 900 }", " 90 }")]
)
def test_fio_that_failed_or_contradicts_itself(old, new):
    with pytest.raises(ParseError):
        fio.parse(text("fio_3.33.json").replace(old, new, 1))


# All of them ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parse", PARSERS.values(), ids=PARSERS)
@pytest.mark.parametrize("nothing", ["", "\n \n", "bash: command not found\n", "{}", "[]", "{", "\x00\xff", "null"])
def test_nothing_is_an_error(parse, nothing):
    with pytest.raises(ParseError):
        parse(nothing)


@pytest.mark.parametrize("name", SAMPLES)
def test_an_output_that_is_cut_short_is_an_error_or_the_whole_result(name):
    whole = text(name)
    listed = parser(name) is nvbandwidth.parse  # it prints one test after the other, and nothing at the end
    result = parser(name)(whole)
    for end in sorted({*range(0, len(whole), 7), *(place for place, one in enumerate(whole) if one == "\n")}):
        try:
            part = parser(name)(whole[:end])
        except ParseError:
            continue
        assert part == result or (listed and part == result[: len(part)]), whole[:end]


@examples(60)
@given(name=some.sampled_from(SAMPLES), data=some.data())
def test_a_damaged_output_never_crashes_a_parser(name, data):
    whole = text(name)
    for place in data.draw(some.lists(some.integers(0, len(whole)), min_size=1, max_size=4)):
        start = min(place, len(whole))
        end = min(len(whole), start + data.draw(some.integers(0, 12)))
        whole = (
            whole[:start]
            + data.draw(some.text(max_size=6) | some.sampled_from(["\n", "|", "}", "nan", ","]))
            + whole[end:]
        )
    for parse in (parser(name), data.draw(some.sampled_from(sorted(PARSERS.values(), key=repr)))):
        try:
            parse(whole)
        except ParseError as error:
            assert str(error) and len(str(error)) < 700


@examples(60)
@given(name=some.sampled_from(SAMPLES), data=some.data())
def test_lines_that_are_lost_or_twice_never_crash_a_parser(name, data):
    lines = text(name).splitlines(keepends=True)
    for one in data.draw(some.lists(some.integers(0, len(lines)), min_size=1, max_size=3)):
        place = one % len(lines)
        lines[place : place + 1] = data.draw(some.sampled_from([[], [lines[place], lines[place]]]))
        lines = lines or [""]
    try:
        parser(name)("".join(lines))
    except ParseError:
        pass


@examples(60)
@given(
    value=some.recursive(
        some.none() | some.booleans() | some.floats() | some.integers() | some.text(max_size=5),
        lambda inner: (
            some.lists(inner, max_size=3)
            | some.dictionaries(
                some.sampled_from(
                    [
                        "jobs",
                        "error",
                        "read",
                        "write",
                        "results",
                        "nvbandwidth",
                        "testcases",
                        "name",
                        "status",
                        "DCGM Diagnostic",
                        "test_categories",
                        "tests",
                        "out_of_bounds",
                        "average_bus_bandwidth",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=15,
    )
)
def test_any_json_of_another_shape_is_an_error(value):
    for parse in PARSERS.values():
        with pytest.raises(ParseError):
            parse(json.dumps({"jobs": value, "results": value, "nvbandwidth": value, "DCGM Diagnostic": value}))


def test_an_error_of_a_parser_survives_the_way_out_of_a_child_process():
    error = ParseError("nvbandwidth", "it is empty")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.tool) == (str(error), "nvbandwidth")


@given(some.text(max_size=12))
def test_a_number_is_a_number_or_an_error(word):
    try:
        value = common.number("x", word)
    except ParseError:
        return
    assert value == float(word.strip())
