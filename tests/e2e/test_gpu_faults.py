# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sick GPUs and wrong wishes on a whole node: what is said, and that the healthy part is served."""

from __future__ import annotations

import json

import pytest

# In each test run tests/unit/plugins has it without a guest, and test_health.py a lost GPU of a whole node.
pytestmark = pytest.mark.soak
BARE = {"declare": False, "persistenced": False, "boot_unit": False}
SETTINGS = dict(BARE, persistence=True, clocks="max")


@pytest.fixture(autouse=True)
def healthy_gpus(node):
    """Each test starts with 8 healthy GPUs as after a boot."""
    node.ssh("nvml-simulator clear && nvml-simulator driver-reload && rm -f /var/lib/gpu_node/gpu_settings.json")
    yield
    node.ssh("nvml-simulator clear && nvml-simulator driver-reload")


@pytest.fixture(scope="module", autouse=True)
def runtime(shared_node):
    assert not shared_node.module("node_runtime")["failed"]


# All files that may be ours, the packages, and the settings of the kernel that NCCL's role makes.
EVERYTHING = """
find /etc /opt /usr/local -xdev ! -type d | sort
test ! -e /var/lib/gpu_node || find /var/lib/gpu_node | sort
dpkg-query --show
sysctl --all --pattern '^vm.zone|gc_thresh'
"""


def clock(node, gpu):
    """The graphics clock of a GPU as the driver tells it, in MHz."""
    gpus = json.loads(node.ssh("gpunode info --json", check=False).stdout)["gpus"]
    return next(one["clocks"]["graphics_mhz"] for one in gpus if one["index"] == gpu)


def test_one_lost_gpu_fails_the_node_by_name_and_the_seven_are_set(node):
    node.ssh("nvml-simulator fault gpu 3 lost")
    result = node.module("gpu_settings", **SETTINGS)
    assert result["failed"]
    assert "GPU 3" in result["msg"] and "lost" in result["msg"], result["msg"]
    assert [clock(node, gpu) for gpu in (0, 7)] == [1410, 1410]
    info = node.module("gpu_info", gather=["minimum"])
    assert info["status"] == "partial"
    assert sum(gpu["fault"] is None for gpu in info["gpus"]) == 7


def test_an_unsupported_clock_is_refused_with_the_nearest_ones_and_nothing_is_set(node):
    result = node.module("gpu_settings", persistence=True, clocks={"graphics_mhz": 1411, "memory_mhz": 1215}, **BARE)
    assert result["failed"]
    assert "1411" in result["msg"] and "1410" in result["msg"], result["msg"]
    assert clock(node, 0) == 210
    assert not json.loads(node.ssh("gpunode info --json").stdout)["gpus"][0]["settings"]["persistence"]


def test_a_driver_that_is_not_loaded_is_said(node):
    node.ssh("nvml-simulator fault driver not-loaded")
    result = node.module("gpu_settings", **SETTINGS)
    assert result["failed"]
    assert "driver" in result["msg"] and "not loaded" in result["msg"], result["msg"]
    assert node.module("gpu_info", gather=["minimum"])["status"] == "driver_not_loaded"


def test_a_hanging_call_ends_in_time_and_is_named(node):
    node.ssh("nvml-simulator fault call nvmlDeviceGetPersistenceMode gpu 5 hang")
    result = node.module("gpu_info", gather=["settings"], call_timeout=3)
    sick = [gpu for gpu in result["gpus"] if gpu["fault"] is not None]
    assert [gpu["index"] for gpu in sick] == [5]
    assert "nvmlDeviceGetPersistenceMode" in sick[0]["fault"]["message"]


def test_without_root_nothing_is_tried(node):
    for command in ("gpunode apply gpu_settings", "gpunode apply nvme_scratch"):
        node.ssh(
            'mkdir -p /etc/gpu_node && echo \'{"gpu_settings": {"clocks": "max"}, "nvme_scratch": {"serials": ["X"]}}\''
            " > /etc/gpu_node/node.json"
        )
        done = node.ssh("runuser -u nobody -- " + command, check=False)
        assert done.returncode == 1
        assert "root" in done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr
    node.ssh("rm /etc/gpu_node/node.json")
    assert clock(node, 0) == 210


@pytest.mark.parametrize(
    "variables, told",
    [
        ({"node_profile_name": "nd96asr_v5"}, "nd96asr_v5"),
        ({"nvme_scratch_filesystem": "zfs"}, "nvme_scratch_filesystem"),
        ({"nvme_scratch_mount_point": "/etc"}, "/etc"),
    ],
)
def test_a_wrong_variable_ends_in_a_sentence_and_changes_nothing(node, variables, told):
    before = node.hash_disks()
    done = node.ansible(
        ["playbooks/site.yml", "-e", json.dumps(dict({"node_profile_name": "virtual"}, **variables)), "--check"],
        check=False,
    )
    assert done.returncode != 0
    assert told in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert node.hash_disks() == before


def test_a_machine_without_gpus_and_disks_is_left_alone_and_skipped_on_request(node_factory):
    bare = node_factory("bare", nvme_count=0, gpus=0, machine="none")
    try:
        before = bare.ssh(EVERYTHING).stdout
        output = bare.ansible(["playbooks/site.yml", "-e", "node_profile_name=auto"])
        assert "machine: it has no NVIDIA GPU" in output.stdout and "changed=0" in output.stdout, output.stdout
        assert bare.ssh(EVERYTHING).stdout == before

        asked = ["playbooks/site.yml", "-e", "node_profile_name=auto", "-e", "gpu_node_manage=true"]
        output = bare.ansible(asked)
        assert "scratch: none: " in output.stdout, output.stdout
        assert "GPUs:    none: " in output.stdout, output.stdout
        assert "profile: unknown, so nothing was compared" in output.stdout
        bare.reboot()
        bare.ssh("systemctl is-system-running --wait || true", timeout=300)
        assert bare.ssh("systemctl --failed --plain --no-legend").stdout == ""
        assert "changed=0" in bare.ansible(asked).stdout
        bare.ansible(["playbooks/reset.yml", "-e", "gpu_node_reset=yes"])
        for path in ("/opt/gpu_node/gpunode.pyz", "/etc/gpu_node/node.json", "/etc/sysctl.d/90-gpu_node_nccl.conf"):
            bare.ssh("test ! -e " + path)
    finally:
        bare.node.down()
