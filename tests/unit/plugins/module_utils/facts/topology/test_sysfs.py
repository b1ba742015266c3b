# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text formats of sysfs: CPU lists and masks, sizes, PCI addresses."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import sysfs, sysfs_numa


@pytest.mark.parametrize(
    "text, numbers",
    [
        ("0-3,8,10-11\n", (0, 1, 2, 3, 8, 10, 11)),
        ("", ()),
        (None, ()),
        ("5", (5,)),
        ("0-10:2/4", (0, 1, 4, 5, 8, 9)),
        ("3-1", ()),
        ("nonsense,2", (2,)),
        ("0-99999999999", ()),
        ("0-3:1/0", ()),
    ],
)
def test_cpu_lists_are_read_as_the_kernel_writes_them(text, numbers):
    assert sysfs.parse_cpulist(text) == numbers


def test_cpu_masks_of_the_topology_files_are_read():
    # azhpc-images' ndv2 and ndv5 topology files, second NUMA node of each.
    assert sysfs.parse_cpumask("000000ff,fff00000") == tuple(range(20, 40))
    assert sysfs.parse_cpumask("ffffffff,ffff0000,00000000") == tuple(range(48, 96))
    assert sysfs.parse_cpumask("") == ()
    assert sysfs.parse_cpumask("xyz") == ()
    assert sysfs.parse_cpumask(None) == ()


@given(st.sets(st.integers(0, 2000)))
def test_a_written_cpu_list_reads_back_the_same(numbers):
    assert sysfs.parse_cpulist(sysfs.format_cpulist(numbers)) == tuple(sorted(numbers))


@given(st.text(alphabet="0123456789-,:/ abx\n", max_size=30))
@example("0\n,0")
def test_no_text_stops_the_parsers(text):
    sysfs.parse_cpulist(text)
    sysfs.parse_cpumask(text)
    sysfs.parse_size(text)
    sysfs.parse_int(text)
    sysfs.normalise_pci_address(text)


@pytest.mark.parametrize(
    "text, size",
    [
        ("32768K", 33554432),
        ("131594100 kB", 134752358400),
        ("512", 512),
        ("2M", 2097152),
        ("1GiB", 1073741824),
        ("much", None),
        (None, None),
    ],
)
def test_sizes_are_bytes(text, size):
    assert sysfs.parse_size(text) == size


@pytest.mark.parametrize(
    "text, address",
    [
        ("00000001:00:00.0", "0001:00:00.0"),
        ("0000:AF:00.1", "0000:af:00.1"),
        ("10000:01:00.0", "10000:01:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("af:00.0", None),
        ("0001:00:00.8", None),
        (None, None),
    ],
)
def test_pci_addresses_are_written_as_sysfs_writes_them(text, address):
    assert sysfs.normalise_pci_address(text) == address


def test_pci_addresses_sort_by_number_and_not_by_text():
    addresses = ["10000:01:00.0", "0101:00:00.0", "000b:00:00.0", "0002:00:00.0"]
    assert sorted(addresses, key=sysfs.pci_key) == ["0002:00:00.0", "000b:00:00.0", "0101:00:00.0", "10000:01:00.0"]


def test_names_sort_by_their_numbers():
    assert sorted(["nvme10", "nvme2", "mlx5_1"], key=sysfs.natural) == ["mlx5_1", "nvme2", "nvme10"]


def test_an_empty_tree_reads_as_nothing(tmp_path):
    host = Host(str(tmp_path))
    assert sysfs.pci_functions(host) == ()
    assert sysfs.nvme_controllers(host) == ()
    assert sysfs.infiniband_devices(host) == ()
    assert sysfs.dmi(host) == {}
    assert sysfs_numa.nodes(host) == ()
    assert sysfs_numa.cpus(host).online == ()
    assert sysfs_numa.memory_bytes(host) is None


def test_a_tree_of_plain_folders_reads_without_pcie_path(tmp_path):
    """Copied without its links (by a tool that follows them), a tree still tells addresses and nodes."""
    folder = tmp_path / "sys/bus/pci/devices/0001:00:00.0"
    folder.mkdir(parents=True)
    for name, text in (("vendor", "0x10de"), ("device", "0x20b0"), ("class", "0x030200"), ("numa_node", "1")):
        (folder / name).write_text(text + "\n")
    (function,) = sysfs.pci_functions(Host(str(tmp_path)))
    assert (function.address, function.pci_id, function.numa_node, function.path) == (
        "0001:00:00.0",
        "10de:20b0",
        1,
        (),
    )


def test_the_machine_of_this_test_reads_like_the_standard_library_says():
    import os

    online = sysfs_numa.cpus(Host()).online
    assert len(online) == os.cpu_count()
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert abs(sysfs_numa.memory_bytes(Host()) - total) < total * 0.02
