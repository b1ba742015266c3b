# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of the image in a verdict, and the odd one out by what they have seen."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import lanes, registry, types, verdict
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import image
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet import odd_versions
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Cost
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.health_report import model
from ansible_collections.trainyard.gpu_node.tests.unit.data.image import images
from ansible_collections.trainyard.gpu_node.tests.unit.data.image.images import LIB, LIB64


def judged(root, profile=None, declared=None):
    evidence = Evidence(Host(str(root.path)), declared or {}, {})
    looked = {one.id: lanes.Looked(one.look(evidence), None, 0.0) for one in image.CHECKS}
    expected = types.Expected("rack7", profile or {}, declared or {}, {}, {}, {}, 0.0)
    return verdict.judge("n1", Cost.PASSIVE, image.CHECKS, looked, expected)


def told(found):
    return [(check, one.code, one.key, one.outcome.value) for check, one in found.findings]


@pytest.mark.parametrize("name", images.IMAGES)
def test_a_node_with_a_good_image_has_no_finding(tmp_path, name):
    found = judged(images.IMAGES[name](tmp_path))
    assert told(found) == []
    nothing = {"image_software"}
    if name == "bare_debian":
        nothing |= {"image_driver", "image_cuda", "image_containers"}
    elif name == "el9":
        nothing |= {"image_containers"}
    assert set(found.not_applicable) == nothing
    assert all(one.seen for one in found.results)


def test_a_fault_has_the_name_by_which_it_can_be_silenced(tmp_path):
    root = images.azure_hpc(tmp_path)
    root.cuda("13.0.1")
    root.link("/usr/local/cuda-11.8", "/opt/cuda-11.8")
    found = judged(root)
    assert told(found) == [
        # A rule drains no node: that of a whole cluster would, and all at once.
        ("image_cuda", "cuda_driver", "/usr/local/cuda-13.0", "warn"),
        ("image_links", "broken_link", "/usr/local/cuda-11.8", "warn"),
    ]
    assert [types.finding_name(check, one) for check, one in found.findings][0].startswith("image_cuda/cuda_driver/")


@pytest.mark.parametrize(
    "wanted, findings",
    [
        ({"driver": ">=535,<600", "nccl": ">=2.19"}, []),
        ({"driver": ">=550"}, [("image_software", "software", "driver", "fail")]),
        ({"nccl": {"version": ">=2.20", "outcome": "warn"}}, [("image_software", "software", "nccl", "warn")]),
        ({"enroot": ">=3.5"}, [("image_software", "software", "enroot", "fail")]),
        ({"driver": "new"}, [("image_software", "profile", "", "unknown")]),
        ("driver", [("image_software", "profile", "", "unknown")]),
    ],
)
def test_versions_that_the_profile_requires(tmp_path, wanted, findings):
    found = judged(images.azure_hpc(tmp_path), {"software": wanted})
    assert told(found) == findings
    assert "image_software" not in found.not_applicable


def test_what_another_check_tells_is_not_told_twice(tmp_path):
    """A Fabric Manager beside NVSwitches, a driver with GPUs, and peermem, which only counts where it was declared."""
    root = images.azure_hpc(tmp_path)
    root.dpkg({"nvidia-fabricmanager-535": "535.183.01-1"})
    root.file(LIB + "/libnvidia-ml.so.535.183.01")
    root.link(LIB + "/libnvidia-ml.so.1", "libnvidia-ml.so.535.183.01")
    root.loaded("nvidia")
    root.at("/sys/module/nvidia_peermem").rmdir()
    assert told(judged(root)) == []
    root.pci(())
    for number in range(1, 15):
        root.remove("/sys/bus/pci/devices/{0:04x}:00:00.0/vendor".format(number))
    assert [code for dummy, code, *rest in told(judged(root))] == ["driver_library", "fabric_manager"]


def test_a_job_does_not_pay_for_the_image():
    assert not {one.id for one in registry.checks(Cost.QUICK)} & {one.id for one in image.CHECKS}
    assert {one.id for one in registry.checks(Cost.PASSIVE)} >= {one.id for one in image.CHECKS}
    code = "import sys; from {0} import registry; registry.checks(registry.Cost.QUICK); print(*sys.modules)".format(
        registry.__package__
    )
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "facts.image" not in done.stdout


# A fleet ------------------------------------------------------------------------------------------------


def test_the_odd_one_out():
    nodes = {"n{0}".format(number): {"driver": "535.161.08", "cuda": "12.2"} for number in range(6)}
    assert odd_versions.odd(nodes) == ()
    nodes["n3"] = {"driver": "535.104.05", "cuda": "12.2", "nccl": "2.19.3"}
    assert [(one.node, one.name, one.value, one.usual, one.most) for one in odd_versions.odd(nodes)] == [
        ("n3", "driver", "535.104.05", "535.161.08", 5),
        ("n3", "nccl", "2.19.3", "", 5),
    ]
    assert odd_versions.odd({name: nodes[name] for name in ("n0", "n3")}) == ()


def test_in_the_middle_of_an_update_nobody_is_odd():
    nodes = {"n{0}".format(number): {"driver": "535" if number < 3 else "550"} for number in range(8)}
    assert odd_versions.odd(nodes) == ()


def test_the_report_of_a_fleet_names_the_node_with_another_image(tmp_path):
    found = {}
    for number in range(5):
        root = images.azure_hpc(tmp_path / str(number))
        if number == 2:
            root.dpkg({"libnccl2": "2.21.5-1+cuda12.2", "nvidia-fabricmanager-535": "535.161.08-1"})
            root.nccl(LIB, "2.21.5", "12.2")
        found["n{0}".format(number)] = plain(judged(root))
    other = images.el9(tmp_path / "el9")
    found["el9"] = dict(plain(judged(other)), profile="nd40rs_v2")
    report = model.report(found, {})
    lines = {node.host: [(one.check, one.outcome, one.reason) for one in node.lines] for node in report.nodes}
    assert {host for host in lines if lines[host]} == {"n2"}
    assert [check for check, *rest in lines["n2"]] == ["outlier"] * 3  # NCCL, and packages that this one has not
    assert any("nccl 2.21.5" in reason and "4 of 5 nodes" in reason for dummy, _outcome, reason in lines["n2"])
    assert report.counts["warn"] == 1


@pytest.mark.parametrize("content", [None, [], {"results": 7}, {"results": [{"id": "image_x", "seen": 3}, None]}])
def test_what_is_no_verdict_is_nobody_s_odd_one(content):
    assert odd_versions.of_verdicts({"a": content, "b": content, "c": content}, {}) == ()


def plain(found):
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import to_dict

    return to_dict(found)


def test_el9_has_what_its_folder_says(tmp_path):
    """The texts that a fleet is compared by."""
    root = images.el9(tmp_path)
    seen = {one.id: one.seen for one in judged(root).results}
    assert seen["image_driver"] == "driver 570.86.15, driver_kind proprietary, dkms gdrdrv 2.5, nvidia 570.86.15"
    assert seen["image_cuda"] == "cuda_toolkits 12.8.0, nccl 2.25.1, nccl_cuda 12.8"
    root.remove(LIB64 + "/libnccl.so.2")
    assert "nccl" not in {one.id: one.seen for one in judged(root).results}["image_cuda"]
