# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The active checks that run a tool, or read what one wrote: NCCL, InfiniBand, DCGM, HPL, and the scratch."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import (
    apart,
    dcgm,
    direct_io,
    infiniband,
    linpack,
    memory_patterns,
    memory_test,
    nccl,
    scratch,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.readings import Reading, Readings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.parse import ParseError, dcgmi, dcgmi_health
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Expected, Outcome, Threshold
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import unpack


def expected(**limits):
    made = {name: Threshold("higher", warn, fail, "the profile") for name, (warn, fail) in limits.items()}
    return Expected("p", {}, {}, made, {}, {}, 0.0)


def told(judgement):
    return [(one.outcome.value, one.code, one.key, one.action.value) for one in judgement.findings]


# Memory -----------------------------------------------------------------------------------------------

# The driver knows PTX up to 6.3 only.
HOST = ("driver.version=410.104", "gpu.cuda.memory_kib=65536")


def test_a_driver_that_refuses_the_kernels_has_its_memory_compared_on_the_host(machine, health):
    node = machine("nd96asr_v4", "gpu.count=1", *HOST)
    verdict = node.check("gpu_memory_test")
    assert health.findings(verdict) == []
    (result,) = verdict["results"]
    assert result["outcome"] == "pass" and result["measured"] == []
    assert result["seen"].startswith("every bit of 0.06291 GB (93.8 % of all memory) of 1 GPU read as 0 and as 1, ")
    assert "compared on the host, and no rate measured: the driver does not accept the PTX" in result["seen"]
    assert "cuModuleLoadDataEx gave error 222 (ptxas fatal   : Unsupported .version 6.4" in result["seen"]


def test_a_bit_that_is_stuck_is_found_by_the_host_on_the_gpu_that_has_it(machine, health):
    node = machine("nd96asr_v4", "gpu.count=2", *HOST)
    dummy, pci = node.gpus[1]
    node.fault("gpu 1 memory {0} stuck 16 1".format(5 * 2**20 + 4240))
    verdict = node.check("gpu_memory_test")
    assert health.findings(verdict) == [("gpu_memory_test", "memory_mismatch", pci, "fail", "replace")]
    # The pattern itself is in front of the memory that is tested: a chunk, and a part for each of 64 chunks.
    place = 5 * 2**20 + 4242 - (memory_patterns.length(2**20, 64) + 511) // 512 * 512
    assert "byte {0:#x} is ".format(place) in verdict["results"][0]["findings"][0]["reason"]


@pytest.mark.parametrize("seconds", [0, -1, 1e9, "20", True, None])
def test_a_time_that_is_none_is_unknown(seconds, tmp_path):
    with pytest.raises(NodeError, match="setting memory_test_seconds"):
        memory_test.look(Evidence(Host(str(tmp_path)), {}, {"memory_test_seconds": seconds}))


# NCCL -------------------------------------------------------------------------------------------------

BUSBW = "nccl_allreduce_busbw_gigabytes_per_second"


def ended(stdout, stderr="", status=0):
    return apart.Ended(status, stdout, stderr)


def test_all_reduce_over_all_gpus(machine, health):
    node = machine("nd96isr_h100_v5")
    text = (health.data / "nccl_tests_2.17.txt").read_text()
    node.printing("all_reduce_perf", text)
    verdict = node.check("nccl_all_reduce", limits=health.profile(**{BUSBW: (470, 460)}))
    assert health.findings(verdict) == [] and health.measured(verdict, BUSBW) == {"": 474.58}
    (call,) = node.calls("all_reduce_perf")
    assert call["argv"][:6] == ["-b", str(16 * 2**30), "-e", str(16 * 2**30), "-g", "8"]
    assert call["gpus"] == ",".join(uuid for uuid, dummy in node.gpus)
    loopback = dict(health.profile(**{BUSBW: (480, 475), nccl.LOOPBACK: (400, 300)}))
    slow = node.check("nccl_all_reduce", limits=loopback, declared={"profile": {"data": loopback}})
    over = node.calls("all_reduce_perf")[2]["nccl"]
    assert over == {"NCCL_SHM_DISABLE": "1", "NCCL_P2P_DISABLE": "1", "NCCL_NET_GDR_LEVEL": "5"}
    assert health.measured(slow, nccl.LOOPBACK) == {"": 474.58}
    assert health.findings(slow) == [("nccl_all_reduce", "low_nccl_allreduce_busbw", "", "fail", "look")]


def test_an_additional_check_without_its_tool_does_not_apply_unless_a_setting_names_it(machine, health):
    node = machine("nd96isr_h100_v5", "gpu.count=2")
    verdict = node.check("nccl_all_reduce", "dcgm_diagnosis")
    assert health.findings(verdict) == []
    assert verdict["not_applicable"] == {
        "nccl_all_reduce": "all_reduce_perf is not installed",
        "dcgm_diagnosis": "dcgmi is not installed",
    }
    named = node.check("nccl_all_reduce", "dcgm_diagnosis", tools={"all_reduce_perf": "/opt/x", "dcgmi": "/opt/y"})
    assert [(one[0], one[3]) for one in health.findings(named)] == [
        ("nccl_all_reduce", "unknown"),
        ("dcgm_diagnosis", "unknown"),
    ]


def test_a_sum_that_came_out_wrong_is_a_fault_whatever_its_rate(health):
    run = nccl.of_output(ended((health.data / "nccl_tests_wrong.txt").read_text()), 2)
    seen = nccl.Seen(Readings("", (Reading("this node", "", ((BUSBW, 500.0),)),)), run.wrong)
    assert told(nccl.judge(seen, expected(**{BUSBW: (470, 460)}))) == [("fail", "wrong_result", "", "replace")]


def test_an_all_reduce_that_failed_says_why(health):
    with pytest.raises(ParseError, match="libmpi.so.40: cannot open shared object file"):
        nccl.of_output(
            ended("", "error while loading shared libraries: libmpi.so.40: cannot open shared object file"), 8
        )
    with pytest.raises(ParseError, match="it ran on 8 GPUs, not on 4"):
        nccl.of_output(ended((health.data / "nccl_tests_2.17.txt").read_text()), 4)
    elsewhere = (health.data / "nccl_tests_2.17.txt").read_text().replace("gpunode-a device  7", "gpunode-b device  7")
    with pytest.raises(ParseError, match="it ran on 2 hosts, not on this node alone"):
        nccl.of_output(ended(elsewhere), 8)


@pytest.mark.parametrize(
    ("gibibytes", "message"), [(16, 4 * 2**30), (32, 8 * 2**30), (40, 8 * 2**30), (80, 16 * 2**30), (141, 16 * 2**30)]
)
def test_the_message_fits_the_memory(gibibytes, message):
    assert nccl.message_bytes(gibibytes * 2**30) == message
    assert nccl.message_bytes(0) == 2**26


# InfiniBand -------------------------------------------------------------------------------------------

IB, GDR = infiniband.WRITE, infiniband.GDR


def a_server(output):
    """One that listens as perftest does, and tells its client what was recorded."""
    return (
        "import socket, sys\n"
        "options = sys.argv[1:]\n"
        "port = int(options[options.index('-p') + 1])\n"
        "if options[-1] == '127.0.0.1':\n"
        "    socket.create_connection(('127.0.0.1', port), timeout=10).recv(1)\n"
        "    sys.stdout.write({0!r})\n"
        "else:\n"
        "    with socket.socket() as listening:\n"
        "        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
        "        listening.bind(('', port))\n"
        "        listening.listen(1)\n"
        "        listening.accept()[0].send(b'x')\n"
    ).format(output)


@pytest.fixture
def program(tmp_path):
    def make(script):
        path = tmp_path / "ib_write_bw"
        path.write_text("#!{0}\n{1}".format(sys.executable, script))
        path.chmod(0o755)
        return str(path)

    return make


def test_a_loopback_with_a_server_and_a_client(health, program):
    path = program(a_server((health.data / "perftest_gbits.txt").read_text()))
    assert infiniband._loopback(Host(), path, "mlx5_ib0", 1, None) == 391.87
    with pytest.raises(ParseError, match="it is empty"):
        infiniband._loopback(Host(), program(a_server("")), "mlx5_ib0", 1, None)


def test_a_server_that_fails_says_why(program):
    script = "import sys\nsys.stderr.write('IB device mlx5_ib9 not found\\n')\nsys.exit(1)\n"
    with pytest.raises(ParseError, match="its server failed .IB device mlx5_ib9 not found"):
        infiniband._loopback(Host(), program(script), "mlx5_ib9", 1, None)


@pytest.mark.skipif(shutil.which("ib_write_bw") is None, reason="needs the package perftest")
def test_the_real_perftest_without_a_device_is_unknown():
    path = shutil.which("ib_write_bw")
    with pytest.raises(NodeError) as caught:
        infiniband._loopback(Host(), path, "nothing0", 1, None)
    assert "its server failed" in caught.value.reason and "usage" not in caught.value.reason.lower()


def test_each_port_is_held_against_the_limits():
    readings = tuple(
        Reading("InfiniBand mlx5_ib{0} port 1".format(n), "mlx5_ib{0}/1".format(n), ((IB, rate), (GDR, rate - 3)))
        for n, rate in enumerate([392.0, 391.0, 301.0])
    )
    limits = {IB: (None, 380), GDR: (385, 380)}
    judgement = infiniband.judge_ports(Readings("loopback", readings), expected(**limits))
    assert told(judgement) == [
        ("fail", "low_infiniband_write", "mlx5_ib2/1", "reboot"),
        ("fail", "low_infiniband_gdr_write", "mlx5_ib2/1", "reboot"),
    ]
    assert len(judgement.measured) == 6


def test_a_profile_that_wants_gpu_memory_is_not_content_with_host_memory():
    readings = Readings("loopback; this ib_write_bw is built without CUDA", (Reading("p", "mlx5_0/1", ((IB, 392.0),)),))
    assert told(infiniband.judge_ports(readings, expected(**{GDR: (385, 380)}))) == [
        ("unknown", "no_gdr", "", "configure")
    ]
    assert told(infiniband.judge_ports(readings, expected())) == []


def test_a_node_without_infiniband(tmp_path):
    (tmp_path / "sys/class").mkdir(parents=True)
    assert "no InfiniBand port" in infiniband.look(Evidence(Host(str(tmp_path)), {}, {})).not_applicable


def test_a_virtual_function_has_no_port_of_its_own_to_measure(tmp_path, monkeypatch):
    root = unpack("ndv4", tmp_path / "node")
    evidence = Evidence(Host(str(root)), {}, {})
    monkeypatch.setattr(infiniband.survey, "gpus", lambda evidence: None)

    def missing(host, settings, name):
        raise NodeError(name, "it is not installed", "install perftest")

    monkeypatch.setattr(infiniband.tools, "need", missing)
    with pytest.raises(NodeError, match="ib_write_bw"):
        infiniband.look(evidence)  # there are ports, and nothing to measure them with
    physical = tmp_path / "node/sys/devices/0101:00:00.0"
    physical.mkdir()
    for device in (tmp_path / "node/sys/class/infiniband").iterdir():
        (device.resolve().parents[1] / "physfn").symlink_to(physical)
    assert "no InfiniBand port" in infiniband.look(Evidence(Host(str(root)), {}, {})).not_applicable


# DCGM -------------------------------------------------------------------------------------------------


def test_dcgm_is_asked_for_json_of_a_level(machine, health):
    node = machine("nd96isr_h100_v5", "gpu.count=2")
    dcgmi_that_answers(node, health, "dcgmi_4.2.json", "health_4.5.json")
    verdict = node.check("dcgm_diagnosis", dcgm_level=2)
    assert health.findings(verdict) == [
        ("dcgm_diagnosis", "dcgm_software", node.gpus[1][1], "fail", "replace"),
        ("dcgm_diagnosis", "dcgm_health_driver", node.gpus[1][1], "fail", "look"),
        ("dcgm_diagnosis", "dcgm_health_nvlink_system", "", "warn", "look"),
    ]
    calls = [json.loads(line) for line in (node.folder / "calls").read_text().splitlines()]
    assert calls == [["diag", "-r", "2", "-j"], ["health", "-c", "-j"]]


def dcgmi_that_answers(node, health, diagnosis, watches):
    """One that answers from samples; ``watches`` may be a sentence of its own."""
    told = (health.data / watches).read_text() if watches.endswith("json") else watches
    node.tool(
        "dcgmi",
        "import json, sys\n"
        "open({0!r}, 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
        "sys.stdout.write({1!r} if sys.argv[1] == 'diag' else {2!r})\n".format(
            str(node.folder / "calls"), (health.data / diagnosis).read_text(), told
        ),
    )


@pytest.mark.parametrize(
    ("watches", "found"),
    [
        ("health_4.5_healthy.json", []),
        ("Error: Health watches not enabled. Please enable watches. \n", []),
        ("Error: Unable to check health watches. Return: Host engine connection invalid\n", ["dcgm_health"]),
    ],
)
def test_the_watches_of_dcgm_are_told_where_there_are_any(machine, health, watches, found):
    node = machine("nd96isr_h100_v5", "gpu.count=4")
    dcgmi_that_answers(node, health, "dcgmi_3.1.json", watches)
    told = [one for one in health.findings(node.check("dcgm_diagnosis")) if one[1] not in DIAGNOSED]
    assert [(one[2], one[3]) for one in told] == [(key, "unknown") for key in found]


DIAGNOSED = ("dcgm_page_retirement_row_remap", "dcgm_pcie", "dcgm_gpu_memory")


def test_gpus_that_dcgm_does_not_know_are_told(machine, health):
    node = machine("nd96isr_h100_v5", "gpu.count=6")
    dcgmi_that_answers(node, health, "dcgmi_3.1.json", "health_4.5_healthy.json")
    told = [one[1:] for one in health.findings(node.check("dcgm_diagnosis")) if one[1] not in DIAGNOSED]
    assert told == [("gpus_missing", "", "unknown", "restart_service")]


def test_a_watch_that_says_no_more_is_told():
    diagnosis = dcgmi.Diagnosis("2.1", (dcgmi.Result("pcie", 0, "pass"),))
    less = dcgmi_health.Incident("Switch", 0, "NVLINK system", "warn", "link 3 is down")
    overall = ("fail", "dcgm_health_overall", "", "look")
    for incidents, findings in (((), []), ((less,), [("warn", "dcgm_health_nvlink_system", "", "look")])):
        report = dcgmi_health.Report("fail", incidents)
        assert told(dcgm.judge(dcgm.Seen(1, diagnosis, health=report), expected())) == [*findings, overall]


@pytest.mark.parametrize(
    ("name", "findings"),
    [
        (
            "dcgmi_3.3.txt",
            [
                ("fail", "dcgm_persistence_mode", "", "look"),
                ("fail", "dcgm_gpu_memory", "gpu2", "look"),
                ("fail", "dcgm_gpu_memory", "gpu5", "look"),
            ],
        ),
        ("dcgmi_4.2.txt", [("fail", "dcgm_memory", "gpu1", "look")]),
        ("dcgmi_3.3.json", [("warn", "dcgm_graphics_processes", "", "look"), ("fail", "dcgm_pcie", "gpu1", "look")]),
        ("dcgmi_4.2.json", [("fail", "dcgm_software", "gpu1", "replace")]),
        ("dcgmi_refused.json", [("unknown", "", "", "look")]),
        (
            "dcgmi_3.1.json",
            [
                ("fail", "dcgm_page_retirement_row_remap", "", "look"),
                ("unknown", "dcgm_pcie", "", "look"),
                ("fail", "dcgm_gpu_memory", "gpu3", "look"),
                ("unknown", "dcgm_gpu_memory", "", "look"),
            ],
        ),
    ],
)
def test_what_dcgm_says_of_each_gpu(health, name, findings):
    things = tuple(("GPU {0}".format(number), "gpu{0}".format(number)) for number in range(8))
    seen = dcgm.Seen(1, dcgmi.parse((health.data / name).read_text()), things)
    assert told(dcgm.judge(seen, expected())) == findings


def test_a_diagnosis_that_skipped_everything_passes_nothing():
    results = tuple(dcgmi.Result("pcie", number, "skip") for number in range(2))
    assert told(dcgm.judge(dcgm.Seen(1, dcgmi.Diagnosis("4.2", results)), expected())) == [("unknown", "", "", "look")]


@pytest.mark.parametrize(
    ("severity", "outcome", "action"), [(1, "warn", "watch"), (6, "fail", "reset_gpu"), (3, "fail", "look")]
)
def test_the_severity_that_dcgm_gives_decides_what_to_do(severity, outcome, action):
    results = (dcgmi.Result("memory", 0, "fail", ("bad",), 10, severity),)
    judgement = dcgm.judge(dcgm.Seen(1, dcgmi.Diagnosis("4.2", results)), expected())
    assert told(judgement) == [(outcome, "dcgm_memory", "dcgm_gpu_0", action)]


# HPL --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "limits", "findings"),
    [
        ("hpl_nvidia.txt", {"hpl_gigaflops_per_second": (90000, 80000)}, []),
        ("hpl_nvidia.txt", {"hpl_gigaflops_per_second": (96000, 95000)}, [("fail", "low_hpl", "", "look")]),
        ("hpl_failed.txt", {}, [("fail", "wrong_result", "", "replace")]),
        ("hpl_mxp.txt", {"hpl_mxp_gigaflops_per_second": (2e6, 1e6)}, [("warn", "low_hpl_mxp", "", "watch")]),
    ],
)
def test_a_result_of_hpl(tmp_path, health, name, limits, findings):
    (tmp_path / "HPL.out").write_text((health.data / name).read_text())
    seen = linpack.look(Evidence(Host(str(tmp_path)), {}, {"hpl_output": "/HPL.out"}))
    assert told(linpack.judge(seen, expected(**limits))) == findings


def test_no_result_of_hpl(tmp_path):
    evidence = Evidence(Host(str(tmp_path)), {}, {})
    assert linpack.judge(linpack.look(evidence), expected()).not_applicable is not None
    for path in ("/missing", "HPL.out", 7):
        with pytest.raises(NodeError):
            linpack.look(Evidence(Host(str(tmp_path)), {}, {"hpl_output": path}))


# Scratch ----------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """A folder that direct requests work in."""
    try:
        with scratch.nameless(str(tmp_path)):
            pass
    except OSError as error:
        pytest.skip("no direct I/O in {0}: {1}".format(tmp_path, error))
    return str(tmp_path)


SIZE = direct_io.BLOCK * direct_io.THREADS * 3 // 2


def test_the_scratch_is_written_and_read_and_nothing_is_left(folder):
    figures = dict(scratch.measure(folder, SIZE))
    assert set(figures) == {scratch.WRITE, scratch.READ} and min(figures.values()) > 0
    assert os.listdir(folder) == []


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs the package fio")
def test_the_real_fio_measures_the_same_nameless_file(folder):
    figures = dict(scratch.measure(folder, SIZE, shutil.which("fio")))
    assert min(figures.values()) > 0 and os.listdir(folder) == []


def test_without_nameless_files_the_name_is_gone_before_anything_is_written(folder, monkeypatch):
    monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)  # what a file system without them makes of it: EISDIR
    with scratch.nameless(folder) as handle:
        assert os.listdir(folder) == []
        direct_io.run(handle, SIZE)


def test_a_block_that_changed_is_found(folder, monkeypatch):
    real = os.pwritev

    def one_is_lost(handle, buffers, place):
        return direct_io.BLOCK if place == 9 * direct_io.BLOCK else real(handle, buffers, place)

    monkeypatch.setattr(os, "pwritev", one_is_lost)
    with pytest.raises(
        NodeError, match="other data than were written .the block at byte 37748736 is another"
    ) as caught:
        scratch.measure(folder, SIZE)
    assert (caught.value.fault, caught.value.code) == ("replace", "data_changed")


@pytest.mark.parametrize(("number", "fault"), [(errno.EIO, "look"), (errno.ENOSPC, None), (errno.EROFS, None)])
def test_an_error_of_the_disks_is_a_fault_and_no_space_is_none(folder, monkeypatch, number, fault):
    def fail(*dummy):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(NodeError) as caught:
        scratch.measure(folder, SIZE)
    assert getattr(caught.value, "fault", None) == fault and os.listdir(folder) == []
    # As the judge sees it, after its way out of the process apart.
    with pytest.raises(NodeError) as outside:
        apart.measure("scratch", 20, lambda: scratch.measure(folder, SIZE), None, ())
    reading = scratch.unmeasured("scratch", "/scratch", outside.value)
    (finding,) = scratch.judge_scratch(Readings("x", (reading,)), expected()).findings
    assert finding.outcome is (Outcome.FAIL if fault else Outcome.UNKNOWN)
    assert finding.code == ("io_error" if fault else "")


def test_a_full_scratch_is_not_filled_further(folder, monkeypatch):
    real = os.statvfs(folder)

    class Full:
        f_frsize, f_bavail = real.f_frsize, 2**20 // real.f_frsize

    monkeypatch.setattr(os, "statvfs", lambda dummy: Full)
    with pytest.raises(NodeError, match="too little space for a probe"):
        scratch.measure(folder, SIZE)


def test_the_declared_scratch_is_the_one_that_is_measured(folder):
    root = os.path.join(folder, "root")
    os.makedirs(root + "/proc/self")
    os.makedirs(root + "/scratch")
    declared = {"nvme_scratch": {"mount_point": "/scratch", "adopt": False}}
    evidence = Evidence(Host(root), declared, {"scratch_probe_gibibytes": 0.125})
    with pytest.raises(NodeError, match="scratch /scratch: it is not mounted"):
        scratch.look(evidence)
    with open(root + "/proc/self/mountinfo", "w") as stream:
        stream.write("21 1 9:0 / /scratch rw - xfs /dev/md0 rw\n")
    (reading,) = scratch.look(evidence).readings
    assert reading.key == "/scratch" and len(reading.figures) == 2 and os.listdir(root + "/scratch") == []
    judgement = scratch.judge_scratch(Readings("x", (reading,)), expected(**{scratch.WRITE: (None, 1e6)}))
    assert told(judgement) == [("fail", "low_scratch_write", "/scratch", "look")]
    assert scratch.look(Evidence(Host(root), {}, {})).not_applicable is not None
