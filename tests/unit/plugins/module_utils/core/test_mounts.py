# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of mounts, with any name in it."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import mounts
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host


def test_blanks_in_the_mount_point_and_optional_fields():
    text = "36 35 9:127 / /mnt/my\\040scratch rw,noatime shared:7 master:2 - xfs /dev/md127 rw,attr2\n"
    text += "37 36 0:5 /sub /data ro - ext4 /dev/sda1 rw\nodd\n"
    first, second = mounts.parse(text)
    assert (first.point, first.device, first.writable, first.root) == ("/mnt/my scratch", "9:127", True, "/")
    assert first.options == ("rw", "noatime", "attr2")
    assert (second.writable, second.root, second.parent_id) == (False, "/sub", first.mount_id)


def escaped(text):
    """As mangle_path and seq_path of the kernel (fs/seq_file.c, fs/proc_namespace.c)."""
    return "".join("\\{0:03o}".format(ord(one)) if one in " \t\n\\#" else one for one in text)


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1, max_size=30)


@given(st.lists(st.tuples(NAMES, NAMES), max_size=5), st.integers(0, 2000))
def test_any_names_are_read_as_they_were_and_a_table_that_is_cut_short_adds_none(names, length):
    lines = [
        "{0} 1 0:{0} / /{1} rw,relatime - tmpfs {2} rw,size=1k\n".format(number, escaped(point), escaped(source))
        for number, (point, source) in enumerate(names, 20)
    ]
    found = mounts.parse("".join(lines))
    assert [(one.point, one.source) for one in found] == [("/" + point, source) for point, source in names]
    cut = mounts.parse("".join(lines)[:length])
    assert [one.point for one in cut] == ["/" + point for point, _source in names[: len(cut)]]


def test_only_a_part_of_a_long_table_is_read(tmp_path):
    (tmp_path / "proc/7").mkdir(parents=True)
    line = "36 35 0:5 / /mnt/{0} rw - tmpfs none rw\n"
    (tmp_path / "proc/7/mountinfo").write_text("".join(line.format(number) for number in range(10000)))
    host = Host(str(tmp_path))
    assert len(mounts.read(host, 7)) == 10000
    assert 0 < len(mounts.read(host, 7, 4096)) < 4096 / 30


def test_this_machine():
    assert mounts.at(mounts.read(Host()), "/proc").filesystem == "proc"
    assert mounts.read(Host(), os.getpid()) == mounts.read(Host())


def test_swaps(tmp_path):
    (tmp_path / "proc").mkdir()
    table = "Filename Type Size Used Priority\n/dev/nvme0n1p2 partition 1 0 -2\n/a\\040b file 1 0 -3\n"
    (tmp_path / "proc/swaps").write_text(table)
    found = mounts.swaps(Host(str(tmp_path)))
    assert found == (mounts.Swap("/dev/nvme0n1p2", 1024, 0), mounts.Swap("/a b", 1024, 0))
