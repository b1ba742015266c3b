# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a bundle to a tree that runs, in real folders, also when it is ended in between."""

from __future__ import annotations

import itertools
import os
import stat
import subprocess
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import sums, unpack
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.wheels import Interpreter, choose, libc_of
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.node.small_bundle import (
    HERE,
    SITE,
    WHEEL,
    make,
)


@pytest.fixture
def copied(tmp_path):
    return make(tmp_path / "copied")


@pytest.fixture
def parent(tmp_path):
    return tmp_path / "opt" / "bundle"


def done(copied, parent, interpreter=HERE):
    return unpack.unpack(unpack.read(str(copied)), interpreter, str(parent))


def test_a_bundle_becomes_a_tree_and_the_second_time_nothing_is_written(copied, parent):
    tree = done(copied, parent)
    assert os.path.realpath(parent / "current") == tree
    assert (parent / "current" / SITE).read_text() == "- hosts: all\n"
    assert sorted(sums.files(tree)) == sorted(
        ["SHA256SUMS", "converge", "converge.pyz", "installed.json", "version", "library/thing/__init__.py", SITE]
        + [name for name in sums.files(tree) if name.endswith(".pyc")]
    )
    assert unpack.is_tree(tree) and unpack.is_whole(tree) and not unpack.is_tree(str(copied))
    before = {name: os.stat(os.path.join(tree, name)).st_mtime_ns for name in sums.files(tree)}
    assert done(copied, parent) == tree
    assert {name: os.stat(os.path.join(tree, name)).st_mtime_ns for name in sums.files(tree)} == before


def test_what_root_executes_is_not_writable_by_others_whatever_the_umask(copied, parent):
    kept = os.umask(0)
    try:
        tree = done(copied, parent)
    finally:
        os.umask(kept)
    for folder, folders, names in os.walk(tree):
        for path in [os.path.join(folder, name) for name in [""] + folders + names]:
            assert not os.stat(path).st_mode & (stat.S_IWGRP | stat.S_IWOTH), path


def test_python_runs_from_the_tree_and_leaves_it_as_it_is(copied, parent):
    tree = done(copied, parent)
    code = "import sys; sys.path.insert(0, {0!r}); import thing; print(thing.x)".format(tree + "/library")
    answer = subprocess.run([sys.executable, "-I", "-B", "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "1\n"
    assert unpack.is_whole(tree)


@pytest.mark.parametrize("name", ["converge", "converge.pyz", "version", "wheels/" + WHEEL, "wheels/index.json"])
def test_a_flipped_byte_is_refused_and_named(copied, parent, name):
    content = bytearray((copied / name).read_bytes())
    content[-2] ^= 1
    (copied / name).write_bytes(bytes(content))
    with pytest.raises(NodeError, match=name + " is damaged"):
        done(copied, parent)
    assert not parent.exists()


def test_a_missing_file_and_one_too_many_are_refused_and_named(copied, parent):
    (copied / "wheels" / WHEEL).unlink()
    (copied / "wheels" / "other.whl").write_text("x")
    with pytest.raises(NodeError, match="{0} is missing; wheels/other.whl does not belong to it".format(WHEEL)):
        done(copied, parent)


def test_a_link_in_the_place_of_a_file_is_refused(copied, parent, tmp_path):
    os.rename(copied / "converge", tmp_path / "elsewhere")
    (copied / "converge").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NodeError, match="converge is damaged"):
        done(copied, parent)


@pytest.mark.parametrize(
    "line",
    ["", "0", "x" * 64 + "  a", "0" * 64 + "  ../a", "0" * 64 + "  a/../../b", "0" * 64 + "  /a", "0" * 64 + " a"],
)
def test_a_damaged_line_of_the_sums_is_refused(line):
    with pytest.raises(NodeError, match="is damaged"):
        sums.parse("1" * 64 + "  right\n" + line + "\n")


def test_a_folder_that_is_no_bundle_is_refused(tmp_path, parent):
    with pytest.raises(NodeError, match="it is no whole bundle"):
        done(tmp_path, parent)


def test_a_wheel_that_leads_out_of_its_folder_is_refused(tmp_path, parent):
    copied = make(tmp_path / "bad", wheel={"../../outside.py": "x"})
    with pytest.raises(NodeError, match="leads out of its folder"):
        done(copied, parent)
    assert not (tmp_path / "opt" / "outside.py").exists()


def test_a_file_that_changes_after_it_was_verified_is_not_unpacked(copied, parent):
    bundle = unpack.read(str(copied))
    (copied / "converge").write_bytes(b"#!/bin/sh\nrm -rf /\n")
    with pytest.raises(NodeError, match="it was changed while it was unpacked"):
        unpack.unpack(bundle, HERE, str(parent))
    assert not (parent / "current").exists()


def words(copied, parent):
    bundle = unpack.read(str(copied))
    return unpack.steps(bundle, HERE, str(parent), unpack.place(bundle, HERE, str(parent)))


@pytest.mark.parametrize("older", [False, True])
def test_ended_after_any_step_there_is_the_old_tree_or_the_new_one_and_the_next_run_mends_it(tmp_path, copied, older):
    ends = len(list(words(copied, tmp_path / "count")))
    assert ends >= 9
    for end in range(ends + 1):
        parent = tmp_path / "opt{0}{1}".format(end, older)
        old = done(make(tmp_path / "old", "1.2.2", "- hosts: old\n"), parent) if older else None
        list(itertools.islice(words(copied, parent), end))
        for name in os.listdir(parent) if parent.exists() else ():
            assert name.startswith(".new-") or unpack.is_whole(str(parent / name)), (end, name)
        assert os.path.realpath(parent / "current") == (old or str(parent / "current"))
        tree = done(copied, parent)
        assert unpack.is_whole(tree) and sorted(os.listdir(parent)) == sorted(["current", os.path.basename(tree)])


def test_killed_at_any_moment_the_next_run_mends_it(tmp_path, copied):
    """The same with a process and SIGKILL: no exception handler, no buffer that is written at the end."""
    parent = tmp_path / "opt"
    code = (
        "import os, sys\n"
        "from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import unpack, wheels\n"
        "b = unpack.read(sys.argv[1]); i = wheels.Interpreter((3, 11), 'x86_64', (2, 36))\n"
        "for n, dummy in enumerate(unpack.steps(b, i, sys.argv[2], unpack.place(b, i, sys.argv[2]))):\n"
        "    if n == int(sys.argv[3]): os.kill(os.getpid(), 9)\n"
    )
    for end in (0, 3, 5, 7):
        command = [sys.executable, "-c", code, str(copied), str(parent), str(end)]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
        assert subprocess.run(command, env=environment, check=False).returncode == -9
        assert not (parent / "current").exists()
    assert unpack.is_whole(done(copied, parent))


def test_every_file_is_on_the_disk_before_it_takes_its_place(copied, parent, monkeypatch):
    """Or a power cut would leave a tree of the right name with empty files."""
    synced, before = set(), {}
    fsync, rename = os.fsync, os.rename

    def spied_fsync(handle):
        synced.add(os.readlink("/proc/self/fd/{0}".format(handle)))
        fsync(handle)

    def spied_rename(source, target):
        before[target] = set(synced)
        rename(source, target)

    monkeypatch.setattr(os, "fsync", spied_fsync)
    monkeypatch.setattr(os, "rename", spied_rename)
    tree = done(copied, parent)
    temporary = os.path.join(str(parent), ".new-" + os.path.basename(tree))
    wanted = {os.path.join(temporary, name) for name in sums.files(tree)}
    wanted |= {os.path.normpath(os.path.join(temporary, os.path.relpath(found[0], tree))) for found in os.walk(tree)}
    assert wanted <= before[tree], wanted - before[tree]
    assert str(parent) in synced - before[tree]


def test_there_is_a_current_tree_at_every_moment(tmp_path, copied, parent, monkeypatch):
    done(make(tmp_path / "older", version="0.0.9"), parent)
    link = parent / "current"
    for name in ("unlink", "rename", "symlink"):
        call = getattr(os, name)

        def spied(*arguments, call=call, **options):
            call(*arguments, **options)
            assert os.path.isdir(link), arguments

        monkeypatch.setattr(os, name, spied)
    tree = done(copied, parent)
    assert os.path.realpath(link) == tree


def test_a_damaged_tree_is_replaced(copied, parent):
    tree = done(copied, parent)
    with open(os.path.join(tree, SITE), "a") as stream:
        stream.write("# changed\n")
    assert not unpack.is_whole(tree)
    assert done(copied, parent) == tree and unpack.is_whole(tree)


def test_another_version_takes_the_place_of_the_one_before(tmp_path, copied, parent):
    done(copied, parent)
    tree = done(make(tmp_path / "newer", "1.3.0"), parent)
    assert sorted(os.listdir(parent)) == sorted(["current", os.path.basename(tree)])
    assert os.path.basename(tree).startswith("1.3.0-")
    # The same version with other content is another tree.
    again = done(make(tmp_path / "other", "1.3.0", play="- hosts: none\n"), parent)
    assert again != tree and os.path.realpath(parent / "current") == again


def test_a_tree_for_another_python_says_so(copied, parent):
    tree = done(copied, parent)
    unpack.check_interpreter(tree, HERE)
    with pytest.raises(NodeError, match="unpacked for cp311-x86_64, and Python is cp313-x86_64 now"):
        unpack.check_interpreter(tree, Interpreter((3, 13), "x86_64", (2, 41)))


@pytest.mark.parametrize(
    ("interpreter", "message"),
    [
        (Interpreter((3, 9), "x86_64", (2, 36)), "Python 3.9 on x86_64: this bundle has no wheels for it"),
        (Interpreter((3, 11), "riscv64", (2, 36)), "Python 3.11 on riscv64: this bundle has no wheels for it"),
        (Interpreter((3, 11), "aarch64", (2, 27)), "it needs version 2.28 of the GNU C library"),
        (Interpreter((3, 11), "aarch64", None), "it needs version 2.28 of the GNU C library"),
    ],
)
def test_a_machine_that_the_bundle_does_not_fit_is_told(interpreter, message):
    index = {"cp311-x86_64": [WHEEL], "cp311-aarch64": [WHEEL, "c-50-cp311-abi3-manylinux_2_28_aarch64.whl"]}
    assert choose(index, HERE) == [WHEEL]
    with pytest.raises(NodeError, match=message):
        choose(index, interpreter)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("jinja2-3.1.6-py3-none-any.whl", None),
        ("cffi-2.1.1-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", (2, 17)),
        ("x-1-cp311-cp311-manylinux2014_x86_64.whl", (2, 17)),
        ("x-1-cp311-cp311-manylinux2014_aarch64.manylinux_2_17_aarch64.manylinux_2_28_aarch64.whl", (2, 17)),
        ("cryptography-50.0.2-cp311-abi3-manylinux_2_28_x86_64.whl", (2, 28)),
        ("x-1-cp311-cp311-musllinux_1_2_x86_64.whl", (99, 0)),
    ],
)
def test_the_c_library_that_a_wheel_needs(name, expected):
    assert libc_of(name) == expected
