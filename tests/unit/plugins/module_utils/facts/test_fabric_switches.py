# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVSwitches and the functions that manage them, beside network adapters that look like them."""

from __future__ import annotations

import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import fabric

ADDRESS = "0000:05:00.0"
MELLANOX, INFINIBAND = "0x15b3", "0x020700"
# A large resource and a read-only one, with bytes that are not text.
MANAGES = b"\x82\x11\x00Nvidia ConnectX-7\x90\x0d\x00V3\xffSMDL=SW_MNG\x78"
ADAPTER = b"\x82\x11\x00Nvidia ConnectX-7\x90\x0d\x00PN\xffMCX75310AAS-N\x78"


@pytest.fixture(name="function")
def _function(tmp_path):
    def make(vendor=MELLANOX, kind=INFINIBAND, vpd=MANAGES):
        directory = tmp_path / "sys/bus/pci/devices" / ADDRESS
        directory.mkdir(parents=True)
        (directory / "vendor").write_text(vendor + "\n")
        (directory / "class").write_text(kind + "\n")
        if vpd is not None:
            (directory / "vpd").write_bytes(vpd)
        return directory

    return make


def test_functions_that_manage_nvswitches_count_as_switches(function, tmp_path):
    function()
    assert fabric.switches(Host(str(tmp_path))) == (ADDRESS,)


@pytest.mark.parametrize(
    "given",
    [
        {"vpd": ADAPTER},
        {"vpd": b""},
        {"vpd": b"\xff" * (1 << 15) + MANAGES},
        {"vendor": "0x10de"},
        {"kind": "0x020000"},
        {"kind": "0x068000"},
    ],
    ids=["adapter", "no data", "too much data", "another vendor", "Ethernet", "bridge"],
)
def test_a_network_adapter_is_not_a_switch(function, tmp_path, given):
    function(**given)
    assert fabric.switches(Host(str(tmp_path))) == ()


def test_a_virtual_function_is_not_a_switch(function, tmp_path):
    (function() / "physfn").mkdir()
    assert fabric.switches(Host(str(tmp_path))) == ()


def test_a_function_of_a_guest_is_not_a_switch_of_the_host(function, tmp_path):
    directory = function()
    (tmp_path / "sys/bus/pci/drivers/vfio-pci").mkdir(parents=True)
    (directory / "driver").symlink_to("../../drivers/vfio-pci")
    assert fabric.switches(Host(str(tmp_path))) == ()


@pytest.mark.parametrize("kind", ["absent", "directory", "pipe", "link to a pipe"])
def test_data_that_cannot_be_read_neither_fails_nor_blocks(function, tmp_path, kind):
    vpd = function(vpd=None) / "vpd"
    if kind == "directory":
        vpd.mkdir()
    elif kind == "pipe":
        os.mkfifo(str(vpd))
    elif kind == "link to a pipe":
        os.mkfifo(str(tmp_path / "pipe"))
        vpd.symlink_to(tmp_path / "pipe")
    assert fabric.switches(Host(str(tmp_path))) == ()
