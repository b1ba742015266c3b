# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the script does on a machine: first boot, reboot, deallocation, reimage, other versions, damage and failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Callable

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import wish
from ansible_collections.trainyard.gpu_node.tests.unit.tools.cluster_init.cluster_init_machine import (
    Machine,
    make_bundle,
)
from ansible_collections.trainyard.gpu_node.tools.cluster_init import specs

KEPT = "etc/gpu_node/declaration.json"
OWN = '{"node_profile": {"name": "mine"}}\n'


def left_over(machine: Machine) -> list:
    return list((machine.root / "var" / "tmp").iterdir())


def test_first_boot_runs_the_bundle_with_the_declaration_of_the_spec(machine: Machine) -> None:
    done = machine.converge()
    assert done.returncode == 0, machine.log()
    assert done.stdout == "gpu_node:execute 10-gpu_node-1.0.sh: ended with 0\n"
    (line,) = machine.lines("converges")
    folder, script, option = line.split()
    assert folder.startswith("/var/tmp/gpu_node.") and script == "gpu-node-bundle-1.0/converge"
    assert option == "--install"
    declared = json.loads(machine.read("declared"))
    assert declared["$comment"] == specs.MARKER and declared["nvme_scratch"] == {"mount_point": "/nvme"}
    assert machine.marker().exists()
    assert left_over(machine) == [] and not machine.read("systemctl")
    assert (machine.root / KEPT).stat().st_mode & 0o777 == 0o600


def test_a_reboot_keeps_the_marker_and_runs_nothing(machine: Machine) -> None:
    machine.converge()
    done = machine.converge()
    assert done.stdout == "gpu_node:execute 10-gpu_node-1.0.sh: ran before\n"
    assert machine.converges() == 1


def test_after_a_deallocation_it_runs_again(machine: Machine) -> None:
    machine.converge()
    kept = machine.read(KEPT)
    machine.lose_mnt()
    assert machine.converge().returncode == 0
    assert machine.converges() == 2
    assert machine.read(KEPT) == kept and machine.marker().exists()


def test_what_failed_at_a_boot_before_cyclecloud_is_tried_again(machine: Machine) -> None:
    machine.write("failed", "gpu-node-nvme_scratch.service\ngpu-node-converge.service\n")
    assert machine.converge().returncode == 0
    assert machine.lines("systemctl") == [
        "restart gpu-node-nvme_scratch.service",
        "reset-failed gpu-node-converge.service",
    ]


def test_a_reimage_that_leaves_the_markers_leaves_the_node_blank_until_the_version_changes(
    machine: Machine, make_project: Callable[..., Path]
) -> None:
    """CycleCloud before 8.8 does so; docs/cluster_init.md says what helps."""
    machine.converge()
    (machine.root / KEPT).unlink()
    assert machine.converge().returncode == 0
    assert machine.converges() == 1 and not machine.read(KEPT)
    machine.marker().unlink()
    machine.converge()
    assert machine.converges() == 2
    machine.upload(make_project("1.1"))
    machine.converge("1.1")
    assert machine.converges() == 3


def test_a_new_version_runs_beside_the_marker_of_the_old_one(
    machine: Machine, make_project: Callable[..., Path]
) -> None:
    machine.converge()
    machine.upload(make_project("1.1"))
    done = machine.converge("1.1")
    # The old script lies in the folder still; it has run.
    assert done.stdout.splitlines() == [
        "gpu_node:execute 10-gpu_node-1.0.sh: ran before",
        "gpu_node:execute 10-gpu_node-1.1.sh: ended with 0",
    ]
    assert [line.split()[1] for line in machine.lines("converges")] == [
        "gpu-node-bundle-1.0/converge",
        "gpu-node-bundle-1.1/converge",
    ]


def test_a_new_version_comes_to_its_turn_where_the_old_one_fails(
    machine: Machine, make_project: Callable[..., Path]
) -> None:
    machine.write("answers", "1\n")
    assert machine.converge().returncode == 1
    machine.upload(make_project("1.1"))
    assert machine.converge("1.1").returncode == 0
    assert [line.split()[1] for line in machine.lines("converges")][1:] == ["gpu-node-bundle-1.1/converge"]


def test_a_node_that_is_not_ready_fails_and_is_tried_again(machine: Machine) -> None:
    machine.write("answers", "1\n")
    assert machine.converge().returncode == 1
    assert not machine.marker().exists() and left_over(machine) == []
    assert machine.converge().returncode == 0
    assert machine.marker().exists()


def test_it_waits_for_the_converge_of_the_boot_but_not_for_ever(machine: Machine) -> None:
    machine.write("answers", "75\n75\n0\n")
    assert machine.converge().returncode == 0
    assert machine.lines("sleeps") == ["180", "180"]
    machine.lose_mnt()
    machine.write("answers", "75\n" * 20)
    assert machine.converge().returncode == 1
    assert machine.converges() == 3 + 10
    assert "another converge has been running for half an hour" in machine.log()


def test_a_failing_script_ends_the_converge(machine: Machine) -> None:
    machine.template = "[[node defaults]]\n[[[cluster-init base:all:1]]]\n" + machine.template
    for name, status in (("10-good.sh", 0), ("20-bad.sh", 3), ("30-never.sh", 0)):
        text = "#!/bin/sh\necho {0} >>/order\nexit {1}\n".format(name, status)
        machine.write("locker/projects/base/1/all/cluster-init/scripts/" + name, text)
    assert machine.converge().returncode == 3
    assert machine.lines("order") == ["10-good.sh", "20-bad.sh"]
    assert machine.converges() == 0
    machine.converge()
    assert machine.lines("order") == ["10-good.sh", "20-bad.sh", "20-bad.sh"]


@pytest.mark.parametrize("where", ["projects/gpu_node/blobs", "blobs/gpu_node"], ids=["damaged", "another user's"])
def test_a_blob_that_is_not_the_one_of_the_project_is_refused(machine: Machine, tmp_path: Path, where: str) -> None:
    other = make_bundle(tmp_path / "other", "1.0", "#!/bin/sh\necho stranger >/converges\n")
    folder = machine.locker / where
    folder.mkdir(parents=True, exist_ok=True)
    (folder / other.name).write_bytes(other.read_bytes())
    assert machine.converge().returncode == 1
    assert machine.log().splitlines() == [
        "gpu_node: gpu-node-bundle-1.0.tar.gz: it is not the file that this project was made with;"
        " run 'cyclecloud project upload' again."
    ]
    assert machine.converges() == 0 and not machine.marker().exists() and left_over(machine) == []
    assert not (machine.root / "etc" / "gpu_node").exists()


def test_a_blob_that_is_missing_is_named(machine: Machine) -> None:
    (machine.locker / "projects/gpu_node/blobs/gpu-node-bundle-1.0.tar.gz").unlink()
    assert machine.converge().returncode == 1
    assert "upload it with 'cyclecloud project upload'" in machine.log()


def test_the_site_s_own_declaration_stays_and_that_of_the_project_is_renewed(machine: Machine) -> None:
    machine.write(KEPT, OWN, 0o600)
    assert machine.converge().returncode == 0
    assert machine.read("declared") == OWN and machine.read(KEPT) == OWN
    assert "/etc/gpu_node/declaration.json is the site's own and is used as it is" in machine.log()
    # As a converge has written it since, or another version of the project.
    machine.write(KEPT, wish.text({wish.COMMENT: specs.MARKER, "rdma": {"names": "leave"}}), 0o600)
    machine.lose_mnt()
    machine.converge()
    assert json.loads(machine.read(KEPT))["rdma"] == {}
    # What Ansible writes has no comment, nor what somebody took it out of: it is the site's from then on.
    for own in ({"rdma": {}}, {wish.COMMENT: "rack 7", "rdma": {}}):
        machine.write(KEPT, wish.text(own))
        machine.lose_mnt()
        machine.converge()
        assert json.loads(machine.read(KEPT)) == own


def test_what_a_power_cut_left_of_a_declaration_is_replaced(machine: Machine) -> None:
    machine.write(KEPT, "")
    machine.write(KEPT + ".new", "{", 0o644)
    assert machine.converge().returncode == 0
    assert json.loads(machine.read("declared"))[wish.COMMENT] == specs.MARKER
    assert (machine.root / KEPT).stat().st_mode & 0o777 == 0o600


def test_a_link_to_the_site_s_declaration_stays(machine: Machine) -> None:
    machine.write("opt/mine.json", OWN)
    (machine.root / "etc/gpu_node").mkdir()
    (machine.root / KEPT).symlink_to("/opt/mine.json")
    assert machine.converge().returncode == 0
    assert (machine.root / KEPT).is_symlink() and machine.read("opt/mine.json") == OWN
    # Also while what it leads to is not there, as on a share that is mounted later.
    (machine.root / "opt/mine.json").unlink()
    machine.lose_mnt()
    machine.converge()
    assert (machine.root / KEPT).is_symlink() and "is the site's own" in machine.log()


def test_outside_jetpack_the_script_says_so(machine: Machine) -> None:
    script = Path(specs.__file__).resolve().parents[2] / "deploy" / "cyclecloud" / "gpu_node.sh"
    machine.write("gpu_node.sh", script.read_text(encoding="utf-8"), 0o755)
    machine.write("runner.py", "import subprocess, sys\nsys.exit(subprocess.call(['sh', '/gpu_node.sh']))\n")
    done = machine.runner()
    assert done.returncode != 0 and "is set by jetpack, which runs this" in done.stderr
