# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a node under site.yml, in order: plan, first run, second run, reboot, deallocation, reset, rebuild.

The tests of this file build on each other; a failing one ends the rest of them.
"""

from __future__ import annotations

import json
import re

import pytest

SITE = "playbooks/site.yml"
RESET = "playbooks/reset.yml"
PROFILE = ["-e", "node_profile_name=virtual"]
MOUNT_POINT = "/mnt/resource_nvme"
# More would be paid on each of ten thousand nodes.
MODULE_RUNS_AT_MOST = 2
RECEIVED_BYTES_AT_MOST = 300 * 1024


def recap(output, name):
    """The counts of the host in Ansible's recap, as {"ok": 12, "changed": 0, …}."""
    line = next(line for line in output.stdout.splitlines() if re.match(r"{0}\s+:".format(re.escape(name)), line))
    return {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", line)}


def site(node, *arguments, stack=True):
    """``stack``: with the communication stack, to which the two Debians are alike: one of them shows it."""
    stack = [] if stack and node.node.state.settings.suite != "trixie" else ["-e", json.dumps({"gpu_node_comm": []})]
    output = node.ansible([SITE, *PROFILE, *stack, *arguments])
    return output, recap(output, node.name)


def module_runs(node):
    """How many modules Ansible has run on the node in this boot: each writes one line to the journal."""
    return int(node.ssh("journalctl -b --no-pager -o cat | grep -c '^Invoked with' || true").stdout)


def received_bytes(node):
    return int(node.ssh("cat /sys/class/net/e*/statistics/rx_bytes").stdout)


def declared_state(node):
    """What gpunode says is left to do, and whether it is mounted, with no controller involved."""
    results = json.loads(node.ssh("gpunode apply --check --json").stdout)["resources"]
    return {result["resource"]: result["status"] for result in results if result["status"] != "undeclared"}


@pytest.fixture(scope="module")
def story(shared_node):
    """What the tests of this file tell each other."""
    traces = "ls -d /opt/gpu_node /etc/gpu_node/node.json; for disk in /dev/nvme*n1; do wipefs -n $disk; done"
    if shared_node.ssh(traces, check=False).stdout:
        shared_node.reset()  # other tests were here before
    return {}


@pytest.fixture(autouse=True)
def in_order(request, story):
    if story.get("failed"):
        pytest.fail("an earlier step of the life cycle failed: {0}".format(story["failed"]))
    yield
    report = getattr(request.node, "rep_call", None)
    if report is not None and report.failed:
        story["failed"] = request.node.name


def etc(node):
    return {path: seen for path, seen in node.files().items() if path.split("/")[0] == "etc"}


@pytest.mark.soak
def test_check_mode_on_a_blank_node_tells_the_plan_and_writes_nothing(node, story):
    story["blank"] = node.hash_disks()
    story["files"] = etc(node)
    output, counts = site(node, "--check", "--diff")
    assert counts["failed"] == 0 and counts["changed"] > 0
    for step in (
        "create array gpu_node_scratch",
        "make an xfs file system",
        "mount it on {0}".format(MOUNT_POINT),
        "8 GPUs: switch persistence mode on",
        "8 GPUs: lock the graphics clock at 1410 MHz",
        "install the node command",
        *(["write /etc/nccl.conf"] if node.node.state.settings.suite != "trixie" else []),
    ):
        assert step in output.stdout, output.stdout
    assert node.hash_disks() == story["blank"]


def test_first_run_makes_the_node_ready(node):
    output, counts = site(node)
    assert counts["failed"] == 0 and counts["changed"] > 0
    assert "profile: virtual; the machine is like it" in output.stdout
    assert re.search(r"scratch: *xfs of 8\.\d GiB on /mnt/resource_nvme, 8 disk\(s\): TYSCRATCH0", output.stdout), (
        output.stdout
    )
    assert re.search(r"GPUs: *8 x NVIDIA A100-SXM4-40GB, graphics 1410 MHz locked", output.stdout), output.stdout
    assert node.ssh("findmnt -no FSTYPE {0}".format(MOUNT_POINT)).stdout.strip() == "xfs"
    assert node.ssh("stat -c %a {0}".format(MOUNT_POINT)).stdout.strip() == "1777"
    assert declared_state(node) == {"nvme_scratch": "ok", "gpu_settings": "ok"}
    node.ssh("echo precious > {0}/precious".format(MOUNT_POINT))


def test_the_stripes_of_the_file_system_are_those_of_the_array(node):
    facts = node.ssh("xfs_info {0}".format(MOUNT_POINT)).stdout
    block = int(re.search(r"data +=\s+bsize=(\d+)", facts).group(1))
    unit, width = (int(value) * block for value in re.search(r"sunit=(\d+)\s+swidth=(\d+) blks", facts).groups())
    assert unit == 512 * 1024
    assert width == 8 * 512 * 1024


def test_second_run_changes_nothing_and_is_cheap(node):
    runs, received = module_runs(node), received_bytes(node)
    _output, counts = site(node)
    received = received_bytes(node) - received
    assert counts["changed"] == 0 and counts["failed"] == 0
    assert 0 < module_runs(node) - runs <= MODULE_RUNS_AT_MOST
    # All that came over the wire, the connection and this question included.
    assert 0 < received <= RECEIVED_BYTES_AT_MOST, received


def test_after_a_reboot_all_stands_before_any_play(node):
    boot = node.boot_id()
    node.reboot()
    assert node.boot_id() != boot
    node.ssh("systemctl is-system-running --wait || true", timeout=300)
    assert node.ssh("cat {0}/precious".format(MOUNT_POINT)).stdout == "precious\n"
    assert declared_state(node) == {"nvme_scratch": "ok", "gpu_settings": "ok"}
    assert node.ssh("systemctl --failed --plain --no-legend").stdout == ""
    journal = node.ssh("journalctl -b --no-pager -o cat -u gpu-node-nvme_scratch -u gpu-node-gpu_settings").stdout
    assert "settings: brought to its declaration" in journal, journal


def test_the_boot_units_come_before_those_who_need_them(node):
    for unit in ("gpu-node-nvme_scratch", "gpu-node-gpu_settings"):
        before = node.ssh("systemctl show -p Before --value {0}".format(unit)).stdout.split()
        assert {"slurmd.service", "docker.service", "containerd.service"} <= set(before)
        limit = node.ssh("systemctl show -p TimeoutStartUSec --value {0}".format(unit)).stdout.strip()
        assert limit not in ("infinity", "")


@pytest.mark.soak
def test_third_run_changes_nothing(node):
    _output, counts = site(node)
    assert counts["changed"] == 0 and counts["failed"] == 0


def test_a_deallocation_is_healed_by_the_node_itself(node):
    node.wipe_disks()
    node.ssh("systemctl is-system-running --wait || true", timeout=300)
    assert node.ssh("findmnt -no FSTYPE {0}".format(MOUNT_POINT)).stdout.strip() == "xfs"
    assert declared_state(node) == {"nvme_scratch": "ok", "gpu_settings": "ok"}
    assert node.ssh("systemctl --failed --plain --no-legend").stdout == ""


@pytest.mark.soak
def test_a_run_after_the_deallocation_changes_nothing(node):
    _output, counts = site(node)
    assert counts["changed"] == 0 and counts["failed"] == 0


@pytest.mark.soak
def test_reset_wants_to_be_told_and_then_leaves_what_was_found(node, story):
    refused = node.ansible(RESET, check=False)
    assert refused.returncode != 0
    assert "add '-e gpu_node_reset=yes' when that is what you want" in refused.stdout
    assert declared_state(node) == {"nvme_scratch": "ok", "gpu_settings": "ok"}
    output = node.ansible([RESET, "-e", "gpu_node_reset=yes", *PROFILE])
    assert recap(output, node.name)["failed"] == 0
    assert node.ssh("findmnt {0}".format(MOUNT_POINT), check=False).returncode != 0
    assert (
        node.ssh(
            "ls /opt/gpu_node /usr/local/bin/gpunode /var/lib/gpu_node {0}".format(MOUNT_POINT), check=False
        ).stdout
        == ""
    )
    assert etc(node) == story["files"]
    signatures = node.ssh("for d in /dev/nvme*n1; do wipefs -n $d; done").stdout
    assert signatures == ""


@pytest.mark.soak
def test_a_second_reset_finds_nothing_to_do(node):
    again = node.ansible([RESET, "-e", "gpu_node_reset=yes", *PROFILE])
    assert recap(again, node.name)["changed"] == 0


@pytest.mark.soak
def test_fourth_run_builds_it_again(node):
    _output, counts = site(node, stack=False)
    assert counts["failed"] == 0 and counts["changed"] > 0
    assert declared_state(node) == {"nvme_scratch": "ok", "gpu_settings": "ok"}
    assert node.ssh("ls -A {0}".format(MOUNT_POINT)).stdout == ""
