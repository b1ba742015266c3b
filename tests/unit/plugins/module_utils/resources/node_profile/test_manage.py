# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which roles manage which machine: every combination of what a machine has and of what was asked for."""

from __future__ import annotations

import itertools

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import topology
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_profile import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_profile.manage import (
    ROLES,
    Facts,
    Wish,
    decide,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_profile.plan import facts

GPUS, NVSWITCHES, PROFILES, SCRATCH = (0, 8), (0, 6), ("unknown", "nd96asr_v4"), (0, 3)
DISKS = ((), ("Samsung SSD 980 (nvme0n1)",))
DECLARED = ((), ("profile", "nccl"), ("gpu_settings",), ("nvme_scratch", "profile"))
ASKED = {(): (), ("all",): (), ("pyxis", "enroot"): ("enroot", "pyxis"), ("comm", "health"): registry.group("comm")}


@pytest.mark.parametrize("anything", [False, True])
@pytest.mark.parametrize("asked", list(ASKED))
def test_every_combination(asked, anything):
    count = 0
    for every in itertools.product(GPUS, NVSWITCHES, PROFILES, SCRATCH, DISKS, DECLARED):
        gpus, nvswitches, profile, scratch, disks, declared = every
        found = decide(Facts(*every), Wish(anything, asked))
        # What is ours, however sick it is: no driver is needed for any of these.
        ours = (
            gpus > 0
            or nvswitches > 0
            or profile != "unknown"
            or scratch > 0
            or "gpu_settings" in declared
            or "nvme_scratch" in declared
        )
        assert found.known is ours, every
        assert found.roles == (ROLES if ours or anything else ASKED[asked]), every
        assert (found.left is None) is (ours or anything), every
        # All GPUs are gone, and no profile says how many there must be.
        gone = gpus == 0 and profile == "unknown" and (nvswitches > 0 or "gpu_settings" in declared)
        assert (found.lost is not None) is gone, every
        count += 1
    assert count == 128


def test_the_sentence_tells_what_is_missing_and_how_to_ask():
    told = decide(Facts(disks=("Samsung SSD 980 (nvme0n1)",)), Wish(False)).left
    assert told == (
        "it has no NVIDIA GPU, no profile and no disk that is scratch material (its NVMe disks: Samsung SSD 980 "
        "(nvme0n1)), so nothing is installed or set; to manage it all the same, set gpu_node_manage: true; for single "
        "roles, name them in gpu_node_comm, as [enroot, pyxis], or with --tags."
    )
    told = decide(Facts(), Wish(False, ("pyxis", "enroot"))).left
    assert "so only what was asked for is managed, enroot, pyxis; to manage" in told and "NVMe" not in told


def test_lost_gpus_are_told_with_what_says_that_there_were_some():
    assert "though 6 NVSwitches are" in decide(Facts(nvswitches=6), Wish()).lost
    for section in ("gpu_settings", "mig_layout"):
        found = decide(Facts(declared=(section,)), Wish(False))
        assert found.known and "though GPU settings were declared here" in found.lost


def test_gpus_that_are_given_to_guests_are_not_ours():
    told = decide(Facts(given_away=8), Wish(False))
    assert (told.roles, told.known, told.lost) == ((), False, None)
    assert told.left.startswith("it has no NVIDIA GPU but 8 that it gives to guests, no profile and no disk")
    assert decide(Facts(1, given_away=7), Wish(False)).known


@pytest.mark.parametrize(
    ("drivers", "gpus", "given_away", "known"),
    [
        (("vfio-pci",) * 2, 0, 2, False),
        (("nvgrace_gpu_vfio_pci", "pci-stub"), 0, 2, False),
        (("vfio-pci", "nvidia"), 1, 1, True),
        (("nouveau", None), 2, 0, True),  # a blank node
        ((), 0, 0, True),  # with NVSwitches: its GPUs are lost
    ],
)
def test_a_hypervisor_is_told_from_a_blank_node(tmp_path, drivers, gpus, given_away, known):
    for number, (driver, class_code) in enumerate([*((one, "0x030200") for one in drivers), ("x", "0x068000")]):
        address = "0000:0{0}:00.0".format(number + 1)
        folder = tmp_path / "sys/devices/pci0000:00" / address
        folder.mkdir(parents=True)
        for name, text in (("vendor", "0x10de"), ("device", "0x2330"), ("class", class_code)):
            (folder / name).write_text(text + "\n")
        if driver is not None:
            (tmp_path / "sys/bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)
            (folder / "driver").symlink_to(tmp_path / "sys/bus/pci/drivers" / driver)
        bus = tmp_path / "sys/bus/pci/devices"
        bus.mkdir(parents=True, exist_ok=True)
        (bus / address).symlink_to(folder)
    seen = topology.look(Host(str(tmp_path)), ask_nvml=False)
    found = facts(seen, "unknown", (), Desired())
    assert (found.gpus, found.given_away) == (gpus, given_away)
    assert decide(found, Wish(False)).known is known
