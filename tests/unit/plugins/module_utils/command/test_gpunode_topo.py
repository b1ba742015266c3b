# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode topo`` in its three forms, on captured machines: the table, the drawing in text, and the picture."""

from __future__ import annotations

import io
import os
import re
import stat
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import draw_svg, draw_text, main, topo
from ansible_collections.trainyard.gpu_node.plugins.module_utils.command.draw_sheet import (
    Box,
    CoreGroup,
    Device,
    Frame,
    Pair,
    Sheet,
    sheet,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import topology
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.topology import GpuReading
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import names, shared, unpack
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.command import gpunode_on

# The first socket of ND96asr_v4: GPUs 2 and 3 on node 0, 0 and 1 on node 1, each beside the card of its number.
NDV4_SOCKET_0 = """\
┌─ Socket 0 ──────────────────────────────────────────────────────────────────┐
│ ┌─ NUMA node 0 ───────── 221.5 GiB ─┐ ┌─ NUMA node 1 ───────── 221.5 GiB ─┐ │
│ │ 24 cores (0-23)                   │ │ 24 cores (24-47)                  │ │
│ │ 6 x L3 16 MiB: [0-3] [4-7] [8-11] │ │ 6 x L3 16 MiB: [24-27] [28-31]    │ │
│ │   [12-15] [16-19] [20-23]         │ │   [32-35] [36-39] [40-43] [44-47] │ │
│ │ GPU 2 0003:00:00.0 ━━━━━ mlx5_ib2 │ │ GPU 0 0001:00:00.0 ━━━━━ mlx5_ib0 │ │
│ │ GPU 3 0004:00:00.0 ━━━━━ mlx5_ib3 │ │ GPU 1 0002:00:00.0 ━━━━━ mlx5_ib1 │ │
│ │ mlx5_an0 40 Gb/s Ethernet         │ │ NVMe nvme2 nvme3 (894.3 GiB each) │ │
│ │ NVMe nvme0 nvme1 (894.3 GiB each) │ │                                   │ │
│ └───────────────────────────────────┘ └───────────────────────────────────┘ │
└─────────────────────────────────────────────────────────────────────────────┘
"""


def look(name):
    """The machine as its driver would add to it: all GPUs numbered in the order of their addresses."""
    host = Host(shared(name))
    readings = [
        GpuReading(number, "GPU-{0}".format(number), "NVIDIA A100-SXM4-40GB", gpu.placement.pci_address)
        for number, gpu in enumerate(topology.observe(host).gpus)
    ]
    return topology.observe(host, readings)


@pytest.fixture(scope="module")
def machine():
    known = {}

    def get(name):
        if name not in known:
            known[name] = look(name)
        return known[name]

    return get


@pytest.fixture
def gpunode(tmp_path):
    def run(name, *words, **environment):
        root = str(tmp_path / name)
        if not os.path.exists(root):
            unpack(name, root)
        variables = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path), **environment)
        return subprocess.run(
            [sys.executable, gpunode_on.__file__, root, "--", "topo", *words],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            check=False,
        )

    return run


# In text ----------------------------------------------------------------------------------------------


def test_ndv4_is_drawn_as_its_maker_documents_it(machine):
    drawn = draw_text.text(sheet(machine("ndv4"), "node7"))
    assert NDV4_SOCKET_0 in drawn
    assert drawn.splitlines()[0] == "node7: 2 sockets, 96 cores, 885.8 GiB memory, 8 x NVIDIA A100-SXM4-40GB"


def test_memory_of_the_gpus_is_no_box_and_is_told(machine):
    drawn = draw_text.text(sheet(machine("gb200")))
    assert drawn.count("┌") == 2 and "note: NUMA nodes of memory only: 2,10,18,26 (184.1 GiB each)" in drawn


def test_a_machine_without_numa_is_one_box_over_the_whole_width(machine):
    lines = draw_text.text(sheet(machine("laptop"))).splitlines()[1:]
    assert lines[1].startswith("┌─ whole machine ──") and lines[1].endswith("─ 15.4 GiB ─┐")
    assert "│ GPU 0 0000:01:00.0" in lines[4]


def test_a_card_on_another_node_is_joined_by_a_dotted_line(machine):
    drawn = draw_text.text(sheet(machine("nps4")))
    assert "│ GPU 0 0000:21:00.0 ┄┄┄┄┄┄┄ mlx5_0 │" in drawn


def test_what_sits_on_no_node_has_a_box_of_its_own(machine):
    drawn = draw_text.text(sheet(machine("minus_one")))
    assert "On no NUMA node" in drawn and "mlx5_0 200 Gb/s DOWN" in drawn and "nvme2!" in drawn


@pytest.mark.parametrize("name", names())
def test_drawings_fit_80_columns_and_lose_no_device(machine, name):
    found = machine(name)
    page = sheet(found, "n" * 64)
    drawn = draw_text.text(page)
    assert max(len(line) for line in drawn.splitlines()) <= 80
    plain = draw_text.text(page, ascii_only=True)
    assert plain.isascii() and [len(line) for line in plain.splitlines()] == [len(line) for line in drawn.splitlines()]
    picture = "".join(ElementTree.fromstring(draw_svg.svg(page)).itertext())
    for form in (drawn, picture):
        for device in (*found.infiniband, *found.nvme):
            assert device.name in form
        for gpu in found.gpus:
            assert gpu.placement.pci_address in form


@pytest.mark.parametrize("name", names())
def test_borders_of_the_drawing_are_closed(machine, name):
    """Each corner and side has its neighbours: a row that is one column short would break them."""
    lines = draw_text.text(sheet(machine(name)), ascii_only=False).splitlines()
    for number, line in enumerate(lines[:-1]):
        for column, letter in enumerate(line):
            below = lines[number + 1][column : column + 1]
            if letter in "┌┐":
                assert below in "│", (number, line)
            elif letter == "│":
                assert below in "│└┘", (number, line)


# As a picture -----------------------------------------------------------------------------------------

SPACE = "{http://www.w3.org/2000/svg}"


def rectangles(picture):
    root = ElementTree.fromstring(picture)
    found = []
    for one in root.iter(SPACE + "rect"):
        x, y, width, height = (float(one.get(key)) for key in ("x", "y", "width", "height"))
        found.append((one.get("class"), x, y, x + width, y + height))
    return root, found


@pytest.mark.parametrize("name", names())
def test_nothing_in_the_picture_overlaps_or_leaves_the_page(machine, name):
    root, found = rectangles(draw_svg.svg(sheet(machine(name))))
    dummy, dummy, width, height = (float(word) for word in root.get("viewBox").split())
    for style, left, top, right, bottom in found:
        assert 0 <= left < right <= width and 0 <= top < bottom <= height, style
    for kind in (("frame",), ("box",), ("cache",), ("core",), ("gpu", "card", "disk", "bad")):
        same = [one[1:] for one in found if one[0] in kind]
        for number, (left, top, right, bottom) in enumerate(same):
            for other in same[number + 1 :]:
                assert left >= other[2] or other[0] >= right or top >= other[3] or other[1] >= bottom, (kind, other)
    # What belongs into a box lies in one (the legend is below all boxes).
    boxes = [one[1:] for one in found if one[0] == "box"]
    lowest = max(box[3] for box in boxes)
    for style, left, top, right, bottom in found:
        if style not in ("page", "frame", "box") and top < lowest:
            assert any(b[0] <= left and b[1] <= top and right <= b[2] and bottom <= b[3] for b in boxes), style
    cores = [one for one in found if one[0] == "core" and one[2] < lowest]
    assert len(cores) == machine(name).cpus.cores


def test_the_picture_stands_alone(machine):
    picture = draw_svg.svg(sheet(machine("ndv4")))
    assert re.findall(r"https?://[^\"]*", picture) == ["http://www.w3.org/2000/svg"]
    for word in ("<script", "@import", "href", "url(", "<image"):
        assert word not in picture
    assert "prefers-color-scheme: dark" in picture


WORDS = st.text(max_size=40)
DEVICES = st.builds(Device, WORDS, WORDS, st.booleans())
BOXES = st.builds(
    Box,
    title=WORDS,
    memory=st.none() | WORDS,
    cores=WORDS,
    cache=st.none() | WORDS,
    groups=st.lists(
        st.builds(CoreGroup, st.lists(st.tuples(st.integers(0, 999)), min_size=1, max_size=70).map(tuple)), max_size=5
    ).map(tuple),
    pairs=st.lists(st.builds(Pair, DEVICES, st.none() | DEVICES, st.booleans()), max_size=3).map(tuple),
    infiniband=st.lists(DEVICES, max_size=3).map(tuple),
    nvme=st.lists(DEVICES, max_size=9).map(tuple),
)


@given(
    st.builds(
        Sheet,
        WORDS,
        st.lists(WORDS, max_size=4).map(tuple),
        st.lists(
            st.builds(Frame, st.none() | WORDS, st.lists(BOXES, min_size=1, max_size=5).map(tuple)), max_size=2
        ).map(tuple),
        st.lists(WORDS, max_size=2).map(tuple),
    )
)
def test_no_name_breaks_a_drawing(page):
    assert draw_text.text(page, ascii_only=True).isascii()
    ElementTree.fromstring(draw_svg.svg(page).encode("utf-8"))


# The command ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names())
def test_the_table_fits_80_columns(machine, name, capsys):
    topo.print_table(machine(name))
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert out.splitlines()[0].split() == ["NUMA", "CPUS", "MEMORY", "GPUS", "INFINIBAND", "NVME"]


def test_names_with_numbers_are_told_as_ranges():
    assert topo.ranges(["mlx5_an0", "mlx5_ib0", "mlx5_ib1", "mlx5_ib2"]) == ["mlx5_an0", "mlx5_ib0-2"]
    assert topo.ranges(["nvme0", "nvme2", "nvme3"]) == ["nvme0,nvme2-3"]
    assert topo.ranges(["0", "1", "0001:00:00.0", "ib"]) == ["0-1", "0001:00:00.0", "ib"]
    assert topo.ranges([]) == []


def test_a_terminal_that_takes_ascii_only_gets_that(gpunode):
    done = gpunode("ndv4", "--draw", LC_ALL="C")
    assert done.returncode == 0 and done.stdout.isascii() and "+- Socket 0 --" in done.stdout
    assert "┌─ Socket 0 ──" in gpunode("ndv4", "--draw", LC_ALL="C.UTF-8").stdout
    assert "+- Socket 0 --" in gpunode("ndv4", "--draw", LC_ALL="", PYTHONIOENCODING="latin-1").stdout


def test_a_picture_is_printed_or_written(gpunode, tmp_path):
    printed = gpunode("ndv4", "--svg")
    assert printed.stdout.startswith("<svg ") and printed.stdout.endswith("</svg>\n")
    done = gpunode("ndv4", "--svg", "--json")
    assert done.returncode == 0 and done.stdout.startswith("{")


def test_a_picture_goes_into_the_file_that_was_named(machine, tmp_path):
    topo.write_picture(Host(), machine("ndv4"), str(tmp_path / "node.svg"))
    assert (tmp_path / "node.svg").read_text(encoding="utf-8").startswith("<svg ")
    (tmp_path / "file").write_text("")
    with pytest.raises(NodeError, match=r"/file/node.svg: it could not be written"):
        topo.write_picture(Host(), machine("ndv4"), str(tmp_path / "file" / "node.svg"))


def test_a_picture_is_written_as_a_shell_would(machine, tmp_path):
    # /dev/null would be a file from then on: a pipe stands for it.
    os.mkfifo(str(tmp_path / "pipe"))
    reader = os.open(str(tmp_path / "pipe"), os.O_RDONLY | os.O_NONBLOCK)
    try:
        topo.write_picture(Host(), machine("ndv4"), str(tmp_path / "pipe"))
        assert os.read(reader, 5) == b"<svg "
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(os.stat(str(tmp_path / "pipe")).st_mode)
    with pytest.raises(NodeError, match="it could not be written"):
        topo.write_picture(Host(), machine("ndv4"), str(tmp_path / "misspelt" / "node.svg"))
    assert not (tmp_path / "misspelt").exists()


def test_drawing_and_picture_exclude_each_other(capsys):
    assert main.main(["topo", "--draw", "--svg", "x"]) == 2
    assert "not allowed with" in capsys.readouterr().err


def test_output_that_is_no_file_is_taken_as_plain_text(machine, monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert topo.speaks_utf8() is False
