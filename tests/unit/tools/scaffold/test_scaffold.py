# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make new-resource`, `make new-check` and `make new-command`, each in a copy of the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.tools.scaffold import __main__ as scaffold

ROOT = Path(__file__).resolve().parents[4]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "build", ".hypothesis", ".*_cache", "__pycache__", "output")
NAMES = {"resource": "burn_in", "check": "hung_tasks", "command": "uptime"}


@pytest.fixture
def copy(tmp_path):
    root = tmp_path / "clone"
    shutil.copytree(ROOT, root, symlinks=True, ignore=LEFT_OUT)
    yield root
    shutil.rmtree(root)


def python(root, *words):
    done = subprocess.run(
        [sys.executable, "-B", "-m", *words], cwd=root, capture_output=True, text=True, check=False, timeout=300
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(("kind", "name"), NAMES.items())
def test_what_is_created_passes_all_tests_but_the_one_to_be_written(copy, kind, name):
    status, told = python(copy, "tools.scaffold", kind, name)
    assert status == 0 and "\n1. Describe" in told, told
    beside = ["tests/unit/plugins/module_utils/test_layers.py"]
    if kind == "resource":  # its module has no options before
        assert python(copy, "tools.docs")[0] == 0
        beside.append("tests/unit/plugins/module_utils/core/test_registry.py")
    files = [line for line in told.split("\n\n")[0].splitlines() if line.endswith(".py")]
    tests = [path for path in files if os.path.basename(path).startswith("test_")]
    assert python(copy, "ruff", "check", *files)[0] == python(copy, "ruff", "format", "--check", *files)[0] == 0
    status, told = python(copy, "pytest", "-q", "-p", "no:cacheprovider", *tests, *beside)
    assert re.findall(r"^FAILED \S+::(\w+)", told, re.MULTILINE) == [
        {"resource": "test_it_does_what_it_is_for", "check": "test_it_finds_what_it_is_for"}.get(
            kind, "test_it_prints_what_it_is_for"
        )
    ], told
    # A second one of the same name changes nothing.
    before = {path: (copy / path).read_text("utf-8") for path in files}
    status, told = python(copy, "tools.scaffold", kind, name)
    assert status == 1 and "it exists; choose another name" in told and "Traceback" not in told
    assert before == {path: (copy / path).read_text("utf-8") for path in files}


@pytest.mark.parametrize("name", ["", "Burn", "burn-in", "1st", "burn__in", "../x", "class", "a" * 3 + " b"])
def test_an_invalid_name_is_refused(tmp_path, name):
    with pytest.raises(scaffold.ScaffoldError, match="it is not a valid name; use lower-case letters"):
        scaffold.create(tmp_path, "resource", name)
    assert list(tmp_path.iterdir()) == []


def test_the_name_of_another_check_is_refused(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "galaxy.yml").write_text("version: 0.1.0\n")
    (tmp_path / "docs/health_checks.md").write_text("| `memory_swap`, `hung` | passive | x |\n")
    with pytest.raises(scaffold.ScaffoldError, match="hung: there is a check of this name"):
        scaffold.create(tmp_path, "check", "hung")


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("a\nfrom x import (\n    b,\n    d,\n)\n", "sorted", "a\nfrom x import (\n    b,\n    c,\n    d,\n)\n"),
        ("a\nfrom x import (\n)\n", "sorted", "a\nfrom x import (\n    c,\n)\n"),
        ("a\nend here\n", "before", "a\n    c,\nend here\n"),
    ],
)
def test_a_line_goes_to_its_place(text, kind, told):
    place = {"sorted": {"sorted_after": "from x import ("}, "before": {"before": "end"}}[kind]
    assert scaffold.inserted(text, scaffold.Insertion("x", "", **place), "    c,") == told


@pytest.mark.parametrize("text", ["", "a\n", "a\nend\nend\n"])
def test_a_place_that_is_not_there_once_is_an_error(text):
    with pytest.raises(scaffold.ScaffoldError, match="'end' must be in it once"):
        scaffold.inserted(text, scaffold.Insertion("x", "", before="end"), "    c,")
