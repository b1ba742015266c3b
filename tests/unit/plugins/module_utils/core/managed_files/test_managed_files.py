# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Managed files on a real file system: ours are written, foreign ones stay, and absent leaves what was found."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import managed_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import MARKER, Wanted, WriteFile
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError

PATHS = ("/etc/a/b/one.conf", "/etc/a/two.conf", "/etc/three.conf")
OURS = MARKER + " Changes will be lost.\n"


def tree(root):
    """Every path with its kind, mode and content."""
    found = {}
    for folder, folders, files in os.walk(str(root)):
        for name in folders + files:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                found[path] = ("link", os.readlink(path))
            elif os.path.isdir(path):
                found[path] = ("folder",)
            else:
                with open(path, encoding="utf-8") as stream:
                    found[path] = ("file", stream.read())
    return found


def lay(root, path, what):
    """Put one thing where a managed file is wanted."""
    if what is None:
        return
    target = str(root) + path
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if what == "folder":
        os.makedirs(target)
    elif what == "link":
        os.symlink("/dev/null", target)
    else:
        with open(target, "w", encoding="utf-8") as stream:
            stream.write(what)


def converge(host, wanted, declared):
    """What a resource does with its files; the declaration after it."""
    files = managed_files.observe(host, [one.path for one in wanted], declared)
    writable = [one for one in wanted if not files.seen(one.path).foreign]
    actions = managed_files.write(files, writable)
    remembered = managed_files.remembered(files, [one.path for one in writable])
    for action in actions:
        assert managed_files.apply(host, action)
    return actions, remembered


def remove(host, declared):
    for action in managed_files.remove(managed_files.observe(host, (), declared)):
        managed_files.apply(host, action)


FOUND = st.sampled_from([None, None, "somebody's\n", OURS + "old\n", "folder", "link"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    found=st.tuples(FOUND, FOUND, FOUND), first=st.sets(st.sampled_from(PATHS)), second=st.sets(st.sampled_from(PATHS))
)
def test_files_come_change_and_go_and_what_is_foreign_stays(tmp_path_factory, found, first, second):
    root = tmp_path_factory.mktemp("node")
    (root / "etc").mkdir()
    for path, what in zip(PATHS, found):
        lay(root, path, what)
    before = tree(root)
    foreign = {str(root) + path for path, what in zip(PATHS, found) if what and not what.startswith(OURS)}
    host, declared = Host(str(root)), {}
    for chosen in (first, second):
        wanted = [Wanted(path, OURS + path + "\n") for path in PATHS if path in chosen]
        dummy, declared = converge(host, wanted, declared)
        assert converge(host, wanted, declared)[0] == []
        now = tree(root)
        assert all(now[path] == before[path] for path in foreign)
        assert {str(root) + one.path for one in wanted} <= set(now)
    remove(host, declared)
    after = tree(root)
    # Files of ours that an earlier life left there go with the first run that wants them; all else is as it was.
    gone = {path for path in before if path not in after}
    assert set(after) <= set(before)
    assert all(before[path][0] == "file" and before[path][1].startswith(OURS) for path in gone)
    assert all(after[path] == before[path] for path in after)


def test_the_text_for_diff_mode_is_that_of_our_files_as_found_and_as_they_will_be(tmp_path):
    lay(tmp_path, PATHS[2], OURS + "old\n")
    files = managed_files.observe(Host(str(tmp_path)), PATHS, {})
    assert managed_files.text(files) == "==> /etc/three.conf <==\n" + OURS + "old\n"
    actions = managed_files.write(files, [Wanted(PATHS[1], OURS)], keep=[PATHS[2]])
    assert managed_files.text(managed_files.after(files, actions)) == (
        "==> /etc/a/two.conf <==\n" + OURS + "==> /etc/three.conf <==\n" + OURS + "old\n"
    )


def test_a_declaration_that_somebody_edited_crashes_nothing(tmp_path):
    files = managed_files.observe(Host(str(tmp_path)), (), {"files": [7, "etc/x", "/etc/x"], "made_folders": "all"})
    assert files.former == ("/etc/x",) and files.made_folders == ()


def test_a_text_without_the_mark_is_a_mistake_of_the_programmer():
    with pytest.raises(ValueError, match="no mark"):
        Wanted("/etc/x", "plain\n")
    assert Wanted("/x", "#!/bin/sh\n" + OURS) and Wanted("/x", "<?xml version='1.0'?>\n<!-- " + MARKER[2:] + " -->\n")


def test_what_the_file_system_refuses_is_one_sentence(tmp_path):
    lay(tmp_path, "/etc/a", "a file where a folder is needed\n")
    host = Host(str(tmp_path))
    with pytest.raises(NodeError, match=r"/etc/a/b: it could not be made \(.*\); "):
        managed_files.apply(host, managed_files.MakeFolder("/etc/a/b"))


@pytest.mark.parametrize("theirs", ["somebody's\n", "link"])
def test_a_file_of_ours_that_somebody_replaced_is_theirs(tmp_path, theirs):
    host = Host(str(tmp_path))
    dummy, declared = converge(host, [Wanted(PATHS[1], OURS), Wanted(PATHS[2], OURS)], {})
    os.unlink(str(tmp_path) + PATHS[1])
    lay(tmp_path, PATHS[1], theirs)
    before = tree(tmp_path)[str(tmp_path) + PATHS[1]]
    # No longer wanted, and then nothing is: neither takes it.
    dummy, later = converge(host, [Wanted(PATHS[2], OURS)], declared)
    assert tree(tmp_path)[str(tmp_path) + PATHS[1]] == before
    for remembered in (declared, later):
        remove(host, remembered)
    assert tree(tmp_path)[str(tmp_path) + PATHS[1]] == before
    assert not os.path.exists(str(tmp_path) + PATHS[2])


TABLE = """22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:44 / {0} rw,relatime shared:9 - {1} server:/export rw
"""


@pytest.mark.parametrize("filesystem", ["nfs4", "lustre", "ext4"])
@pytest.mark.parametrize("linked", [True, False])
def test_what_other_nodes_work_with_too_is_not_taken_away_by_one_of_them(tmp_path, filesystem, linked):
    """CycleCloud's prolog.d is a link to a folder that all nodes mount."""
    host = Host(str(tmp_path))
    host.write("/proc/self/mountinfo", TABLE.format("/sched" if linked else "/etc/a", filesystem))
    if linked:
        (tmp_path / "sched/a").mkdir(parents=True)
        (tmp_path / "etc").mkdir()
        (tmp_path / "etc/a").symlink_to("../sched/a")
    dummy, declared = converge(host, [Wanted(PATHS[1], OURS), Wanted(PATHS[2], OURS)], {})
    assert managed_files.observe(host, (), declared).shared == ()
    files = managed_files.observe(host, (), declared, share=True)
    shared = filesystem != "ext4"
    assert files.shared == ((PATHS[1],) if shared else ())
    notes = managed_files.foreign_notes(files)
    assert notes == ((PATHS[1] + ": on a network file system, " + notes[0].partition(", ")[2],) if shared else ())
    for action in managed_files.remove(files):
        managed_files.apply(host, action)
    assert (tmp_path / PATHS[1][1:]).exists() == shared and not (tmp_path / PATHS[2][1:]).exists()


def test_a_file_that_another_node_has_written_meanwhile_is_not_replaced_under_its_readers(tmp_path):
    host, path = Host(str(tmp_path)), tmp_path / PATHS[0][1:]
    for text, mode, replaced in (
        (OURS, 0o644, True),
        (OURS, 0o644, False),
        (OURS, 0o755, True),
        (OURS + "x", 0o755, True),
    ):
        before = os.lstat(path).st_ino if path.exists() else 0
        managed_files.apply(host, WriteFile(PATHS[0], text, mode))
        assert (os.lstat(path).st_ino != before) is replaced and path.read_text() == text
        assert os.lstat(path).st_mode & 0o7777 == mode


def test_a_file_with_another_mode_is_given_the_wanted_one(tmp_path):
    host, wanted = Host(str(tmp_path)), Wanted("/etc/hook", "{0}\n".format(managed_files.MARKER), 0o755)
    host.write(wanted.path, wanted.text, 0o755)
    for wrong in (0o644, 0o777, 0o4755):
        os.chmod(host.path(wanted.path), wrong)
        found = managed_files.observe(host, [wanted.path], {})
        actions = managed_files.write(found, [wanted])
        assert [action.describe() for action in actions] == ["write /etc/hook"]
        for action in actions:
            managed_files.STEPS[type(action)](host, action, None)
        assert os.stat(host.path(wanted.path)).st_mode & 0o7777 == 0o755
    assert managed_files.write(managed_files.observe(host, [wanted.path], {}), [wanted]) == []
