# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tarballs that would write elsewhere, and tarballs that are damaged, leave nothing and end in one sentence."""

from __future__ import annotations

import os
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.hpcx.unpack import unpack
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.hpcx import hpcx_tarball

TOP = hpcx_tarball.NAME.format("2.24.1")
LINK, HARD = {"type": tarfile.SYMTYPE}, {"type": tarfile.LNKTYPE}


@pytest.mark.parametrize(
    "name, fields, told",
    [
        ("/etc/passwd", {}, "leads out of the folder"),
        (TOP + "/../../etc/passwd", {}, "leads out of the folder"),
        ("..", {}, "leads out of the folder"),
        ("other/file", {}, "more than one folder"),
        (TOP + "/null", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}, "neither file, folder nor link"),
        (TOP + "/disk", {"type": tarfile.BLKTYPE}, "neither file, folder nor link"),
        (TOP + "/pipe", {"type": tarfile.FIFOTYPE}, "neither file, folder nor link"),
        (TOP + "/out", dict(LINK, linkname="/etc"), "a link that leads out of it"),
        (TOP + "/ucx/out", dict(LINK, linkname="../../etc"), "a link that leads out of it"),
        (TOP, dict(LINK, linkname="."), "a link that leads out of it"),
        (TOP + "/hard", dict(HARD, linkname="/etc/passwd"), "leads out of the folder"),
        (TOP + "/hard", dict(HARD, linkname=TOP + "/../x"), "leads out of the folder"),
        (TOP + "/hard", dict(HARD, linkname=TOP + "/missing"), "a file that it does not hold"),
        (TOP + "/hard", dict(HARD, linkname="other/VERSION"), "a file that it does not hold"),
    ],
)
def test_a_member_that_does_not_belong_there(tmp_path, name, fields, told):
    hpcx_tarball.build(tmp_path / "x.tbz", more=[hpcx_tarball.member(name, **fields)])
    with pytest.raises(NodeError) as error:
        unpack(str(tmp_path / "x.tbz"), str(tmp_path / "target"), "the mirror")
    assert str(error.value).startswith("the mirror: ") and told in str(error.value)
    assert sorted(os.listdir(str(tmp_path))) == ["target", "x.tbz"]


def test_nothing_is_written_through_a_link(tmp_path):
    """A folder that later becomes a link, and a file behind a link: both stay inside, or are refused."""
    os.mkdir(str(tmp_path / "outside"))
    more = [
        hpcx_tarball.member(TOP + "/way", linkname="ucx", **LINK),
        hpcx_tarball.member(TOP + "/way/file", "text"),
    ]
    hpcx_tarball.build(tmp_path / "x.tbz", more=more)
    with pytest.raises((NodeError, OSError)):
        unpack(str(tmp_path / "x.tbz"), str(tmp_path / "target"), "the mirror")
    assert not os.path.exists(str(tmp_path / "target/ucx/file"))
    more = [
        hpcx_tarball.member(TOP + "/way", linkname="ucx", **LINK),
        hpcx_tarball.member(TOP + "/way/link", linkname="bin", **LINK),
    ]
    hpcx_tarball.build(tmp_path / "y.tbz", more=more)
    with pytest.raises(NodeError) as error:
        unpack(str(tmp_path / "y.tbz"), str(tmp_path / "second"), "the mirror")
    assert "lies behind a link" in str(error.value)


def test_the_last_of_two_members_of_one_name_counts_and_modes_are_tamed(tmp_path):
    more = [hpcx_tarball.member("./" + TOP + "/VERSION", "new", 0o6777), hpcx_tarball.member(TOP + "/ucx/", type=b"5")]
    hpcx_tarball.build(tmp_path / "x.tbz", more=more)
    assert unpack(str(tmp_path / "x.tbz"), str(tmp_path / "target"), "the mirror") == TOP
    assert (tmp_path / "target/VERSION").read_text() == "new"
    assert os.stat(str(tmp_path / "target/VERSION")).st_mode & 0o7777 == 0o755
    assert os.stat(str(tmp_path / "target/VERSION")).st_mtime == 1700000000


@pytest.mark.parametrize("suffix, mode", [(".tbz", "w:bz2"), (".tar.gz", "w:gz"), (".tar.xz", "w:xz")])
@pytest.mark.parametrize("keep", [0.0, 0.3, 0.7])
def test_a_tarball_cut_short(tmp_path, suffix, mode, keep):
    path = tmp_path / ("x" + suffix)
    hpcx_tarball.build(path, mode=mode)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(NodeError) as error:
        unpack(str(path), str(tmp_path / "target"), "the mirror")
    assert "it cannot be unpacked" in str(error.value)


@settings(max_examples=30)
@given(st.binary(max_size=200), st.integers(0, 400))
def test_any_damage_ends_in_one_sentence(tmp_path_factory, junk, at):
    folder = tmp_path_factory.mktemp("damage")
    hpcx_tarball.build(folder / "x.tbz")
    content = (folder / "x.tbz").read_bytes()
    (folder / "x.tbz").write_bytes(content[:at] + junk + content[at + len(junk) :])
    try:
        assert unpack(str(folder / "x.tbz"), str(folder / "target"), "the mirror") == TOP
    except NodeError as error:
        assert "\n" not in str(error)
