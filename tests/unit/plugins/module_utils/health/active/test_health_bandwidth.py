# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bandwidth between host and GPUs, and between GPUs: our own copies through CUDA, and nvbandwidth."""

from __future__ import annotations

import itertools
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import host_device, peer_copies, peers
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.cuda import CudaError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.peers import culprits
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.parse import nvbandwidth

TO, FROM = "host_to_device_gigabytes_per_second", "device_to_host_gigabytes_per_second"
PEER, BESIDE = peers.FIGURE, peers.TOGETHER


def test_our_own_copies_measure_every_gpu(machine, health):
    node = machine("nd96isr_h100_v5")
    verdict = node.check("host_device_bandwidth", limits=health.profile(**{TO: (52, 48), FROM: (52, 48)}))
    assert health.findings(verdict) == [] and verdict["outcome"] == "pass"
    for name, rate in ((TO, 55), (FROM, 55), (host_device.BOTH, 110), (host_device.TOGETHER, 55)):
        assert health.measured(verdict, name) == {pci: pytest.approx(rate, rel=0.02) for dummy, pci in node.gpus}
    assert verdict["results"][0]["seen"].startswith("host to device 5")


@pytest.mark.parametrize(("percent", "outcome", "action"), [(15, "fail", "reboot"), (8, "warn", "watch")])
def test_a_slow_gpu_is_named_by_the_limits_of_the_profile(machine, health, percent, outcome, action):
    node = machine("nd96isr_h100_v5", "gpu.count=4")
    node.fault("gpu 2 slow host_to_device {0}".format(percent))
    limits = health.profile(**{TO: (52, 48), FROM: (40, 30)})
    verdict = node.check("host_device_bandwidth", limits=limits)
    slow = node.gpus[2][1]
    assert health.findings(verdict) == [("host_device_bandwidth", "low_host_to_device", slow, outcome, action)]


def test_without_a_profile_only_the_odd_one_out_is_told(machine, health):
    node = machine("nd96asr_v4", "gpu.count=4")
    node.fault("gpu 2 slow host_to_device 50")
    node.fault("gpu 2 slow device_to_host 50")
    verdict = node.check("host_device_bandwidth")
    slow = node.gpus[2][1]
    assert health.findings(verdict) == [
        ("host_device_bandwidth", "low_host_to_device", slow, "warn", "reboot"),
        ("host_device_bandwidth", "low_device_to_host", slow, "warn", "reboot"),
    ]


def host_readings(together, alike, **slow):
    """The judgement of GPUs that are equal alone, with these rates while all copy; ``alike``: how many share a path."""
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import survey
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.readings import Readings
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.limits import LIMITS
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Expected

    readings = []
    for number, (rate, shared) in enumerate(zip(together, alike)):
        gpu = survey.Gpu(number, "", "gpu{0}".format(number), "A100", 0, None, ())
        own = slow.get(gpu.pci_address, 25.0)
        names = (TO, FROM, host_device.BOTH)
        rates = tuple((name, slow.get("{0} {1}".format(gpu.pci_address, name), own)) for name in names)
        copied = host_device.Copied(rates, rate, slow.get("changed", "") if number == 0 else "")
        readings += host_device.of_copied(gpu, copied, (shared, shared))
    return host_device.judge_rates(Readings("x", tuple(readings)), Expected("p", {}, {}, LIMITS, {}, {}, 0.0))


def test_gpus_are_compared_while_all_copy_only_with_those_that_share_as_much():
    # Four GPUs share a switch in pairs, and five have one each: half of the rate is no fault there.
    alike = [2, 2, 2, 2, 1, 1, 1, 1, 1]
    assert host_readings([12, 12, 12, 12, 25, 25, 25, 25, 25], alike).findings == ()
    assert told(host_readings([12, 12, 12, 6, 25, 25, 25, 25, 25], alike)) == [
        ("gpu3", "low_host_to_device_together", "warn", "look")
    ]


def test_a_gpu_that_is_slow_alone_is_not_named_for_what_follows_from_it():
    judgement = host_readings([25, 25, 25, 6], [1] * 4, gpu3=6.0)
    assert [one[1] for one in told(judgement)] == ["low_host_to_device", "low_device_to_host"]
    # From the GPU only, and in both directions at once only.
    judgement = host_readings([25, 25, 25, 6], [1] * 4, **{"gpu3 " + FROM: 6.0})
    assert [one[1] for one in told(judgement)] == ["low_device_to_host"]
    judgement = host_readings([25, 25, 25, 6], [1] * 4, **{"gpu3 " + host_device.BOTH: 6.0})
    assert [one[1] for one in told(judgement)] == ["low_host_device_both_directions"]


def test_data_that_changes_between_host_and_gpu_is_a_failure():
    judgement = host_readings([25] * 4, [1] * 4, changed="1 of 64 bytes differ, the first at byte 7")
    assert told(judgement) == [("gpu0", "data_changed", "fail", "replace")]
    assert len(judgement.measured) == 16  # its rates are told as well


KINDS = ("nd40rs_v2", "nd96asr_v4", "nd96isr_h100_v5", "dgx_b200", "rtx_pro_6000", "openstack_t4", "laptop")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", KINDS)
def test_healthy_machines_of_each_kind_give_no_finding(machine, health, name):
    """Hybrid cube mesh, NVSwitches, two GPUs over PCIe, one GPU in a virtual machine or a laptop."""
    node = machine(name)
    verdict = node.check("host_device_bandwidth", "gpu_peer_bandwidth")
    assert health.findings(verdict) == []
    assert len(health.measured(verdict, TO)) == len(node.gpus)
    if len(node.gpus) == 1:
        assert set(verdict["not_applicable"]) == {"gpu_peer_bandwidth"}
        return
    (peer,) = [one for one in verdict["results"] if one["id"] == "gpu_peer_bandwidth"]
    assert peer["outcome"] == "pass" and "a sample of the data" not in peer["seen"]
    every = len(node.gpus) * (len(node.gpus) - 1)
    assert len(health.measured(verdict, PEER)) == len(health.measured(verdict, BESIDE)) == every


def test_a_fault_that_cuda_tells_is_a_fault_of_that_gpu(machine, health):
    node = machine("nd96asr_v4", "gpu.count=3")
    node.fault("call cuMemcpyHtoDAsync_v2 gpu 1 return 214")
    verdict = node.check("host_device_bandwidth")
    assert health.findings(verdict) == [("host_device_bandwidth", "cuda_214", node.gpus[1][1], "fail", "reset_gpu")]
    assert set(health.measured(verdict, TO)) == {node.gpus[0][1], node.gpus[2][1]}


def test_what_cuda_refuses_for_another_reason_is_unknown(machine, health):
    node = machine("nd96asr_v4", "gpu.count=3")
    node.fault("call cuMemHostAlloc gpu 1 return 2")
    assert health.findings(node.check("host_device_bandwidth")) == [
        ("host_device_bandwidth", "", node.gpus[1][1], "unknown", "look")
    ]


def test_a_gpu_whose_copy_hangs_costs_its_own_limit_and_no_more(machine, health):
    node = machine("nd96asr_v4", "gpu.count=3")
    node.fault("call cuMemcpyDtoHAsync_v2 gpu 0 hang")
    verdict = node.check("host_device_bandwidth", gpu_seconds=6.0)
    assert health.findings(verdict) == [("host_device_bandwidth", "", node.gpus[0][1], "unknown", "look")]
    reason = verdict["results"][0]["findings"][0]["reason"]
    assert reason == "it did not end in time: copy in one direction"
    assert len(health.measured(verdict, TO)) == 2


def test_a_bit_of_the_gpu_that_is_stuck_shows_in_the_data_that_it_returns(machine, health):
    """The buffers are the first that are allocated: the fault is within the second one, which is read back."""
    node = machine("nd96asr_v4", "gpu.count=2")
    node.fault("gpu 1 memory 40000 flip 3")
    (found,) = health.findings(node.check("host_device_bandwidth"))
    assert found == ("host_device_bandwidth", "data_changed", node.gpus[1][1], "fail", "replace")


def test_a_machine_without_the_cuda_library_is_unknown(machine, health):
    node = machine("nd96asr_v4", "gpu.count=1")
    only_nvml = node.folder / "only_nvml"
    only_nvml.mkdir()
    (only_nvml / "libnvidia-ml.so.1").symlink_to(node.simulator.library)
    node.library_path = str(only_nvml)
    verdict = node.check("host_device_bandwidth")
    assert [one[3] for one in health.findings(verdict)] == ["unknown"]
    assert "libcuda.so.1" in verdict["results"][0]["findings"][0]["reason"]


def test_gpus_in_mig_mode_are_left_alone(machine, health):
    node = machine("nd96asr_v4", "gpu.count=2", "gpu.mig_mode=yes")
    verdict = node.check("host_device_bandwidth", "gpu_memory_test", "dcgm_diagnosis", "gpu_peer_bandwidth")
    assert verdict["results"] == [] and set(verdict["not_applicable"]) == {
        "host_device_bandwidth",
        "gpu_memory_test",
        "dcgm_diagnosis",
        "gpu_peer_bandwidth",
    }


# nvbandwidth ------------------------------------------------------------------------------------------


def one_gpu(to, back):
    lines = []
    for name, arrow, value in (("host_to_device", "->", to), ("device_to_host", "<-", back)):
        lines += [
            "Running {0}_memcpy_ce.".format(name),
            "memcpy CE CPU(row) {0} GPU(column) bandwidth (GB/s)".format(arrow),
            "           0",
            " 0{0:10.2f}".format(value),
            "",
            "SUM {0}_memcpy_ce {1:.2f}".format(name, value),
            "",
        ]
    return "nvbandwidth Version: v0.4\n\n" + "\n".join(lines) + "\n"


def test_nvbandwidth_is_asked_for_each_gpu_by_its_uuid(machine, health):
    node = machine("nd96isr_h100_v5", "gpu.count=2")
    node.printing("nvbandwidth", one_gpu(55.25, 54.5))
    verdict = node.check("host_device_bandwidth", limits=health.profile(**{TO: (52, 48), FROM: (52, 48)}))
    assert health.findings(verdict) == []
    assert health.measured(verdict, TO) == {pci: 55.25 for dummy, pci in node.gpus}
    assert health.measured(verdict, FROM) == {pci: 54.5 for dummy, pci in node.gpus}
    calls = node.calls("nvbandwidth")
    assert [call["gpus"] for call in calls] == [uuid for uuid, dummy in node.gpus]
    assert calls[0]["argv"][:3] == ["-t", "host_to_device_memcpy_ce", "device_to_host_memcpy_ce"]
    assert calls[0]["locale"] == "C"


def test_nvbandwidth_has_the_gpu_for_itself(monkeypatch):
    """In exclusive mode the driver refuses it a context while another process has one."""
    order = []

    class Alone:
        count = 1

        def finished(self, who, step):
            order.append("finished")

    class Copies:
        def __init__(self, cuda):
            order.append("context")

        both = staticmethod(lambda: 110.0)
        changed = staticmethod(lambda: "")

    class NoContext:
        def shows(self, count):
            order.append("no context")

    def nvbandwidth_of(program, gpu):
        order.append(program)
        return ((TO, 55.0), (FROM, 55.0))

    monkeypatch.setattr(host_device, "Cuda", NoContext)
    monkeypatch.setattr(host_device, "HostCopies", Copies)
    monkeypatch.setattr(host_device, "_nvbandwidth", nvbandwidth_of)
    monkeypatch.setattr(host_device.apart, "become", lambda gpus: None)
    gpu = host_device.survey.Gpu(0, "GPU-a", "0000:01:00.0", "NVIDIA H100 80GB HBM3", 0, None, ())
    copied = host_device._copied(gpu, 0, (), Alone(), "nvbandwidth")
    assert order == ["no context", "nvbandwidth", "context", "finished"]
    assert copied.alone == ((TO, 55.0), (FROM, 55.0), (host_device.BOTH, 110.0))


def test_an_nvbandwidth_without_json_is_asked_for_text(machine, health):
    node = machine("nd96isr_h100_v5", "gpu.count=1")
    node.tool(
        "nvbandwidth",
        "import sys\n"
        "if '-j' in sys.argv:\n"
        "    print('nvbandwidth Version: v0.4\\nERROR: Invalid Arguments \\n' + ' '.join(sys.argv))\n"
        "    sys.exit(1)\n"
        "sys.stdout.write({0!r})\n".format(one_gpu(25.5, 26.0)),
    )
    assert list(health.measured(node.check("host_device_bandwidth"), TO).values()) == [25.5]


@pytest.mark.parametrize("output", ["", "Running host_to_device_memcpy_ce.\n", one_gpu(25.5, 26.0)[:200], "garbage\n"])
def test_an_nvbandwidth_that_fails_is_unknown(machine, health, output):
    node = machine("nd96isr_h100_v5", "gpu.count=1")
    node.printing("nvbandwidth", output, status=1)
    verdict = node.check("host_device_bandwidth")
    assert [one[3] for one in health.findings(verdict)] == ["unknown"]
    assert health.measured(verdict, TO) == {}


def test_both_directions_are_wanted():
    tests = nvbandwidth.parse(one_gpu(25.5, 26.0))
    assert host_device.of_tests(tests) == ((TO, 25.5), (FROM, 26.0))
    with pytest.raises(NodeError, match="did not measure device_to_host"):
        host_device.of_tests(tests[:1])
    with pytest.raises(NodeError, match="8 values"):
        host_device.of_tests((nvbandwidth.Test("host_to_device_memcpy_ce", "passed", ((1.0,) * 8,)),))


# Peers ------------------------------------------------------------------------------------------------


def test_all_pairs_are_measured_in_both_directions(machine, health):
    node = machine("nd96isr_h100_v5", "gpu.count=4")
    verdict = node.check("gpu_peer_bandwidth", limits=health.profile(**{PEER: (352, 335)}))
    assert health.findings(verdict) == []
    pairs, together = health.measured(verdict, PEER), health.measured(verdict, BESIDE)
    assert len(pairs) == 12 and min(pairs.values()) > 352
    assert together == {pair: pytest.approx(rate, rel=0.02) for pair, rate in pairs.items()}


def peers_of(machine, faults, count=4, **more):
    """The machine of that many GPUs, and what is told of it by the limits of a profile."""
    node = machine("nd96isr_h100_v5", "gpu.count={0}".format(count))
    for words in faults:
        node.fault(words)
    limits = {"thresholds": {PEER: {"better": "higher", "warn": 352, "fail": 335}}}
    return node, node.check("gpu_peer_bandwidth", limits=limits, **more)


def key(node, one, other):
    return "{0}>{1}".format(node.gpus[one][1], node.gpus[other][1])


def test_a_gpu_that_is_slow_with_all_others_is_named_once(machine, health):
    node, verdict = peers_of(machine, ["gpu 2 slow peer 90"])
    found = ("gpu_peer_bandwidth", "low_gpu_to_gpu", node.gpus[2][1], "fail", "reset_gpu")
    assert health.findings(verdict) == [found]
    assert " GB/s at the least with 3 other GPUs" in verdict["results"][0]["findings"][0]["reason"]


def test_a_slow_pair_is_named_as_a_link_and_only_once(machine, health):
    node, verdict = peers_of(machine, ["gpu 1 to 3 slow 50"])
    found = ("gpu_peer_bandwidth", "low_gpu_to_gpu", key(node, 1, 3), "fail", "reset_gpu")
    assert health.findings(verdict) == [found]


def test_a_pair_that_is_slow_only_while_all_copy_is_a_warning(machine, health):
    node, verdict = peers_of(machine, ["gpu 1 to 3 slow 60 together"])
    found = ("gpu_peer_bandwidth", "low_gpu_to_gpu_together", key(node, 1, 3), "warn", "watch")
    assert health.findings(verdict) == [found]
    pairs, together = health.measured(verdict, PEER), health.measured(verdict, BESIDE)
    assert pairs[key(node, 1, 3)] > 352 and together[key(node, 1, 3)] < 200


@pytest.mark.parametrize(
    ("faults", "named", "action"),
    [
        (["gpu 1 to 3 wrong"], (1, 3), "reset_gpu"),
        (["gpu 2 to {0} wrong".format(other) for other in (0, 1, 3)], 2, "replace"),
    ],
    ids=["a link", "a gpu"],
)
def test_data_that_changes_between_two_gpus_is_a_failure(machine, health, faults, named, action):
    node, verdict = peers_of(machine, faults)
    where = key(node, *named) if isinstance(named, tuple) else node.gpus[named][1]
    assert health.findings(verdict) == [("gpu_peer_bandwidth", "data_changed", where, "fail", action)]
    reason = verdict["results"][0]["findings"][0]["reason"]
    assert "1 of " in reason and "words of 16 bytes differ" in reason


def test_a_driver_that_refuses_the_kernels_has_a_sample_compared(machine, health):
    """Branch 410 knows PTX up to 6.3."""
    node = machine("nd40rs_v2", "gpu.count=2", "driver.version=410.129", "driver.cuda_version=10000")
    node.fault("gpu 0 to 1 wrong")
    verdict = node.check("gpu_peer_bandwidth")
    assert [one[1] for one in health.findings(verdict)] == ["data_changed"]
    assert (
        "a sample of the data is compared, because the driver does not accept the PTX" in verdict["results"][0]["seen"]
    )


def test_a_pair_whose_copy_never_ends_is_named_and_nothing_is_left(machine, health):
    node, verdict = peers_of(machine, ["gpu 1 to 2 hang"], gpu_seconds=4.0)
    assert health.findings(verdict) == [("gpu_peer_bandwidth", "", key(node, 1, 2), "unknown", "look")]
    (finding,) = verdict["results"][0]["findings"]
    assert finding["thing"] == "GPU 1 ({0}) to GPU 2 ({1})".format(node.gpus[1][1], node.gpus[2][1])
    assert finding["reason"] == "copying did not end within 4 s"
    state = "NVML_SIMULATOR_STATE={0}".format(node.simulator.state).encode()
    for place in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            assert state not in place.read_bytes(), "process {0} is left".format(place.parent.name)
        except OSError:
            continue


@pytest.mark.parametrize(
    ("faults", "failed", "also"),
    [
        (["gpu 0 to 2 slow 60", "gpu 1 kernel illegal-address"], (1, "cuda_700", "fail"), ((0, 2), "low_gpu_to_gpu")),
        (["gpu 1 to 2 wrong", "call cuMemAlloc_v2 gpu 0 return 2"], (0, "", "unknown"), ((1, 2), "data_changed")),
        (["gpu 1 to 2 wrong", "gpu 0 to 3 hang"], ((0, 3), "", "unknown"), ((1, 2), "data_changed")),
        (
            ["gpu 1 to 3 wrong"] + ["gpu 0 to {0} hang".format(to) for to in (1, 2, 3)],
            (0, "", "unknown"),
            ((1, 3), "data_changed"),
        ),
        (["gpu 2 kernel illegal-address"], (2, "cuda_700", "fail"), None),
    ],
    ids=["slow pair", "changed data", "a pair that hangs", "a gpu that hangs", "the others are healthy"],
)
def test_a_gpu_that_fails_hides_no_fault_of_the_others(machine, health, faults, failed, also):
    node, verdict = peers_of(machine, faults, gpu_seconds=5.0)

    def where(place):
        return key(node, *place) if isinstance(place, tuple) else node.gpus[place][1]

    found = [(one[1], one[2], one[3]) for one in health.findings(verdict)]
    assert found[0] == (failed[1], where(failed[0]), failed[2])
    assert found[1:] == ([(also[1], where(also[0]), "fail")] if also else [])
    # Each pair of the others was measured.
    pairs = health.measured(verdict, PEER)
    assert len(pairs) >= (10 if isinstance(failed[0], tuple) else 6)


def test_a_process_that_cannot_be_ended_is_the_last_one(monkeypatch):
    """It still holds its GPUs: another one would be refused them where they are in exclusive mode."""
    calls = []

    def one_process(things, *more):
        calls.append(things)
        return [], peer_copies.Reading(things[0][0], things[0][1], reason="copying did not end"), True

    monkeypatch.setattr(peer_copies, "_one_process", one_process)
    things = tuple(("GPU {0}".format(number), "gpu{0}".format(number)) for number in range(4))
    result = peer_copies.copy_all(things, ["u"] * 4, ())
    assert len(calls) == 1 and not result.complete and [one.key for one in result.silent] == ["gpu0"]


def test_without_a_profile_those_beside_a_gpu_that_failed_are_still_compared():
    """Its rates, which nobody measured, blame neither it nor the others."""
    every = [pair for pair in itertools.permutations(range(8), 2) if 5 not in pair]
    things = tuple(("GPU {0}".format(number), "gpu{0}".format(number)) for number in range(8))
    links = frozenset(itertools.permutations(range(8), 2))

    def judged(rate_of_2):
        from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Expected

        pairs = tuple((pair, rate_of_2 if 2 in pair else 370.0) for pair in every)
        silent = (peer_copies.Reading("GPU 5", "gpu5", reason="it failed", fault="reset_gpu", code="cuda_700"),)
        seen = peers.Peers("x", things, pairs, silent, linked=links, failed=frozenset([5]))
        return told(peers.judge(seen, Expected("p", {}, {}, {}, {}, {}, 0.0)))

    failed = ("gpu5", "cuda_700", "fail", "reset_gpu")
    assert judged(370.0) == [failed]
    assert judged(90.0) == [failed, ("gpu2", "low_gpu_to_gpu", "fail", "reset_gpu")]


def test_gpus_that_should_reach_each_other_and_do_not(machine, health):
    node, verdict = peers_of(machine, ["gpu 0 to 1 no-peer", "gpu 1 to 0 no-peer"], count=2)
    assert [(one[1], one[3]) for one in health.findings(verdict)] == [("no_peer_access", "fail")]
    # Without a limit there is only the contradiction: NVML shows NVLinks between them.
    (finding,) = node.check("gpu_peer_bandwidth")["results"][0]["findings"]
    assert (finding["code"], finding["outcome"]) == ("no_peer_access", "warn")


def test_gpus_without_nvlink_that_do_not_reach_each_other_have_nothing_to_measure(machine):
    node = machine("rtx_pro_6000")
    node.fault("gpu 0 to 1 no-peer")
    node.fault("gpu 1 to 0 no-peer")
    assert set(node.check("gpu_peer_bandwidth")["not_applicable"]) == {"gpu_peer_bandwidth"}


def test_nvbandwidth_between_gpus(machine, health):
    node = machine("nd96isr_h100_v5")
    text = (health.data / "nvbandwidth_0.8.txt").read_text()
    node.printing("nvbandwidth", text)
    verdict = node.check("gpu_peer_bandwidth", limits=health.profile(**{PEER: (260, 250)}))
    pairs = health.measured(verdict, PEER)
    assert len(pairs) == 56 and health.findings(verdict) == []
    assert pairs["{0}>{1}".format(node.gpus[0][1], node.gpus[1][1])] == 269.11
    assert pairs["{0}>{1}".format(node.gpus[7][1], node.gpus[0][1])] == 275.16
    node.printing("nvbandwidth", text)
    five = machine("nd96isr_h100_v5", "gpu.count=5")
    five.printing("nvbandwidth", text)
    assert [one[3] for one in health.findings(five.check("gpu_peer_bandwidth"))] == ["unknown"]


@pytest.mark.parametrize(
    ("bad", "guilty", "links"),
    [
        (set(), [], []),
        ({(0, 1)}, [], [(0, 1)]),
        ({(0, 1), (1, 0)}, [], [(0, 1)]),
        ({(2, other) for other in range(8) if other != 2}, [2], []),
        ({(2, other) for other in range(8) if other != 2} | {(5, 6)}, [2], [(5, 6)]),
        ({(one, other) for one in (2, 5) for other in range(8) if other != one}, [2, 5], []),
        ({(1, 2), (3, 4), (5, 6)}, [], [(1, 2), (3, 4), (5, 6)]),
        # More than half of its seven partners: four of them.
        ({(2, 3), (2, 4), (2, 5), (2, 6)}, [2], []),
        ({(2, 3), (2, 4), (2, 5)}, [], [(2, 3), (2, 4), (2, 5)]),
    ],
)
def test_who_is_to_blame_among_eight(bad, guilty, links):
    assert culprits(bad, 8) == (guilty, links)


def test_what_is_between_all_gpus_is_to_blame_when_most_of_the_other_pairs_are_bad():
    links = [(4, 5), (4, 6), (5, 7), (6, 7)]  # of six pairs
    assert peers.of_all([0, 1, 2, 3], links, 8) and not peers.of_all([0, 1, 2, 3], links[:3], 8)


@given(
    some.integers(2, 9).flatmap(
        lambda n: some.tuples(
            some.just(n),
            some.sets(
                some.tuples(some.integers(0, n - 1), some.integers(0, n - 1)).filter(lambda pair: pair[0] != pair[1])
            ),
        )
    )
)
def test_every_bad_pair_is_explained(given_pairs):
    count, bad = given_pairs
    guilty, links = culprits(bad, count)
    for one, other in bad:
        assert one in guilty or other in guilty or (min(one, other), max(one, other)) in links
    for pair in links:
        assert not set(pair) & set(guilty)


def shown(node, count):
    """Let CUDA show only the first of the GPUs that NVML has."""
    for number in range(count, len(node.gpus)):
        node.fault("gpu {0} not-in-cuda".format(number))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("count", [1, 6, 0])
def test_gpus_that_cuda_does_not_show_fail_each_active_check(machine, health, count):
    node = machine("nd96isr_h100_v5", "gpu.cuda.memory_kib=16384")
    shown(node, count)
    checks = ("host_device_bandwidth", "gpu_peer_bandwidth", "gpu_memory_test")
    verdict = node.check(*checks)
    code = "not_in_cuda" if count else "cuda_100"
    assert sorted(health.findings(verdict)) == sorted(
        (check, code, pci, "fail", "reboot") for check in checks for dummy, pci in node.gpus[count:]
    )
    assert [one["outcome"] for one in verdict["results"]] == ["fail"] * 3
    if count:
        reason = verdict["results"][0]["findings"][0]["reason"]
        assert reason == "CUDA shows {0} GPUs of 8, and not this one".format(count)
    assert len(health.measured(verdict, PEER)) == (30 if count == 6 else 0)


@pytest.mark.parametrize("name", ["all_reduce_perf", "dcgmi"])
def test_gpus_that_cuda_does_not_show_fail_the_checks_with_tools(machine, health, name):
    node = machine("nd96isr_h100_v5", "gpu.count=3")
    shown(node, 1)
    node.printing(name, "")
    only = {"all_reduce_perf": "nccl_all_reduce", "dcgmi": "dcgm_diagnosis"}[name]
    told = [one for one in health.findings(node.check(only)) if one[1] == "not_in_cuda"]
    # A diagnosis that cannot be read hides what else it would say, and is unknown itself.
    assert [one[2] for one in told] == ([] if name == "dcgmi" else [pci for dummy, pci in node.gpus[1:]])


def test_an_nvbandwidth_that_sees_fewer_gpus_measured_nothing(health):
    text = (health.data / "nvbandwidth_0.6.txt").read_text()
    with pytest.raises(NodeError, match="it saw 1 of 8 GPUs"):
        peers.of_output(text, 8)


def test_an_nvbandwidth_that_waived_without_a_name_found_no_peers():
    text = "nvbandwidth Version: v0.6\n\nDevice 0: x (0)\nDevice 1: x (1)\n\nWaived: \nNOTE: The results\n"
    assert peers.of_output(text, 2) == (((0, 1), None), ((1, 0), None))


def test_a_slow_link_is_told_as_one(health):
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Expected, Threshold

    pairs = tuple(((a, b), 100.0 if {a, b} == {1, 3} else 370.0) for a in range(8) for b in range(8) if a != b)
    things = tuple(("GPU {0}".format(number), "0000:0{0}:00.0".format(number)) for number in range(8))
    limits = {PEER: Threshold("higher", 352, 335, "the profile")}
    judgement = peers.judge(peers.Peers("x", things, pairs), Expected("p", {}, {}, limits, {}, {}, 0.0))
    (finding,) = judgement.findings
    assert (finding.key, finding.code) == ("0000:01:00.0>0000:03:00.0", "low_gpu_to_gpu")
    assert str(finding).startswith("GPU 1: 100 GB/s at the least with GPU 3, below the 335 GB/s of the profile; ")


def beside(together, limits=(), changed=(), slow=(), linked=None, alone=370.0):
    """The judgement of eight GPUs with NVLinks: rates while all copy ({pair: GB/s}, else ``alone``)."""
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.limits import LIMITS
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Expected, Threshold

    every = list(itertools.permutations(range(8), 2))
    known = {name: LIMITS[name] for name in ("gpu_to_gpu_together_share",)}
    known.update({name: Threshold("higher", warn, fail, "the profile") for name, warn, fail in limits})
    seen = peers.Peers(
        "x",
        tuple(("GPU {0}".format(number), "gpu{0}".format(number)) for number in range(8)),
        tuple((pair, 100.0 if set(pair) in slow else alone) for pair in every),
        together=tuple((pair, together.get(pair, alone)) for pair in every),
        changed=tuple(changed),
        linked=frozenset(every if linked is None else linked),
    )
    return peers.judge(seen, Expected("p", {}, {}, known, {}, {}, 0.0))


def told(judgement):
    return [(one.key, one.code, one.outcome.value, one.action.value) for one in judgement.findings]


OF_2 = [pair for pair in itertools.permutations(range(8), 2) if 2 in pair]


@pytest.mark.parametrize(
    ("together", "linked", "expected"),
    [
        ({}, None, []),
        ({pair: 330.0 for pair in OF_2}, None, []),  # 11 % less
        ({pair: 180.0 for pair in itertools.permutations(range(8), 2)}, None, []),  # all alike: by design
        ({(1, 3): 150.0}, None, [("gpu1>gpu3", "low_gpu_to_gpu_together", "warn", "watch")]),
        ({pair: 150.0 for pair in OF_2}, None, [("gpu2", "low_gpu_to_gpu_together", "warn", "watch")]),
        ({(1, 3): 5.0}, [(0, 1), (1, 0), (2, 3), (3, 2)], []),  # over PCIe: shared by design
    ],
    ids=["healthy", "a little slower", "all alike", "one pair", "one gpu", "pcie"],
)
def test_what_is_slow_only_while_all_gpus_copy_is_a_warning_that_says_so(together, linked, expected):
    judgement = beside(together, linked=linked)
    assert told(judgement) == expected
    for finding in judgement.findings:
        assert "while all GPUs copy at once, though each pair alone is as fast" in finding.reason
    measured = {one.key: one.value for one in judgement.measured if one.name == BESIDE}
    assert len(measured) == 56 and measured["gpu1>gpu3"] == together.get((1, 3), 370.0)


@pytest.mark.parametrize(
    ("alone", "count", "product", "linked", "expected"),
    [
        (376.0, 8, "NVIDIA H100 80GB HBM3", None, []),
        (200.0, 8, "NVIDIA H100 80GB HBM3", None, [("", "low_gpu_to_gpu", "warn", "watch")]),
        (150.0, 4, "NVIDIA H100 80GB HBM3", None, []),  # no NVSwitch: six links for each pair
        (24.0, 8, "NVIDIA H100 80GB HBM3", [], []),  # over PCIe
        (200.0, 8, "NVIDIA RTX 6000", None, []),
    ],
)
def test_without_a_profile_the_product_warns_behind_nvswitches_alone(alone, count, product, linked, expected):
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Expected

    every = list(itertools.permutations(range(count), 2))
    things = tuple(("GPU {0}".format(number), "gpu{0}".format(number)) for number in range(count))
    links = frozenset(every if linked is None else linked)
    seen = peers.Peers("x", things, tuple((pair, alone) for pair in every), linked=links, product=product)
    assert told(peers.judge(seen, Expected("p", {}, {}, {}, {}, {}, 0.0))) == expected


def test_a_pair_that_is_slow_alone_is_named_once():
    judgement = beside({(1, 3): 40.0, (3, 1): 40.0}, [(PEER, 352, 335)], slow=[{1, 3}])
    assert told(judgement) == [("gpu1>gpu3", "low_gpu_to_gpu", "fail", "reset_gpu")]


def test_a_profile_can_have_a_limit_for_all_gpus_at_once():
    judgement = beside({(1, 3): 290.0}, [(BESIDE, 330, 300)])
    assert told(judgement) == [("gpu1>gpu3", "low_gpu_to_gpu_together", "fail", "reset_gpu")]


TEXT = "1 of 64 bytes differ, the first at byte 7"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ([((1, 3), TEXT, False)], [("gpu1>gpu3", "data_changed", "fail", "reset_gpu")]),
        ([((1, 3), TEXT, False), ((1, 3), TEXT, True)], [("gpu1>gpu3", "data_changed", "fail", "reset_gpu")]),
        ([((1, 3), TEXT, True)], [("gpu1>gpu3", "data_changed", "fail", "reset_gpu")]),
        (
            [((2, other), TEXT, False) for other in range(8) if other != 2],
            [("gpu2", "data_changed", "fail", "replace")],
        ),
        (
            [(pair, TEXT, False) for pair in itertools.permutations(range(8), 2)],
            [("", "data_changed", "fail", "reboot")],
        ),
    ],
    ids=["a pair", "a pair, always", "only beside others", "a gpu", "all"],
)
def test_data_that_changes_on_its_way_is_a_failure_whatever_the_rates_are(changed, expected):
    judgement = beside({}, changed=changed)
    assert told(judgement) == expected
    (finding,) = judgement.findings
    assert TEXT in finding.reason and "keep jobs off it" in finding.remedy
    assert ("while all GPUs copy at once" in finding.reason) == all(one[2] for one in changed)


def pairs_of(count, slow, rate=100.0):
    """The judgement of that many GPUs of which these pairs are slow (None: do not reach each other)."""
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Expected, Threshold

    gpus = range(count)
    pairs = tuple(((a, b), rate if {a, b} in slow else 370.0) for a in gpus for b in gpus if a != b)
    things = tuple(("GPU {0}".format(number), "gpu{0}".format(number)) for number in gpus)
    limits = {PEER: Threshold("higher", 352, 335, "the profile")}
    return peers.judge(peers.Peers("x", things, pairs), Expected("p", {}, {}, limits, {}, {}, 0.0))


def of_unknown(rates, linked=()):
    """The judgement of GPUs that no profile knows, by the rates of a table; ``linked``: pairs with an NVLink."""
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Expected

    gpus = range(len(rates))
    pairs = tuple(((a, b), rates[a][b]) for a in gpus for b in gpus if a != b)
    things = tuple(("GPU {0}".format(number), "gpu{0}".format(number)) for number in gpus)
    links = frozenset(way for pair in linked for way in (tuple(pair), tuple(pair)[::-1]))
    return peers.judge(peers.Peers("x", things, pairs, linked=links), Expected("p", {}, {}, {}, {}, {}, 0.0))


# Two links, one link or PCIe: how eight GPUs without an NVSwitch are joined. Healthy.
CUBE = [
    [
        0
        if a == b
        else {0: 48.0, 1: 24.0, 2: 24.0}.get((a ^ b) % 4, 10.0)
        if a // 4 == b // 4
        else (48.0 if a ^ b == 4 else 10.0)
        for b in range(8)
    ]
    for a in range(8)
]


@pytest.mark.parametrize("rates", [CUBE, [[20.0] * 4] * 4, [[370.0] * 2] * 2, [[None] * 4] * 4])
def test_without_a_profile_healthy_gpus_are_alike_however_they_are_linked(rates):
    assert of_unknown(rates).findings == ()


def test_without_a_profile_a_gpu_whose_links_are_down_is_told_by_its_siblings():
    """By PCIe it reaches all of them, and a proof would have passed."""
    rates = [[12.0 if 5 in (a, b) else 370.0 for b in range(8)] for a in range(8)]
    links = [pair for pair in itertools.combinations(range(8), 2) if 5 not in pair]
    (finding,) = of_unknown(rates, links).findings
    assert (finding.key, finding.code, finding.outcome.value) == ("gpu5", "low_gpu_to_gpu", "fail")
    assert "12 GB/s at the most with any other GPU, where its siblings reach 370" in str(finding)


def test_ten_gpus_without_nvswitches_are_measured_though_each_has_but_eight_peers(monkeypatch):
    """The driver refuses the ninth peer of a GPU with CUDA_ERROR_TOO_MANY_PEERS; the other pairs tell enough."""
    copied = []

    class Gpu:
        context = None

        def __init__(self, number):
            self.number, self.enabled = number, 0

        def memory_sizes(self):
            return 2**34, 2**34

        def reaches(self, other):
            if self.enabled == 8:
                raise CudaError("cuCtxEnablePeerAccess", 711)
            self.enabled += 1
            return True

    class Same:
        sent = received = 0

        def __init__(self, device, size, number):
            pass

        def clear(self):
            pass

        def changed(self, source):
            return ""

    class Driver:
        open = staticmethod(Gpu)

    def seconds(asked, say):
        copied.extend(asked)
        return [[0.01] * len(asked)]

    monkeypatch.setattr(peer_copies, "Contents", Same)
    monkeypatch.setattr(peer_copies.copies, "seconds", seconds)
    things = tuple(("GPU {0}".format(number), "gpu{0}".format(number)) for number in range(10))
    peers_of_ten = peer_copies.PeerCopies(Driver(), things, lambda label: None)
    assert peers_of_ten.apart_from == []
    every = [pair for pairs in peer_copies.paths.shifted(10) for pair in pairs]
    assert len(list(peers_of_ten.round(every, True))) == len(copied) == 80


BRIDGE, SLOT = 250.0, 25.0


@pytest.mark.parametrize(
    ("rates", "linked", "warned"),
    [
        ([[0, BRIDGE, SLOT], [BRIDGE, 0, SLOT], [SLOT, SLOT, 0]], [(0, 1)], ["gpu2"]),
        ([[0, BRIDGE] + [SLOT] * 2, [BRIDGE, 0] + [SLOT] * 2, [SLOT] * 4, [SLOT] * 4], [(0, 1)], ["gpu2", "gpu3"]),
        ([[12.0 if 3 in (a, b) else SLOT for b in range(4)] for a in range(4)], [], ["gpu3"]),
        ([[0, SLOT, None], [SLOT, 0, None], [None, None, 0]], [], []),
    ],
    ids=["one bridge, three GPUs", "one bridge, four GPUs", "a slot with half of the lanes", "no peers across"],
)
def test_a_gpu_that_has_no_bridge_or_a_narrow_slot_is_not_sick(rates, linked, warned):
    """Machines are built like this, and no reset changes them."""
    findings = of_unknown(rates, linked).findings
    assert [(one.key, one.outcome.value, one.action.value) for one in findings] == [
        (key, "warn", "watch") for key in warned
    ]


def test_without_a_profile_a_way_that_is_slower_than_the_way_back_is_told():
    rates = [[100.0 if (a, b) == (0, 1) else 370.0 for b in range(4)] for a in range(4)]
    (finding,) = of_unknown(rates).findings
    assert (finding.key, finding.outcome.value) == ("gpu0>gpu1", "warn")


EVERY = [set(pair) for pair in itertools.combinations(range(8), 2)]


@pytest.mark.parametrize("count", [3, 4, 8])
@pytest.mark.parametrize(
    ("rate", "outcome", "code", "reason"),
    [
        (100.0, "fail", "low_gpu_to_gpu", "100 GB/s at the least with each other, below the 335 GB/s of the profile"),
        (340.0, "warn", "low_gpu_to_gpu", "340 GB/s at the least with each other, below the 352 GB/s of the profile"),
        (None, "fail", "no_peer_access", "no peer access with each other, though there should be"),
    ],
)
def test_when_all_pairs_are_bad_no_gpu_is_named(count, rate, outcome, code, reason):
    """The fabric is between all of them; to name half of the GPUs had four innocent ones reset."""
    (finding,) = pairs_of(count, EVERY, rate).findings
    every = count * (count - 1) // 2
    assert (finding.outcome.value, finding.key, finding.code) == (outcome, "", code)
    assert (finding.thing, finding.reason) == ("{0} of {0} pairs of GPUs".format(every), reason)
    assert "fabric manager" in finding.remedy and "NVSwitch" in finding.remedy
    assert finding.action.value == ("reboot" if outcome == "fail" else "watch")


@pytest.mark.parametrize(
    ("sick", "spared", "keys"),
    [
        (range(8), [{0, 1}], [""]),  # one pair came out well
        (range(6), [], [""]),  # too many to be six sick GPUs
        (range(4), [], ["gpu0", "gpu1", "gpu2", "gpu3"]),  # the other four are well with each other
        ([2, 5], [], ["gpu2", "gpu5"]),
        ([7], [], ["gpu7"]),
    ],
)
def test_the_fabric_is_to_blame_when_those_that_are_not_named_are_bad_with_each_other(sick, spared, keys):
    slow = [pair for pair in EVERY if pair & set(sick) and pair not in spared]
    assert [finding.key for finding in pairs_of(8, slow).findings] == keys


def test_two_gpus_have_one_link_and_no_fabric():
    (finding,) = pairs_of(2, EVERY).findings
    assert finding.key == "gpu0>gpu1"
