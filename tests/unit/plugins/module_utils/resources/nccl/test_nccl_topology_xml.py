# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The topology file of captured and of random machines, by NCCL's own rules and by hand."""

from __future__ import annotations

import dataclasses
import functools
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl import build_xml, check_xml, machine
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl.build_xml import (
    cpu_mask,
    reasons,
    split_nodes,
    unplaced,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl.machine import (
    Bridge,
    Device,
    Link,
    Machine,
    Processor,
    bridges,
    processor,
)
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import names, shared, unpack
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.nccl.nccl_rules import problems

# minus_one has a GPU of which nothing tells the NUMA node; in cxl a device hangs on another node than it says itself.
PLACED = [name for name in names() if name not in ("minus_one", "cxl", "laptop")]
CHOICES = [("none", ""), ("pair", "32.0"), ("numa_node", "16.0")]

NDV4 = """<!-- Managed by trainyard.gpu_node. Changes will be lost. Measured on this machine; fits no other. -->
<system version="1">
  <cpu numaid="0" affinity="00000000,00000000,00ffffff">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0003:00:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"/>
      <pci busid="0004:00:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"/>
      <pci busid="0103:00:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16"/>
      <pci busid="0104:00:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16"/>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="00000000,0000ffff,ff000000">
    <pci busid="ffff:ff:02.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0001:00:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"/>
"""


@functools.lru_cache(maxsize=None)
def seen(name):
    return machine.observe(Host(shared(name)))


def bound(found):
    """(lower address, switch) of each device, from the text."""
    pairs, switch = {}, None
    for line in found.splitlines():
        address = line.partition('busid="')[2][:12]
        if "ffff:" in address:
            switch = address
        elif address:
            pairs[address] = switch
        elif "</pci>" in line:
            switch = None
    return pairs


@pytest.mark.parametrize("switches, link_speed", CHOICES)
@pytest.mark.parametrize("name", PLACED)
def test_each_captured_machine_by_the_rules_of_nccl(name, switches, link_speed):
    text = build_xml(seen(name), switches, link_speed)
    assert problems(text, shared(name)) == []
    assert check_xml(text, seen(name)) == []


def test_ndv4_is_what_azure_documents():
    assert build_xml(seen("ndv4"), "numa_node", "16.0").startswith(NDV4)


def test_ndv5_pairs_each_gpu_with_its_nic():
    switches = bound(build_xml(seen("ndv5"), "pair", "32.0"))
    gpus = ["0001", "0002", "0003", "0008", "0009", "000a", "000b", "000c"]
    for number, domain in enumerate(gpus, start=1):
        own = "ffff:ff:{0:02d}.0".format(number)
        assert switches[domain + ":00:00.0"] == switches["010{0}:00:00.0".format(number)] == own


def test_numbers_of_gpus_are_left_to_nccl():
    # A job or container with some of the GPUs has other numbers than the host; ncv4-topo.xml writes them down.
    for name in names():
        text = build_xml(seen(name), "pair", "16.0")
        assert "<gpu" not in text and "rank=" not in text and "<net" not in text


def test_real_bridges_are_nested_as_nccl_climbs_them():
    # Behind one switch: the NIC's firmware claims node 1, and hangs below the bridge of the GPU on node 0 all the same.
    text = build_xml(seen("cxl"))
    assert text.split("\n", 1)[1] == (
        '<system version="1">\n'
        '  <cpu numaid="0" affinity="00000003">\n'
        '    <pci busid="0000:01:00.0" class="0x020700"/>\n'
        '    <pci busid="0000:41:00.0" class="0x060400">\n'
        '      <pci busid="0000:43:00.0" class="0x030200"/>\n'
        '      <pci busid="0000:44:00.0" class="0x020700"/>\n'
        "    </pci>\n"
        "  </cpu>\n"
        "</system>\n"
    )
    assert check_xml(text, seen("cxl")) == []


@pytest.mark.parametrize(
    "path, expected",
    [
        ((), ()),
        (("pci0000:40",), ()),
        (("pci0000:40", "0000:40:01.0"), ()),
        (("pci0000:40", "0000:40:01.0", "0000:41:00.0", "0000:42:00.0"), ("0000:41:00.0",)),
        (("pci0000:40", "40", "41", "42", "43", "44"), ("41", "43")),
    ],
)
def test_a_switch_is_two_bridges_in_sysfs_and_one_in_nccl(path, expected):
    assert bridges(path) == expected


# Whether a file is needed ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ndv2", "ndv4", "ndv5", "nps4", "gb200", "hb176", "offline"])
def test_where_sysfs_tells_all_no_file_is_needed(name):
    assert reasons(seen(name)) == ()


def test_hidden_switches_are_a_reason_only_where_gpus_and_nics_share_a_node():
    assert len(reasons(seen("ndv4"), "numa_node")) == 4
    assert len(reasons(seen("ndv2"), "numa_node")) == 1
    assert reasons(seen("hb176"), "numa_node") == ()


def test_a_numa_node_that_only_the_cpu_list_tells_is_a_reason():
    assert reasons(seen("minus_one")) == ("sysfs tells no NUMA node for 0000:11:00.0",)
    assert unplaced(seen("minus_one")) == ("0000:81:00.0", "0000:a1:00.0")


def test_a_missing_gpu_makes_no_wrong_pairs():
    # Without 0002 the third GPU would be the second, and go with the NIC of the one that is gone.
    found = seen("ndv5")
    less = dataclasses.replace(found, devices=tuple(one for one in found.devices if one.address != "0002:00:00.0"))
    assert split_nodes(less, "pair") == (0,)
    switches = bound(build_xml(less, "pair", "32.0"))
    assert {switches[one] for one in ("0001:00:00.0", "0003:00:00.0", "0101:00:00.0", "0104:00:00.0")} == {None}
    assert switches["0009:00:00.0"] == switches["0105:00:00.0"] == "ffff:ff:01.0"
    assert check_xml(build_xml(less, "pair", "32.0"), less) == []


def test_the_nics_are_the_fabric_of_the_topology(tmp_path):
    """One rule for both: a port that is down carries nothing, so NCCL leaves it out (ncclIbInit in net_ib)."""
    root = unpack("ndv4", tmp_path)
    state = next((pathlib.Path(str(root)) / "sys/class/infiniband/mlx5_ib0/ports").glob("*/state"))
    whole = machine.observe(Host(str(root))).nics
    state.write_text("1: DOWN\n", encoding="utf-8")
    assert len(machine.observe(Host(str(root))).nics) == len(whole) - 1


# What sysfs says of links and processors -----------------------------------------------------------------


def test_link_speeds_of_sysfs_go_before_the_option(tmp_path):
    root = unpack("ndv4", tmp_path / "node")
    folder = tmp_path / "node/sys/bus/pci/devices/0003:00:00.0"
    (folder / "max_link_speed").write_text("8.0 GT/s PCIe\n")
    (folder / "max_link_width").write_text("8\n")
    unknown = tmp_path / "node/sys/bus/pci/devices/0103:00:00.0"
    (unknown / "max_link_speed").write_text("Unknown\n")
    (unknown / "max_link_width").write_text("255\n")
    text = build_xml(machine.observe(Host(root)), "numa_node", "16.0")
    assert '<pci busid="0003:00:00.0" class="0x030200" link_speed="8.0 GT/s PCIe" link_width="8"/>' in text
    assert '<pci busid="0103:00:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16"/>' in text
    assert problems(text, root) == []


def test_the_port_above_bounds_a_device(tmp_path):
    root = unpack("laptop", tmp_path / "node")
    device = tmp_path / "node/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"
    (device / "max_link_speed").write_text("16.0 GT/s PCIe\n")
    (device / "max_link_width").write_text("16\n")
    (device.parent / "max_link_speed").write_text("8.0 GT/s PCIe\n")
    (device.parent / "max_link_width").write_text("4\n")
    assert machine.observe(Host(root)).gpus[0].link == Link(8.0, 4)


def test_a_speed_that_nccl_does_not_know_is_left_out():
    device = Device("gpu", "0001:00:00.0", 0x030200, 0, True, link=Link(128.0, 16))
    assert "link_speed" not in build_xml(Machine(((0, (0, 1)),), (device,)))


@pytest.mark.parametrize(
    "text, expected",
    [
        # AMD family 17h is 15 + 8 in CPUID, which NCCL joins with a shift: 15 + (8 << 4).
        ("vendor_id\t: AuthenticAMD\ncpu family\t: 23\nmodel\t\t: 49\n", Processor("x86_64", "AuthenticAMD", 143, 49)),
        # Zen 3, as ncv4-topo.xml has it: 175.
        ("vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n", Processor("x86_64", "AuthenticAMD", 175, 1)),
        ("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n", Processor("x86_64", "GenuineIntel", 6, 143)),
        ("processor\t: 0\nCPU implementer\t: 0x41\n", Processor("arm64")),
        ("processor\t: 0\n", None),
        (None, None),
    ],
)
def test_the_processor_as_nccl_counts_it(text, expected):
    assert processor(text) == expected


def test_the_processor_is_in_each_cpu_element():
    one = dataclasses.replace(seen("ndv5"), processor=Processor("x86_64", "GenuineIntel", 6, 143))
    text = build_xml(one)
    assert text.count('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">') == 2


@pytest.mark.parametrize(
    "cpus, highest, expected",
    [
        # Azure's masks: ND40rs_v2 node 1, ND96asr_v4 node 1, ND96isr_H100_v5 node 0.
        (range(20, 40), 39, "000000ff,fff00000"),
        (range(24, 48), 95, "00000000,0000ffff,ff000000"),
        (range(48), 95, "00000000,0000ffff,ffffffff"),
        ((), 0, "00000000"),
        ((31,), 31, "80000000"),
        ((32,), 32, "00000001,00000000"),
    ],
)
def test_masks(cpus, highest, expected):
    assert cpu_mask(cpus, highest) == expected


@pytest.mark.parametrize("sets", [1, 2, 4])
@pytest.mark.parametrize("count", [896, 928, 1024])
def test_the_affinities_of_a_machine_with_very_many_cpus_are_read_back(count, sets):
    size = count // sets
    nodes = tuple((node, tuple(range(node * size, (node + 1) * size))) for node in range(sets))
    devices = tuple(
        Device("gpu", "000{0}:00:00.0".format(node), 0x030200, node, True, (), Link(32.0, 16)) for node in range(sets)
    )
    found = Machine(nodes, devices, (), None, count - 1)
    text = build_xml(found, "none", "")
    assert check_xml(text, found) == []
    # NCCL itself takes values of up to 253 characters, so one node of 1024 CPUs has none.
    assert text.count("affinity=") == (0 if size > 896 else sets)


# Any machine ------------------------------------------------------------------------------------------

SPEEDS = st.sampled_from([None, 2.5, 8.0, 16.0, 32.0, 128.0])
DEVICES = st.builds(
    lambda kind, node, told, above, speed, width: (kind, node, told, above, Link(speed, width)),
    st.sampled_from(["gpu", "nic"]),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from([(), (), ("0000:41:00.0",), ("0000:41:00.0", "0000:51:00.0"), ("0000:61:00.0",)]),
    SPEEDS,
    st.sampled_from([None, 8, 16]),
)


@st.composite
def machines(draw):
    devices = tuple(
        Device(kind, "{0:04x}:{1:02x}:00.0".format(number, 0x80 if above else 0),
               0x030200 if kind == "gpu" else 0x020000, node, told, above, link)
        for number, (kind, node, told, above, link) in enumerate(draw(st.lists(DEVICES, max_size=16)))
    )  # fmt: skip
    above = dict.fromkeys(name for one in devices for name in one.bridges)
    tops = {name: draw(st.sampled_from([None, 0, 3])) for name in above}
    return Machine(
        nodes=tuple((node, tuple(range(node * 10, node * 10 + 10))) for node in range(4)),
        devices=devices,
        bridges=tuple(Bridge(name, 0x060400, node) for name, node in tops.items()),
        highest_cpu=39,
    )


@given(machines(), st.sampled_from(["none", "pair", "numa_node"]), st.sampled_from(["", "2.5", "16.0"]))
def test_any_machine_gets_a_file_that_fits_it_and_no_other(found, switches, link_speed):
    text = build_xml(found, switches, link_speed)
    assert check_xml(text, found) == []
    assert text == build_xml(found, switches, link_speed)
    for one in found.devices:
        assert text.count('busid="{0}"'.format(one.address)) == 1
    if found.devices:
        less = dataclasses.replace(found, devices=found.devices[1:])
        assert check_xml(text, less) != []
