# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node command is built once, kept for the next run, and never taken where anything of it has changed."""

from __future__ import annotations

import ast
import hashlib
import os
import pathlib

import pytest

from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import zipapp

pytest.importorskip("pynvml", reason="needs nvidia-ml-py")


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Each call is a run of Ansible with a folder of its own; ``built`` are the builds."""
    kept = tmp_path / "kept"
    built = []
    monkeypatch.setattr(zipapp, "build", lambda: built.append(1) or b"zipapp %d" % len(built))

    def run():
        folder = tmp_path / "run{0}".format(len(os.listdir(str(tmp_path))))
        folder.mkdir()
        path, digest = zipapp.built_once(str(folder), str(kept))
        assert zipapp.built_once(str(folder), str(kept)) == (path, digest)
        with open(path, "rb") as stream:
            content = stream.read()
        assert hashlib.sha256(content).hexdigest() == digest
        return content

    run.kept, run.built = kept, built
    return run


def test_a_second_run_takes_what_the_first_one_built(runs):
    assert runs() == runs() == b"zipapp 1" and len(runs.built) == 1
    (only,) = runs.kept.iterdir()
    assert only.stat().st_mode & 0o077 == 0 and runs.kept.stat().st_mode & 0o077 == 0


def test_another_library_is_another_command_and_the_last_few_are_kept(runs, monkeypatch):
    for number in range(1, 7):
        monkeypatch.setattr(zipapp, "_signature", lambda: str(number))  # noqa: B023
        assert runs() == b"zipapp %d" % number
        os.utime(str(runs.kept / "gpunode-{0}.pyz".format(number)), (number, number))
    assert sorted(one.name for one in runs.kept.iterdir()) == ["gpunode-{0}.pyz".format(one) for one in (3, 4, 5, 6)]
    # Two that take turns are built once each.
    for number in (5, 6, 5):
        monkeypatch.setattr(zipapp, "_signature", lambda: str(number))  # noqa: B023
        assert runs() == b"zipapp %d" % number


def test_the_imports_of_each_module_are_those_of_its_syntax_tree():
    library = pathlib.Path(zipapp.library_folder())
    for path in library.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        parsed = [
            (node.level, node.module or "", [one.name for one in node.names])
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.ImportFrom) and node.level
        ]
        assert sorted(zipapp.imports(text)) == sorted(parsed), path


def test_what_was_damaged_is_built_anew(runs):
    runs()
    (only,) = runs.kept.iterdir()
    only.write_bytes(only.read_bytes()[:-1] + b"x")
    assert runs() == b"zipapp 2" and runs() == b"zipapp 2"


@pytest.mark.parametrize("file", [True, False])
def test_what_others_may_write_is_not_run_as_root_of_all_nodes(runs, file):
    runs()
    (only,) = runs.kept.iterdir()
    (only if file else runs.kept).chmod(0o777)
    content = b"theirs"
    only.write_bytes(content + hashlib.sha256(content).digest())
    assert runs() == b"zipapp 2"
    assert runs() == (b"zipapp 2" if file else b"zipapp 3")


def test_without_a_place_to_keep_it_each_run_builds(runs):
    runs.kept.write_text("a file where the folder would be")
    assert runs() == b"zipapp 1" and runs() == b"zipapp 2"


def test_the_signature_tells_a_changed_file(tmp_path, monkeypatch):
    library = tmp_path / "library"
    (library / "core").mkdir(parents=True)
    (library / "core" / "host.py").write_text("x = 1\n")
    monkeypatch.setattr(zipapp, "library_folder", lambda: str(library))
    first = zipapp._signature()
    assert zipapp._signature() == first
    (library / "core" / "host.pyc").write_text("")
    assert zipapp._signature() == first
    os.utime(str(library / "core" / "host.py"), (1, 1))
    second = zipapp._signature()
    (library / "core" / "new.py").write_text("")
    assert len({first, second, zipapp._signature()}) == 3
