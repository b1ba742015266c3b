# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node of a CycleCloud cluster, under the real paths: first boot, again, reboot, deallocation, a damaged blob.

jetpack is tools/cluster_init/runner.py; `cyclecloud_nvme` does what CycleCloud 8.8 does with the local disks. The tests
build on each other; a failing one ends the rest of them.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile

import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY))

from tools.cluster_init import runner

# Emulated, a run takes minutes.
PATIENCE = 1800
TEMPLATE = "[[nodearray execute]]\n[[[cluster-init gpu_node:execute:{0}]]]\n"
LOGS = "/opt/cycle/jetpack/logs/cluster-init/gpu_node/execute/scripts"
NVME = r"""
set -e
mdadm --create /dev/md/cyclecloud_nvme --run --quiet --level 0 --raid-devices 8 /dev/nvme[0-7]n1
mkfs.xfs -q -f /dev/md/cyclecloud_nvme
sed -i '\|[[:space:]]/nvme[[:space:]]|d' /etc/fstab
echo "UUID=$(blkid -s UUID -o value /dev/md/cyclecloud_nvme) /nvme xfs defaults,nofail 0 0" >>/etc/fstab
mkdir -p /nvme
mount /nvme
chmod 1777 /nvme
"""
# Started at boot as slurmd is, and again and again, as CycleCloud's drop-in wants it; it notes what a job would find.
SLURMD = """[Unit]
Description=Stands for slurmd
[Service]
ExecStart=/bin/sh -c '/opt/gpu_node/gpunode.pyz boot status >>/run/slurmd.saw; exec sleep infinity'
Restart=always
RestartSec=3s
[Install]
WantedBy=multi-user.target
"""


def cyclecloud_nvme(node):
    node.ssh(NVME)
    return scratch(node)


def scratch(node):
    """The UUID of the file system at /nvme; empty: none is mounted."""
    return node.ssh("findmnt -no UUID /nvme", check=False).stdout.strip()


def saw(node):
    """What slurmd would have found; it is waited for."""
    return node.ssh(
        "for i in $(seq 60); do test -s /run/slurmd.saw && break; sleep 1; done; cat /run/slurmd.saw"
    ).stdout


def jetpack(node):
    """The status of cluster-init, and what it says of each script."""
    done = node.ssh(
        "python3 /root/runner.py converge /root/locker /root/template.txt execute", check=False, timeout=PATIENCE
    )
    return done.returncode, done.stdout.splitlines()


def log(node):
    return node.ssh("cat {0}/*.out".format(LOGS)).stdout.splitlines()


def record(node):
    return json.loads(node.ssh("cat /var/lib/gpu_node/converge.json").stdout)


@pytest.fixture(scope="module")
def shared_node(own_node):
    return own_node


@pytest.fixture(scope="module")
def story(shared_node, tmp_path_factory):
    """A blank guest with a locker that has the project, as `make cluster-init` makes it."""
    subprocess.run(["make", "bundle", "cluster-init"], cwd=str(REPOSITORY), check=True, timeout=1200)
    project = REPOSITORY / "build" / "cyclecloud" / "gpu_node"
    locker = tmp_path_factory.mktemp("cyclecloud") / "locker"
    runner.upload(project, locker)
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.add(str(locker), "locker")
        tar.add(str(runner.__file__), "runner.py")
    shared_node.node.boot_limit_seconds = PATIENCE
    done = shared_node.node.ssh("tar -x -C /root", 600, content.getvalue())
    assert done.returncode == 0, done.stderr
    shared_node.write("/etc/systemd/system/slurmd.service", SLURMD)
    shared_node.ssh("systemctl daemon-reload && systemctl enable slurmd.service")
    (script,) = (project / "specs" / "execute" / "cluster-init" / "scripts").iterdir()
    shared_node.write("/root/template.txt", TEMPLATE.format(script.name[len("10-gpu_node-") : -len(".sh")]))
    return {"script": script.name}


@pytest.fixture(autouse=True)
def in_order(request, story):
    if story.get("failed"):
        pytest.fail("an earlier step failed: {0}".format(story["failed"]))
    yield
    report = getattr(request.node, "rep_call", None)
    if report is not None and report.failed:
        story["failed"] = request.node.name


def test_at_the_first_boot_the_node_is_ready_and_cyclecloud_s_scratch_is_used_as_it_is(node, story):
    story["uuid"] = cyclecloud_nvme(node)
    node.ssh("echo precious >/nvme/precious")
    status, lines = jetpack(node)
    assert status == 0 and lines == ["gpu_node:execute {0}: ended with 0".format(story["script"])], log(node)[-40:]
    assert log(node)[-1] == "ready"
    assert record(node)["status"] == "ready"
    assert node.ssh("stat -c %a /etc/gpu_node/declaration.json").stdout.strip() == "600"
    assert scratch(node) == story["uuid"] and node.ssh("cat /nvme/precious").stdout == "precious\n"
    assert node.ssh("findmnt -rno TARGET /mnt/resource_nvme", check=False).stdout == ""
    assert node.ssh("systemctl is-enabled gpu-node-converge").stdout.strip() == "enabled"
    assert node.ssh("ls /var/tmp | grep gpu_node", check=False).stdout == ""
    # As jetpack's recipes do after the scripts.
    node.ssh("systemctl start slurmd && systemctl is-active slurmd")
    node.ssh("test -e /mnt/cluster-init/.run/gpu_node/execute/scripts/{0}.run".format(story["script"]))


# test_bundle.py has the same without CycleCloud.
@pytest.mark.soak
def test_without_its_marker_it_runs_again_and_changes_nothing(node):
    node.ssh("rm -rf /mnt/cluster-init")
    status, _lines = jetpack(node)
    assert status == 0, log(node)[-40:]
    assert "changed: nothing" in log(node) and log(node)[-1] == "ready"


@pytest.mark.soak
def test_after_a_reboot_the_unit_has_converged_before_slurmd_and_no_script_runs(node, story):
    boot = node.boot_id()
    node.reboot()
    node.ssh("systemctl is-system-running --wait || true", timeout=PATIENCE)
    assert node.boot_id() != boot
    assert saw(node).startswith("ready: ")
    status, lines = jetpack(node)
    assert status == 0 and lines == ["gpu_node:execute {0}: ran before".format(story["script"])]
    assert scratch(node) == story["uuid"] and node.ssh("cat /nvme/precious").stdout == "precious\n"


@pytest.mark.soak
def test_after_a_deallocation_the_blank_disks_are_cyclecloud_s_and_the_node_is_ready_again(node, story):
    node.ssh("rm -rf /mnt/cluster-init")
    node.wipe_disks()
    node.ssh("systemctl is-system-running --wait || true", timeout=PATIENCE)
    # Nothing was built on them, and nobody took the node for ready.
    assert node.ssh("cat /proc/mdstat | grep -c ^md || true").stdout.strip() == "0"
    assert scratch(node) == ""
    assert node.ssh("systemctl is-active slurmd", check=False).stdout == "activating\n"
    assert "not ready: " in node.ssh("journalctl -b -u slurmd -o cat").stdout
    node.ssh("test ! -e /run/slurmd.saw")
    uuid = cyclecloud_nvme(node)
    assert uuid != story["uuid"]
    status, _lines = jetpack(node)
    assert status == 0, log(node)[-40:]
    assert record(node)["status"] == "ready" and scratch(node) == uuid
    # It was tried every three seconds meanwhile, and let in when the verdict was there; not once before.
    assert "running: " in node.ssh("journalctl -b -u slurmd -o cat").stdout
    assert saw(node).startswith("ready: ") and saw(node).count("\n") == 1
    assert node.ssh("systemctl --failed --plain --no-legend").stdout == ""


def test_a_damaged_blob_is_refused_and_the_node_stays_as_it_is(node):
    declared = node.ssh("cat /etc/gpu_node/declaration.json").stdout
    blob = "/root/locker/projects/gpu_node/blobs/*.tar.gz"
    node.ssh("printf X | dd of=$(echo {0}) bs=1 seek=4096 conv=notrunc status=none".format(blob))
    node.ssh("rm -rf /mnt/cluster-init")
    before = record(node)
    status, _lines = jetpack(node)
    assert status == 1
    assert log(node)[-1].endswith(
        "it is not the file that this project was made with; run 'cyclecloud project upload' again."
    )
    assert record(node) == before
    assert node.ssh("cat /etc/gpu_node/declaration.json").stdout == declared
