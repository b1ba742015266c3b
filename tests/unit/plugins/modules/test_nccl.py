# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module nccl as Ansible runs it, on captured machines; its files and the kernel's settings are a folder."""

from __future__ import annotations

import json
import os

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.modules import nccl as module
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import unpack
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.nccl.nccl_rules import problems
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module

OPTIONS = {
    "settings": {"NCCL_IB_PCI_RELAXED_ORDERING": 1, "NCCL_IGNORE_CPU_AFFINITY": 1},
    "extra": ["NCCL_DEBUG=WARN"],
    "switches": "numa_node",
    "link_speed": "16.0",
    "environment": {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    "limits": {"memlock": "unlimited", "nofile": 1048576},
    "sysctl": {"vm.zone_reclaim_mode": 1, "net.ipv4.tcp_rmem": "4096  67108864 1073741824"},
}
# Two of its lines are what Azure's image writes for ND96asr_v4.
IMAGE = "NCCL_IB_PCI_RELAXED_ORDERING=1\nNCCL_TOPO_FILE=/opt/microsoft/ndv4/topo.xml\n"


@pytest.fixture
def on(tmp_path):
    """A function that unpacks a machine and returns what runs the module on it."""

    def make(name):
        root = tmp_path / "node"
        unpack(name, root)
        for path, text in (
            ("proc/sys/vm/zone_reclaim_mode", "0\n"),
            ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
            ("usr/lib/systemd/system/slurmd.service", "[Service]\n"),
            ("etc/hosts", "127.0.0.1 localhost\n"),
        ):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)

        def call(check=False, figures=None, **arguments):
            return run_module("nccl", arguments, root, check, figures=figures)

        call.root = root
        return call

    return make


def tree(root):
    """Every path outside /run with what lies there; the kernel parts the numbers of a setting by any blanks."""
    found = {}
    for folder, folders, names in os.walk(str(root)):
        inside = os.path.relpath(folder, str(root))
        if inside.split(os.sep)[0] in ("sys", "run"):
            continue
        found[inside] = sorted(name for name in folders if name != "run")
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as stream:
                text = stream.read()
            found[os.path.join(inside, name)] = text.split() if inside.startswith("proc") else text
    return found


def test_check_real_check_real_and_absent_leaves_what_it_found(on):
    run = on("ndv4")
    before = tree(run.root)
    planned = run(check=True, **OPTIONS)
    assert planned["changed"] and tree(run.root) == before
    made = run(**OPTIONS)
    assert made["changed"] and made["diff"] == planned["diff"]
    assert [one["description"] for one in made["actions"]] == [one["description"] for one in planned["actions"]]
    assert not run(check=True, **OPTIONS)["changed"] and not run(**OPTIONS)["changed"]

    assert (run.root / "proc/sys/vm/zone_reclaim_mode").read_text() == "1\n"
    assert (run.root / "proc/sys/net/ipv4/tcp_rmem").read_text().split() == ["4096", "67108864", "1073741824"]
    conf = (run.root / "etc/nccl.conf").read_text().splitlines()
    assert conf[2:] == [
        "NCCL_IB_PCI_RELAXED_ORDERING=1",
        "NCCL_IGNORE_CPU_AFFINITY=1",
        "NCCL_TOPO_FILE=/etc/gpu_node/nccl_topology.xml",
        "NCCL_DEBUG=WARN",
    ]
    assert made["topology_file"] == "/etc/gpu_node/nccl_topology.xml" and len(made["topology_reasons"]) == 5
    assert problems((run.root / "etc/gpu_node/nccl_topology.xml").read_text(), str(run.root)) == []
    assert (run.root / "etc/systemd/system/slurmd.service.d/gpu_node_limits.conf").read_text().endswith(
        "[Service]\nLimitMEMLOCK=infinity\nLimitNOFILE=1048576\n"
    )  # fmt: skip

    assert run(check=True, state="absent")["changed"]
    assert run(state="absent")["changed"] and not run(state="absent")["changed"]
    assert tree(run.root) == before


def test_the_conf_of_an_image_is_refused_then_kept_then_put_back(on):
    run = on("ndv4")
    conf = run.root / "etc/nccl.conf"
    conf.write_text(IMAGE)
    conf.chmod(0o640)
    before = tree(run.root)
    refused = run(**OPTIONS)
    assert refused["failed"] and "nccl_replace_foreign" in refused["msg"] and tree(run.root) == before
    assert run(replace_foreign=True, **OPTIONS)["changed"]
    aside = run.root / "etc/nccl.conf.before_gpu_node"
    assert aside.read_text() == IMAGE and "NCCL_DEBUG=WARN" in conf.read_text()
    # The image writes it again at boot, through our file.
    conf.write_text(IMAGE)
    assert run(replace_foreign=True, **OPTIONS)["changed"] and aside.read_text() == IMAGE
    assert not run(replace_foreign=True, **OPTIONS)["changed"]
    assert run(state="absent")["changed"]
    assert tree(run.root) == before and conf.stat().st_mode & 0o777 == 0o640


def test_parts_that_are_switched_off_go(on):
    run = on("ndv4")
    assert run(**OPTIONS)["changed"]
    wanted = {"settings": OPTIONS["settings"], "environment": {}, "limits": {}, "sysctl": {}}
    less = run(**wanted)
    assert less["topology_file"] is None
    assert not (run.root / "etc/gpu_node/nccl_topology.xml").exists()
    assert sorted(os.listdir(str(run.root / "etc"))) == [
        "gpu_node", "hosts", "nccl.conf", "profile.d", "security", "sysctl.d", "systemd",
    ]  # fmt: skip
    assert [os.listdir(str(run.root / "etc" / one)) for one in ("profile.d", "sysctl.d")] == [[], []]
    assert (run.root / "proc/sys/vm/zone_reclaim_mode").read_text() == "0\n"
    assert not run(**wanted)["changed"]


@pytest.mark.parametrize("name", ["offline", "hb176"])
def test_a_node_without_gpus(on, name):
    run = on(name)
    result = run(**OPTIONS)
    assert result["changed"] and result["topology_file"] is None and result["notes"] == []
    assert "NCCL_TOPO_FILE" not in (run.root / "etc/nccl.conf").read_text()
    assert (run.root / "etc/security/limits.d/90-gpu_node_nccl.conf").exists()


@pytest.mark.parametrize("name", ["ndv2", "ndv5", "gb200", "nps4", "minus_one", "cxl", "laptop"])
def test_any_machine_without_a_profile(on, name):
    run = on(name)
    result = run(topology="auto")
    assert not result.get("failed") and result["topology_file"] is None
    assert not run(topology="auto")["changed"]


def test_a_file_for_another_machine_is_refused_and_nothing_is_changed(on):
    run = on("ndv4")
    path = run.root / "opt/site.xml"
    path.parent.mkdir()
    path.write_text('<system version="1"><cpu numaid="0"><pci busid="0009:00:00.0" class="0x030200"/></cpu></system>\n')
    before = tree(run.root)
    result = run(topology="/opt/site.xml")
    assert result["failed"] and "it has 1 GPUs, this machine has 8" in result["msg"] and tree(run.root) == before


@pytest.mark.parametrize(
    "options, told",
    [
        ({"settings": {"UCX_TLS": "rc"}}, "option environment"),
        ({"settings": {"NCCL_DEBUG": ["WARN"]}}, "its value is"),
        ({"limits": {"nofile": "unlimited"}}, "1048576"),
        ({"topology": "here"}, "no choice and no absolute path"),
        ({"switches": "some"}, "value of switches must be one of"),
    ],
)
def test_a_wrong_option_is_one_sentence(on, options, told):
    run = on("offline")
    before = tree(run.root)
    result = run(**options)
    assert result["failed"] and told in result["msg"] and tree(run.root) == before


def test_a_wrong_option_does_not_keep_files_that_are_to_go(on):
    run = on("ndv4")
    before = tree(run.root)
    run(**OPTIONS)
    wrong = {"settings": {"UCX_TLS": "rc"}, "sysctl": {"vm/x": 1}, "topology": "here", "link_speed": "7"}
    assert run(**wrong)["failed"]
    gone = run(state="absent", **wrong)
    assert gone["changed"] and tree(run.root) == before


def test_a_section_that_somebody_edited_is_no_crash(on):
    run = on("ndv4")
    run(**OPTIONS)
    path = run.root / "etc/gpu_node/node.json"
    content = json.loads(path.read_text())
    content["nccl"] = {"sysctl": ["x"], "files": 3, "kept_aside": [], "made_folders": "no"}
    path.write_text(json.dumps(content))
    assert run(**OPTIONS)["changed"] and not run(**OPTIONS)["changed"]
    assert run(state="absent")["changed"]


def test_the_profile_says_what_is_not_given(on):
    run = on("ndv4")
    profile = {
        "nccl": {
            "settings": {"NCCL_IB_PCI_RELAXED_ORDERING": 1, "NCCL_TOPO_FILE": "/opt/microsoft/ndv4/topo.xml"},
            "switches": "numa_node",
            "link_speed": "16.0",
        }
    }
    planned = run(check=True, figures=profile)
    (run.root / "etc/gpu_node").mkdir()
    (run.root / "etc/gpu_node/node.json").write_text(json.dumps({"profile": {"data": profile}}))
    made = run()
    assert [one["description"] for one in made["actions"]] == [
        one["description"] for one in planned["actions"] if one["description"] != "make the folder /etc/gpu_node"
    ]
    assert (run.root / "etc/nccl.conf").read_text().splitlines()[2:] == [
        "NCCL_IB_PCI_RELAXED_ORDERING=1",
        "NCCL_TOPO_FILE=/etc/gpu_node/nccl_topology.xml",
    ]
    variables = (run.root / "etc/profile.d/gpu_node_nccl.sh").read_text()
    assert "UCX_IB_PCI_RELAXED_ORDERING='on'" in variables and "CUDA_DEVICE_ORDER='PCI_BUS_ID'" in variables
    assert not run(figures=profile)["changed"]


def test_everything_that_is_returned_is_documented(on):
    documented = yaml.safe_load(module.RETURN)
    returned = set(on("ndv4")(**OPTIONS)) - {"changed", "diff", "invocation", "failed", "warnings", "deprecations"}
    assert returned == set(documented)


def test_a_library_and_its_plugins_are_told(on):
    run = on("offline")
    folder = run.root / "usr/local/nccl-rdma-sharp-plugins/lib"
    folder.mkdir(parents=True)
    (folder / "libnccl-net.so").write_bytes(b"\x7fELF")
    (run.root / "usr/lib64").mkdir(parents=True)
    (run.root / "usr/lib64/libnccl.so.2").write_bytes(b"\x7fELF\0NCCL version 2.28.9+cuda13.0\0")
    result = run()
    assert result["libraries"] == [{"path": "/usr/lib64/libnccl.so.2", "version": "2.28.9"}]
    assert result["plugins"] == ["/usr/local/nccl-rdma-sharp-plugins/lib/libnccl-net.so"]
    assert result["peermem"] == "missing"
