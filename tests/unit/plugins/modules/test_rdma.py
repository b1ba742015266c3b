# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module rdma as Ansible runs it, on captured machines; its files are a folder."""

from __future__ import annotations

import os

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.modules import rdma as module
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import unpack
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module

RULES = "etc/udev/rules.d/60-rdma-persistent-naming.rules"
IPOIB = "etc/modprobe.d/gpu-node-ipoib.conf"


@pytest.fixture
def run(tmp_path):
    root = tmp_path / "node"
    unpack("ndv4", root)
    (root / "usr/lib/udev").mkdir(parents=True)
    # As much of a program as is looked at.
    (root / "usr/lib/udev/rdma_rename").write_bytes(b"\x7fELF\xff\x00NAME_PCI\x00NAME_FIXED\x00")
    (root / "etc/udev/rules.d").mkdir(parents=True)

    def call(check=False, **arguments):
        return run_module("rdma", arguments, root, check)

    call.root = root
    return call


def tree(root):
    return sorted(
        os.path.relpath(os.path.join(folder, name), str(root))
        for folder, folders, names in os.walk(str(root / "etc"))
        for name in folders + names
    )


def lay(root, path, text):
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


WANTED = {"expected_ports": 8, "rate_gbps": 200, "names": "ordered", "infiniband_prefix": "fabric", "ipoib": "off"}


def test_check_real_check_real_and_absent_leaves_what_it_found(run):
    before = tree(run.root)
    planned = run(check=True, **WANTED)
    assert planned["changed"] and tree(run.root) == before
    made = run(**WANTED)
    assert [one["description"] for one in made["actions"]] == [one["description"] for one in planned["actions"]]
    assert made["diff"] == planned["diff"] and "==> /" + RULES in made["diff"]["after"]
    assert made["names"]["0101:00:00.0"] == "fabric0" and made["differences"] == []
    assert made["reboot_pending"] and any("mlx5_ib0 becomes fabric0" in note for note in made["notes"])
    assert not run(check=True, **WANTED)["changed"] and not run(**WANTED)["changed"]
    assert 'DEVPATH=="*/0108:00:00.0/infiniband/*"' in (run.root / RULES).read_text()
    assert "install ib_ipoib /bin/true" in (run.root / IPOIB).read_text()
    assert run(check=True, state="absent")["changed"]
    assert run(state="absent")["changed"] and not run(state="absent")["changed"]
    assert tree(run.root) == before


def test_looking_changes_nothing_and_tells_all_of_a_port(run):
    folder = "sys/class/infiniband/mlx5_ib3/"
    lay(run.root, folder + "board_id", "MT_0000000223\n")
    lay(run.root, folder + "ports/1/lid", "0x1a\n")
    lay(run.root, folder + "ports/1/gids/0", "fe80:0000:0000:0000:0015:5dff:fe33:ff03\n")
    lay(run.root, "sys/class/infiniband/mlx5_ib4/ports/1/gids/0", ":".join(["0000"] * 8) + "\n")
    before = tree(run.root)
    result = run()
    assert not result["changed"] and tree(run.root) == before
    assert result["ports_counted"] == 8 and not result["reboot_pending"] and result["names"] == {}
    third, fourth = result["devices"][3], result["devices"][4]
    assert (third["name"], third["pci_address"], third["numa_node"]) == ("mlx5_ib3", "0104:00:00.0", 0)
    assert third["board_id"] == "MT_0000000223"
    assert third["ports"] == [
        {
            "number": 1,
            "state": "ACTIVE",
            "physical_state": "LinkUp",
            "rate_gigabits_per_second": 200.0,
            "link_layer": "InfiniBand",
            "lid": 26,
            "gid": "fe80:0000:0000:0000:0015:5dff:fe33:ff03",
        }
    ]
    assert fourth["ports"][0]["gid"] is None and fourth["ports"][0]["lid"] is None


def test_a_port_that_is_down_is_a_note_or_a_failure(run):
    lay(run.root, "sys/class/infiniband/mlx5_ib5/ports/1/phys_state", "2: Polling\n")
    lay(run.root, "sys/class/infiniband/mlx5_ib5/ports/1/state", "1: DOWN\n")
    result = run(expected_ports=8)
    told = "RDMA port mlx5_ib5/1: its link is Polling instead of LinkUp"
    assert result["differences"] == result["notes"] and result["notes"][0].startswith(told)
    failed = run(expected_ports=8, strict=True, names="ordered")
    assert failed["failed"] and failed["msg"].startswith(told)
    assert not (run.root / RULES).exists()


def test_relaxed_ordering_is_told_with_its_file(run):
    unset = {one["name"]: (one["value"], one["file"]) for one in run()["relaxed_ordering"]}
    assert unset == {
        "NCCL_IB_PCI_RELAXED_ORDERING": (None, None),
        "UCX_IB_PCI_RELAXED_ORDERING": (None, None),
    }
    lay(run.root, "etc/nccl.conf", "# site\nNCCL_IB_PCI_RELAXED_ORDERING=1\n")
    lay(run.root, "etc/profile.d/a.sh", "export UCX_IB_PCI_RELAXED_ORDERING='on'\n")
    found = {one["name"]: (one["value"], one["file"]) for one in run()["relaxed_ordering"]}
    assert found == {
        "NCCL_IB_PCI_RELAXED_ORDERING": ("1", "/etc/nccl.conf"),
        "UCX_IB_PCI_RELAXED_ORDERING": ("on", "/etc/profile.d/a.sh"),
    }


def test_an_older_rdma_core_is_told(run):
    (run.root / "usr/lib/udev/rdma_rename").write_bytes(b"\x7fELF NAME_PCI")
    result = run(names="ordered")
    assert result["failed"] and "install rdma-core 34 or newer" in result["msg"]
    assert run(names="kernel")["changed"]


def test_a_foreign_rules_file_stays(run):
    (run.root / RULES).write_text("# the site's\n")
    assert run(names="ordered")["failed"]
    assert run(state="absent")["changed"] is False
    assert (run.root / RULES).read_text() == "# the site's\n"


@pytest.mark.parametrize(
    "options, told",
    [
        ({"names": "ordered", "infiniband_prefix": "mlx5_"}, "names of kernel drivers begin with"),
        ({"expected_ports": -2}, "is out of range; give 0 to 1024"),
        ({"ipoib": "gone"}, "value of ipoib must be one of"),
    ],
)
def test_a_wrong_option_is_one_sentence(run, options, told):
    before = tree(run.root)
    result = run(**options)
    assert result["failed"] and told in result["msg"]
    assert tree(run.root) == before


def test_everything_that_is_returned_is_documented(run):
    documented = yaml.safe_load(module.RETURN)
    returned = set(run()) - {"changed", "diff", "invocation", "failed", "warnings", "deprecations"}
    assert returned == set(documented)
