# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which processes use a directory, beside users that have very many files open."""

from __future__ import annotations

import os

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import open_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host


def process(root, pid, uid, files):
    folder = root / "proc" / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "status").write_text("Uid:\t{0}\t{0}\t{0}\t{0}\n".format(uid))
    for number, path in enumerate(files):
        (folder / "fd" / str(number)).symlink_to(path)


def test_many_open_files_of_one_user_cost_a_bounded_time_and_hide_no_files_of_others(tmp_path, monkeypatch):
    monkeypatch.setattr(open_files, "_MOST_FILES", 10)
    for pid in range(100, 110):
        process(tmp_path, pid, 1000, ["/dev/null"] * 50)
    process(tmp_path, 200, 1001, ["/tmp/a/file"])
    links = []
    readlink = os.readlink
    monkeypatch.setattr(os, "readlink", lambda path, **more: links.append(path) or readlink(path, **more))
    assert open_files.open_below(Host(str(tmp_path)), ("/tmp/a", "/tmp/b")) == (frozenset(["/tmp/a"]), True)
    assert len([one for one in links if "/fd/" in str(one)]) == 11


def test_the_files_that_daemons_of_root_have_open_all_count(tmp_path, monkeypatch):
    monkeypatch.setattr(open_files, "_MOST_FILES", 10)
    process(tmp_path, 100, 0, ["/dev/null"] * 50)
    process(tmp_path, 200, 0, ["/tmp/a/core.1"])
    assert open_files.open_below(Host(str(tmp_path)), ("/tmp/a", "/tmp/b")) == (frozenset(["/tmp/a"]), True)


def test_a_look_at_each_process_reads_all_of_its_files(tmp_path, monkeypatch):
    """A reset of a GPU must know each process that has its device file open."""
    monkeypatch.setattr(open_files, "_MOST_FILES", 10)
    process(tmp_path, 100, 1000, ["/dev/null"] * 50 + ["/dev/nvidia0"])
    ((_pid, used, whole),) = open_files.each(Host(str(tmp_path)))
    assert "/dev/nvidia0" in used and whole


def test_a_name_with_the_mark_of_a_deleted_file_hides_no_use(tmp_path):
    """The kernel appends " (deleted)" to the path of a deleted file, and a user may give a directory such a name."""
    process(tmp_path, 100, 1000, ["/tmp/a (deleted)/file", "/tmp/b (deleted)", "/tmp/c (deleted)/x (deleted)"])
    paths = ("/tmp/a", "/tmp/a (deleted)", "/tmp/b", "/tmp/b (deleted)", "/tmp/c (deleted)")
    found, complete = open_files.open_below(Host(str(tmp_path)), paths)
    assert complete and found == set(paths) - {"/tmp/a"}


def test_a_device_that_a_process_has_open_is_among_its_descriptors(tmp_path):
    with open(tmp_path / "file", "w") as stream:
        path = "/proc/{0}/task/{0}/fd/{1}".format(os.getpid(), stream.fileno())
        assert path in list(open_files.descriptors(Host(), os.getpid()))
        assert str(tmp_path / "file") in open_files.of_process(Host(), os.getpid())[0]
        assert len(open_files.of_process(Host(), os.getpid(), 1)[0]) <= 4
