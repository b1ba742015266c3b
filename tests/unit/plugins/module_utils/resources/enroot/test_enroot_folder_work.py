# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders of users on a real file system, against what users may have put there before."""

from __future__ import annotations

import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.root_folders import TRASH
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import folder_work
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.user_folders import of_user

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="it gives folders to another user, which needs root")
SECTION = {
    "user_folders": [
        {"purpose": "runtime", "path": "/run/enroot/user-{uid}", "top": "/run/enroot", "remove": True},
        {"purpose": "cache", "path": "/scratch/enroot/cache/{uid}", "top": "/scratch/enroot", "remove": False},
        {"purpose": "data", "path": "/scratch/enroot/data/{uid}", "top": "/scratch/enroot", "remove": True},
    ]
}
FOLDERS = of_user(SECTION, 1000)


@pytest.fixture
def node(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch").chmod(0o1777)
    return tmp_path


def seen(path):
    found = os.lstat(str(path))
    return found.st_uid, found.st_gid, found.st_mode & 0o7777


def test_they_are_the_users_alone_and_those_above_are_roots(node):
    before = os.umask(0o777)
    try:
        folder_work.make(Host(str(node)), FOLDERS, 1000, 1001)
    finally:
        os.umask(before)
    for path in ("run/enroot/user-1000", "scratch/enroot/cache/1000", "scratch/enroot/data/1000"):
        assert seen(node / path) == (1000, 1001, 0o700)
    for path in ("run/enroot", "scratch/enroot", "scratch/enroot/cache", "scratch/enroot/data"):
        assert seen(node / path) == (0, 0, 0o711)


def test_again_keeps_what_is_in_them_and_mends_their_mode(node):
    folder_work.make(Host(str(node)), FOLDERS, 1000, 1000)
    (node / "scratch/enroot/data/1000/container").write_text("x")
    (node / "scratch/enroot/data/1000").chmod(0o777)
    folder_work.make(Host(str(node)), FOLDERS, 1000, 1000)
    assert seen(node / "scratch/enroot/data/1000") == (1000, 1000, 0o700)
    assert (node / "scratch/enroot/data/1000/container").read_text() == "x"


def test_after_the_last_job_what_is_kept_stays(node):
    host = Host(str(node))
    folder_work.make(host, FOLDERS, 1000, 1000)
    folder_work.make(host, of_user(SECTION, 1002), 1002, 1002)
    (node / "scratch/enroot/data/1000/a").mkdir()
    (node / "scratch/enroot/data/1000/a/link").symlink_to("/etc")
    folder_work.remove(host, FOLDERS)
    folder_work.remove(host, FOLDERS)
    assert sorted(set(os.listdir(str(node / "scratch/enroot/data"))) - {TRASH}) == ["1002"]
    assert set(os.listdir(str(node / "run/enroot"))) - {TRASH} == {"user-1002"}
    assert set(os.listdir(str(node / "scratch/enroot/cache"))) - {TRASH} == {"1000", "1002"}


def test_a_top_that_a_user_made_first_is_moved_aside_and_not_used(node):
    planted = node / "scratch/enroot/data/1000"
    planted.mkdir(parents=True)
    (planted / "container").write_text("planted")
    os.chown(str(node / "scratch/enroot"), 1002, 1002)
    folder_work.make(Host(str(node)), FOLDERS, 1000, 1000)
    assert os.listdir(str(node / "scratch/enroot/data/1000")) == []
    aside = [one for one in os.listdir(str(node / "scratch")) if one.startswith("enroot.moved-aside-")]
    assert (node / "scratch" / aside[0] / "data/1000/container").read_text() == "planted"


@pytest.mark.parametrize("name", ["scratch/enroot", "scratch/enroot/data", "scratch/enroot/data/1000"])
def test_no_link_is_followed(node, name):
    elsewhere = node / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("x")
    (node / name).parent.mkdir(parents=True, exist_ok=True)
    (node / name).symlink_to(elsewhere)
    folder_work.make(Host(str(node)), FOLDERS, 1000, 1000)
    assert os.listdir(str(elsewhere)) == ["mine"] and seen(elsewhere)[0] == 0
    assert seen(node / "scratch/enroot/data/1000") == (1000, 1000, 0o700)


def test_a_link_is_not_followed_when_they_are_removed(node):
    folder_work.make(Host(str(node)), FOLDERS, 1000, 1000)
    (node / "scratch/enroot").rename(node / "scratch/other")
    (node / "scratch/enroot").symlink_to(node / "scratch/other")
    with pytest.raises(NodeError, match="it could not be removed"):
        folder_work.remove(Host(str(node)), FOLDERS)
    assert (node / "scratch/other/data/1000").is_dir()


def test_a_scratch_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(NodeError, match="/run/enroot/user-1000: it could not be made .*; look at that folder as root"):
        folder_work.make(Host(str(tmp_path)), FOLDERS, 1000, 1000)
