# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A topology or graph file of the site's: whether NCCL can read it, and whether it is about this machine."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl import (
    build_xml,
    check_graph,
    check_xml,
    machine,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl.read_xml import Malformed, read
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import shared

CPU = '<cpu numaid="0"/>'


@functools.lru_cache(maxsize=None)
def seen(name):
    return machine.observe(Host(shared(name)))


# What the parser of NCCL 2.30 itself said of these texts, compiled from its source.
@pytest.mark.parametrize(
    "text",
    [
        '<system version="1">\n' + CPU + "\n</system>\n",
        "<system version='1'>\r\n" + CPU + "\n</system>",
        '<system version="1">\n<cpu numaid="0" />\n</system>\n',
        '<system version="1">\n<cpu  numaid="0"/>\n</system>\n',
        "<!--x--><system version=\"1\"><!-- a > b -->" + CPU + "</system>",
        '<system version="1"><net><a/></net>' + CPU + "</system>",
    ],
)  # fmt: skip
def test_what_nccl_reads_is_read(text):
    system = read(text)
    assert system.name == "system" and system.inside[-1].get("numaid") == "0"


@pytest.mark.parametrize(
    "text, told",
    [
        ('<?xml version="1.0"?>\n<system version="1">\n</system>\n', "line 1"),
        ('<system version="1">\n\t' + CPU + "\n</system>\n", "line 2"),
        ('<system version="1">\n<cpu numaid="0"\n arch="x"/>\n</system>\n', "line 2"),
        ('<system version="1">\n' + CPU + "\n</system >\n", "line 3"),
        ('<system version="1">\n' + CPU + "\n", "never closed"),
        ("<system version=1>" + CPU + "</system>", "line 1"),
        ('<system version="1"></cpu></system>', "closes nothing"),
        ("<!-- for ever", "never ends"),
        ("", "no element"),
        ('<system version="1" x="{0}"/>'.format("y" * 254), "253 characters"),
        ("<system " + " ".join('a{0}="1"'.format(one) for one in range(17)) + "/>", "16 attributes"),
    ],
)
def test_what_nccl_cannot_read_is_told(text, told):
    with pytest.raises(Malformed, match=told):
        read(text)
    assert told in check_xml(text, seen("ndv4"))[0]


@given(st.text(alphabet='<>/="! \n-abcpi', max_size=60) | st.text(max_size=60))
def test_no_text_crashes_the_checks(text):
    found = seen("laptop")
    check_xml(text, found)
    check_xml('<system version="1">' + text + "</system>", found)
    check_graph(text, found)


# Files that are about another machine -------------------------------------------------------------------


def full():
    """ND96asr_v4 as its maker describes it, in another spelling than ours, with GPUs and NICs in turn."""
    nodes = ["00ffffff", "0000ffff,ff000000", "000000ff,ffff0000,00000000", "ffffff00,00000000,00000000"]
    devices = [(3, 4, 3), (1, 2, 1), (0xD, 0xE, 7), (0xB, 0xC, 5)]
    lines = ["<system version='1'>"]
    for node, (mask, (one, other, nic)) in enumerate(zip(nodes, devices)):
        lines.append("<cpu numaid='{0}' affinity='{1}' arch='x86_64'>".format(node, mask))
        lines.append("<pci busid='ffff:ff:0{0}.0' class='0x060400' link_speed='16 GT/s' link_width='16'>".format(node))
        for domain, code in ((one, "0302"), (0x100 + nic, "0207"), (other, "0302"), (0x101 + nic, "0207")):
            lines.append("<pci busid='{0:04x}:00:00.0' class='0x{1}00'/>".format(domain, code))
        lines.append("</pci></cpu>")
    return "\n".join(lines + ["</system>"])


def test_a_file_of_the_maker_fits_its_machine():
    assert check_xml(full(), seen("ndv4")) == []


def test_a_file_of_another_size_is_told_by_its_devices():
    differences = check_xml(full(), seen("ndv5"))
    assert "<cpu numaid='2'>: this machine has no such NUMA node" in differences
    assert "<cpu numaid='0'>: its affinity is not the CPUs of that node" in differences
    assert "GPU 0004:00:00.0 is not on this machine" in differences
    assert "GPU 0008:00:00.0 is missing" in differences


def test_a_full_file_on_a_smaller_machine():
    found = seen("ndv4")
    half = machine.Machine(
        found.nodes, tuple(one for one in found.devices if one.numa_node in (0, 1)), (), None, found.highest_cpu
    )
    differences = check_xml(full(), half)
    assert "it has 8 GPUs, this machine has 4" in differences
    assert "it has 8 network devices, this machine has 4" in differences


@pytest.mark.parametrize(
    "change, told",
    [
        (("0003:00:00.0", "0003:00:00.1"), "GPU 0003:00:00.0 is missing"),
        (("000d:00:00.0", "000D:00:00.0"), "sysfs, which writes as in 0001:00:00.0"),
        (("0004:00:00.0", "0003:00:00.0"), "0003:00:00.0 is in it twice"),
        (("numaid='0'", "numaid='1'"), "GPU 0003:00:00.0 is on NUMA node 0, and below 1 in the file"),
        (("version='1'", "version='2'"), 'its first element is not <system version="1">'),
        (("00ffffff", "00fffffe"), "its affinity is not the CPUs of that node"),
        (("class='0x030200'/>", "class='0x030200'><gpu dev='5'/></pci>"), "is called 5, and is number"),
    ],
)
def test_each_way_to_be_wrong(change, told):
    text = full().replace(*change)
    assert text != full()
    assert told in " | ".join(check_xml(text, seen("ndv4")))


def test_our_own_file_of_one_machine_does_not_fit_another():
    for name in ("ndv2", "ndv5", "gb200", "nps4", "laptop", "offline"):
        assert check_xml(build_xml(seen("ndv4"), "numa_node", "16.0"), seen(name))


# Graph files --------------------------------------------------------------------------------------------


def graph(*channels):
    inside = "".join(
        "<channel>" + "".join('<gpu dev="{0}"/>'.format(one) for one in each) + "</channel>" for each in channels
    )
    return '<graphs version="1"><graph id="0" nchannels="2">' + inside + "</graph></graphs>"


def test_a_graph_must_go_over_the_gpus_that_are_there():
    # Azure's graph file for NC96ads_A100_v4 has exactly 4 GPUs in each channel, in any order.
    assert check_graph(graph(range(4), (0, 3, 2, 1)), seen("nps4")) == []
    told = check_graph(graph(range(4), range(4)), seen("ndv4"))
    assert told == ["a channel goes over the GPUs 0, 1, 2, 3, this machine has 8"]
    assert check_graph(graph(range(4)), seen("laptop")) == [
        "a channel goes over the GPUs 0, 1, 2, 3, this machine has 1"
    ]
    assert check_graph('<system version="1"/>', seen("nps4")) == ["its first element is not <graphs>"]
