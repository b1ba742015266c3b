# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trees are removed whole, and nothing that is mounted in one is; and what diff mode shows of them."""

from __future__ import annotations

import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import mounts, trees
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "tree/data").mkdir(parents=True)
    (tmp_path / "tree/data/set").write_text("x")
    (tmp_path / "tree-2").mkdir()
    return tmp_path / "tree"


def mounted(monkeypatch, point):
    table = (mounts.Mount(os.path.realpath(str(point)), "0:1", "nfs4", "server:/sets", True),)
    monkeypatch.setattr(mounts, "read", lambda host: table)


@pytest.mark.parametrize("below", [".", "data"])
@pytest.mark.parametrize("taken", [trees.remove, lambda path: trees.take_away(Host("/"), path)])
def test_what_is_mounted_in_a_tree_keeps_its_files_and_the_tree_its_name(tree, monkeypatch, below, taken):
    mounted(monkeypatch, tree / below)
    with pytest.raises(NodeError, match="could not be removed .server:/sets is mounted at .*tree"):
        with trees.said(str(tree), "removed"):
            taken(str(tree))
    assert (tree / "data/set").exists()


def test_a_mount_beside_it_is_in_nobodys_way(tree, monkeypatch):
    mounted(monkeypatch, tree.parent / "tree-2")
    trees.take_away(Host("/"), str(tree))
    assert os.listdir(str(tree.parent)) == ["tree-2"]


def test_what_diff_mode_shows_are_the_trees_and_the_links_as_they_will_be():
    links = [trees.Link("/t/a", "link", "1"), trees.Link("/t/b", "link", "1"), trees.Link("/t/c", "other")]
    steps = [trees.PointLink("/t/a", "2"), trees.RemoveLink("/t/b"), trees.RemoveLeftover("/t/d")]
    assert trees.shown(links, {"/t/2", "/t/1"}, ()) == "/t/1\n/t/2\n/t/a -> 1\n/t/b -> 1\n"
    assert trees.shown(links, {"/t/2"}, steps) == "/t/2\n/t/a -> 2\n"
