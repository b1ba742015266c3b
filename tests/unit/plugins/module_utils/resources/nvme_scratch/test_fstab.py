# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our line in fstab: found, replaced, taken out, and every other byte kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import fstab

OURS = "1" * 32
OLD = "2" * 32
LINE = fstab.wanted(OURS, "/mnt/scratch", "xfs", ("noatime", "nofail", "x-gpu-node.scratch"))
ODD = (
    "# /etc/fstab: static file system information.\n\n\tUUID=77 / ext4\terrors=remount-ro 0 1 # root\n"
    "   # indented\n//nas/share /mnt/nas\\040share cifs credentials=/etc/c,_netdev\n"
    "#UUID=x /mnt/scratch xfs\nlonely\nproc /proc proc\r\n"
)


def edit(text, line):
    return fstab.edit(text, line, "/mnt/scratch", (OURS, OLD))


def test_the_line_names_the_file_system_by_uuid():
    assert LINE == "UUID=11111111-1111-1111-1111-111111111111 /mnt/scratch xfs noatime,nofail,x-gpu-node.scratch 0 0"


@pytest.mark.parametrize("text", ["", ODD, ODD.rstrip(), "\n", "\n\n", "x", " \t", "\r\n"])
def test_in_and_out_again_gives_the_old_bytes(text):
    with_line = edit(text, LINE)
    assert LINE in with_line.split("\n")
    assert with_line.replace(LINE, "").replace("\n", "") == text.replace("\n", "")
    assert edit(with_line, None) == text


def test_a_missing_file_becomes_one_line():
    assert edit(None, LINE) == LINE + "\n"


@pytest.mark.parametrize(
    "old",
    [
        "UUID=22222222-2222-2222-2222-222222222222 /mnt/scratch xfs defaults 0 0",
        "UUID=99 /somewhere/else xfs nofail,x-gpu-node.scratch 0 0",
        "/dev/disk/by-uuid/11111111-1111-1111-1111-111111111111  /mnt/scratch/ auto",
    ],
)
def test_a_stale_line_is_replaced_where_it_stands(old):
    assert edit("# a\n" + old + "\n# b\n", LINE) == "# a\n" + LINE + "\n# b\n"


def test_of_several_lines_of_ours_one_stays():
    stale = "UUID=99 /mnt/old xfs x-gpu-node.scratch 0 0"
    assert edit("# a\n{0}\n# b\n{0}\n{1}".format(stale, LINE), LINE) == "# a\n{0}\n# b".format(LINE)


def test_our_file_system_mounted_elsewhere_by_a_line_of_the_user_is_theirs():
    text = "UUID=11111111-1111-1111-1111-111111111111 /data xfs nofail 0 0\n"
    assert edit(text, None) == text


def test_a_mount_point_with_blanks_is_escaped_and_read_back():
    line = fstab.wanted(OURS, "/mnt/my scratch", "xfs", ("nofail",))
    assert "/mnt/my\\040scratch" in line
    assert fstab.entries(line)[0].mount_point == "/mnt/my scratch"


@given(st.text(st.characters(blacklist_categories=["Cs"]), max_size=80))
def test_any_text_survives(text):
    if any(line.ours for line in fstab.entries(text, "/mnt/scratch", (OURS, OLD))):
        return
    assert edit(edit(text, LINE), None) == text
    assert edit(edit(text, LINE), LINE) == edit(text, LINE)
