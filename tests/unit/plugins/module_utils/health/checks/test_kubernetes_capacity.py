# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kubelet offers against what NVML sees: by its checkpoint, whoever wrote it."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import kubelet as kubelet_file
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.instances import Compute, Instance
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.types import (
    FailedGpu,
    Gpu,
    State,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import kubernetes_capacity as check
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.test_mig_plan import (
    three_g,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks.health_on_simulator import (
    Node,
    names,
)

BOOTED = 1790000000


def uuid(number, kind="GPU"):
    return "{0}-00000000-0000-4000-8000-{1:012d}".format(kind, number)


def gpu(number, *instances, mode=None):
    address = "0000:0{0}:00.0".format(number)
    return Gpu(number, uuid(number), address, mode=bool(instances) if mode is None else mode, instances=instances)


def instance(number, *computes):
    return Instance(number, three_g(0).placed, tuple(Compute(at, 3, one) for at, one in enumerate(computes)))


EIGHT = State(gpus=tuple(gpu(number) for number in range(8)))
# One whole GPU, and one that is divided in two.
MIXED = State(gpus=(gpu(0), gpu(1, instance(1, uuid(11, "MIG")), instance(2, uuid(12, "MIG")))))
ALL = [uuid(number) for number in range(8)]


def offers(**resources):
    """Keys with ``_`` for what a keyword cannot have: ``gpu``, ``mig_3g``."""
    return {"nvidia.com/" + name.replace("_", "-"): ids for name, ids in resources.items()}


def checkpoint(resources, data=None):
    entries = [
        {
            "PodUID": "x",
            "ContainerName": "c",
            "ResourceName": "nvidia.com/gpu",
            "DeviceIDs": {"-1": ALL[:1]},
            "AllocResp": "",
        }
    ]
    return {"Data": data or {"PodDeviceEntries": entries, "RegisteredDevices": resources}, "Checksum": 3141592653}


@pytest.fixture(name="kubelet")
def _kubelet(tmp_path):
    """Write what the kubelet has, and give the path."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("btime {0}\n".format(BOOTED))
    folder = tmp_path / kubelet_file.FOLDER[1:]

    def write(content):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "kubelet_internal_checkpoint"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def seen(root, state):
    evidence = Evidence(Host(str(root)), {}, {})
    evidence.__dict__["mig"] = state
    return check.look(evidence)


def judged(root, state):
    """(outcome, code) of each finding, and all that is said."""
    found = check.judge(seen(root, state), None)
    said = " ".join([found.seen, found.not_applicable or "", *map(str, found.findings)])
    return [(one.outcome.value, one.code) for one in found.findings], said


QUIET = {
    "all": (EIGHT, offers(gpu=ALL)),
    "another order and another vendor": (EIGHT, {"nvidia.com/gpu": ALL[::-1], "rdma/hca": ["mlx5_0"]}),
    "sliced": (EIGHT, offers(gpu=["{0}::{1}".format(one, at) for one in ALL for at in range(4)])),
    "sliced and renamed": (EIGHT, {"nvidia.com/gpu.shared": [one + "::0" for one in ALL]}),
    "two resources of the site": (EIGHT, offers(a100=ALL[:4], big=ALL[4:])),
    "other plugins of NVIDIA": (EIGHT, dict(offers(gpu=ALL), **{"nvidia.com/hostdev": ["0000:05:00.0"]})),
    "MIG mixed": (MIXED, {"nvidia.com/gpu": ALL[:1], "nvidia.com/mig-3g.20gb": [uuid(11, "MIG"), uuid(12, "MIG")]}),
    "MIG single": (State(gpus=MIXED.gpus[1:]), offers(gpu=[uuid(11, "MIG"), uuid(12, "MIG") + "::0"])),
    "MIG none": (MIXED, offers(gpu=ALL[:2])),
    "an old driver's MIG": (
        State(gpus=(gpu(1, instance(1, "MIG-{0}/1/0".format(uuid(1)))),)),
        offers(gpu=["MIG-{0}/1/0".format(uuid(1))]),
    ),
    "MIG without instances": (State(gpus=(gpu(0), gpu(1, mode=True))), offers(gpu=ALL[:1])),
}


@pytest.mark.parametrize("state, resources", QUIET.values(), ids=QUIET)
def test_what_is_offered_as_it_is_there_is_quiet(kubelet, tmp_path, state, resources):
    kubelet(checkpoint(resources))
    found, said = judged(tmp_path, state)
    assert found == [] and said.startswith("the kubelet offers ")


def test_a_gpu_that_is_not_offered_is_named(kubelet, tmp_path):
    kubelet(checkpoint(offers(gpu=ALL[:3] + ALL[4:])))
    found, said = judged(tmp_path, EIGHT)
    assert found == [("warn", "missing")]
    assert (
        "kubelet: it offers 7 of the 8 GPUs that NVML sees; {0} (GPU 3 (0000:03:00.0)) is missing".format(ALL[3])
        in said
    )
    assert "restart the pod of NVIDIA's device plugin on this node when the device is well" in said
    for none in ([], None):
        kubelet(checkpoint(offers(gpu=none)))
        found, said = judged(tmp_path, EIGHT)
        assert found == [("warn", "missing")] and "offers 0 of the 8" in said and "and 4 more are missing" in said


def test_a_mig_device_that_is_not_offered_is_named(kubelet, tmp_path):
    kubelet(checkpoint({"nvidia.com/gpu": ALL[:1], "nvidia.com/mig-3g.20gb": [uuid(11, "MIG")]}))
    found, said = judged(tmp_path, MIXED)
    assert found == [("warn", "missing")]
    assert "2 of the 3 GPUs and MIG devices" in said
    assert "{0} (MIG device 2.0 of GPU 1 (0000:01:00.0)) is missing".format(uuid(12, "MIG")) in said


def test_what_is_offered_and_not_there_fails(kubelet, tmp_path):
    kubelet(checkpoint(offers(gpu=[*ALL, uuid(99)])))
    found, said = judged(tmp_path, EIGHT)
    assert found == [("fail", "extra")] and "{0} is too much".format(uuid(99)) in said
    # Instances that were made again have other UUIDs.
    kubelet(checkpoint({"nvidia.com/gpu": ALL[:1], "nvidia.com/mig-3g.20gb": [uuid(11, "MIG"), uuid(13, "MIG")]}))
    assert judged(tmp_path, MIXED)[0] == [("warn", "missing"), ("fail", "extra")]


def test_what_nvml_does_not_tell_is_no_difference(kubelet, tmp_path):
    kubelet(checkpoint(offers(gpu=ALL)))
    lost = State(gpus=EIGHT.gpus[:7], failed=(FailedGpu(7, None, None, "lost"),))
    assert judged(tmp_path, lost)[0] == []
    # As for somebody who is not root.
    untold = State(gpus=(gpu(0), gpu(1, instance(1, None))))
    kubelet(checkpoint({"nvidia.com/gpu": ALL[:1], "nvidia.com/mig-3g.20gb": [uuid(11, "MIG")]}))
    assert judged(tmp_path, untold)[0] == []
    # What it tells is compared all the same.
    kubelet(checkpoint(offers(gpu=ALL[1:])))
    assert judged(tmp_path, lost)[0] == [("warn", "missing")]


def test_ids_of_another_form(kubelet, tmp_path):
    # HAMi's have a number behind them.
    kubelet(checkpoint(offers(gpu=[one + "-0" for one in ALL])))
    assert "not of NVIDIA's device plugin" in judged(tmp_path, EIGHT)[1]
    kubelet(checkpoint(offers(gpu=[*ALL, "GPU-\x1b[31m"])))
    found, said = judged(tmp_path, EIGHT)
    assert found == [("unknown", "ids")] and "1 of the devices" in said and "\x1b" not in said


def test_where_there_is_nothing_to_compare(kubelet, tmp_path):
    assert seen(tmp_path, EIGHT) == "this node has no kubelet"
    path = kubelet(checkpoint({}))
    for nothing in ({}, None, {"rdma/hca": ["mlx5_0"]}, {"nvidia.com/hostdev": ["0000:05:00.0"]}):
        kubelet(checkpoint(nothing))
        assert seen(tmp_path, EIGHT) == "the kubelet has no resource of NVIDIA's device plugin"
    kubelet(checkpoint(offers(gpu=[])))
    assert seen(tmp_path, State(absent="there is no GPU")) == "this machine has no NVIDIA GPU"
    kubelet(checkpoint(offers(gpu=ALL)))
    assert judged(tmp_path, State(absent="there is no GPU"))[0] == [("fail", "extra")]
    os.utime(path, (BOOTED - 1, BOOTED - 1))
    assert seen(tmp_path, EIGHT) == "no device plugin has registered since the boot"
    path.unlink()
    assert seen(tmp_path, EIGHT) == "no device plugin has registered with the kubelet"


DAMAGED = {
    "empty": "",
    "cut": '{"Data": {"RegisteredDevices": {"nvidia.com/gpu": ["GPU-',
    "binary": "\x00\x01",
    "deep": "[" * 100000,
    "a list": "[]",
    "a number": "3",
    "other keys": '{"data": {}}',
    "no devices": '{"Data": {}}',
    "devices of a list": '{"Data": {"RegisteredDevices": ["GPU-1"]}}',
    "ids of a map": '{"Data": {"RegisteredDevices": {"nvidia.com/gpu": {"0": ["GPU-1"]}}}}',
    "ids of numbers": '{"Data": {"RegisteredDevices": {"nvidia.com/gpu": [1]}}}',
    "a text": '{"Data": {"RegisteredDevices": {"nvidia.com/gpu": "GPU-1"}}}',
    "huge": '{"Data": {"RegisteredDevices": {}}}' + " " * (8 << 20),
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_checkpoint_that_cannot_be_read_is_unknown(kubelet, tmp_path, text):
    kubelet(text)
    with pytest.raises(NodeError, match="kubelet_internal_checkpoint: it "):
        seen(tmp_path, EIGHT)


def test_no_link_is_followed_and_no_pipe_waited_for(kubelet, tmp_path):
    path = kubelet(checkpoint(offers(gpu=ALL)))
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NodeError, match="cannot be opened"):
        seen(tmp_path, EIGHT)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(NodeError, match="it is no file"):
        seen(tmp_path, EIGHT)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(("Data", "RegisteredDevices", "nvidia.com/gpu", "x")), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_no_json_crashes_the_reader(content):
    try:
        found = kubelet_file.parse(json.dumps(content))
    except NodeError:
        return
    assert all(isinstance(one, str) for ids in found.values() for one in ids)


def test_nvml_that_does_not_answer_is_told_by_another_check(kubelet, tmp_path):
    kubelet(checkpoint(offers(gpu=ALL)))
    assert seen(tmp_path, replaced(EIGHT, gpus=(), absent=None)) == check.Seen((), tuple(sorted(ALL)), 0, ())


def test_on_the_simulator_a_node_of_kubernetes_is_quiet_and_one_that_lacks_a_gpu_is_told(nvml_simulator, tmp_path):
    pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
    pytest.importorskip("yaml", reason="needs PyYAML")
    machine = "nd96isr_h100_v5"
    node = Node(nvml_simulator(machine), machine, tmp_path)
    assert "kubernetes_capacity" in node.verdict()["not_applicable"]
    code = "import pynvml as n, json; n.nvmlInit(); g = n.nvmlDeviceGetHandleByIndex; "
    ids = node.simulator.python(code + "print(json.dumps([n.nvmlDeviceGetUUID(g(i)) for i in range(8)]))")
    path = kubelet_file.PATH[1:]
    node.write(path, json.dumps(checkpoint(offers(gpu=[one + "::0" for one in ids]))))
    found = node.verdict()
    assert names(found) == [] and "kubernetes_capacity" not in found["not_applicable"]
    node.write(path, json.dumps(checkpoint(offers(gpu=ids[:7]))))
    assert names(node.verdict()) == [("kubernetes_capacity", "missing", "warn", "look", "kubelet")]
    node.write(path, "{")
    (told,) = [one for one in node.verdict()["results"] if one["id"] == "kubernetes_capacity"]
    assert told["outcome"] == "unknown" and "it is no JSON" in json.dumps(told)
