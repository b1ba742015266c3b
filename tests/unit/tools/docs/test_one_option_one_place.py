# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An option is written in one place: a field that is added to a copy is everywhere in it after make docs."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
OPTIONS = "plugins/module_utils/resources/rdma/options.py"
FIELD = """    mtu_bytes: int = option(
        4096, "The largest packet that each port has to take.", bounds=(256, 4096), unit="bytes", example=2048
    )
"""
#: Where one of the option has to be, and the words.
PLACES = {
    "plugins/modules/rdma.py": [
        "  mtu_bytes:",
        '"mtu_bytes": {"type": "int", "default": 4096}',
        "From 256 to 4096 bytes.",
    ],
    "roles/rdma/defaults/main.yml": ["rdma_mtu_bytes: 4096"],
    "roles/rdma/meta/argument_specs.yml": ["rdma_mtu_bytes:"],
    "roles/rdma/tasks/main.yml": ['mtu_bytes: "{{ rdma_mtu_bytes }}"'],
    "roles/rdma/README.md": ["`rdma_mtu_bytes`"],
    "docs/modules/rdma.md": ["`mtu_bytes`"],
}
MADE = {"docs/declaration.schema.json"}


def copy(folder: Path) -> Path:
    top = folder / "clone"
    for name in (
        "plugins",
        "roles",
        "docs",
        "tools",
        "meta",
        "tests",
        "playbooks",
        "deploy",
        "galaxy.yml",
        "README.md",
        ".gitattributes",
    ):
        there = top / name
        there.parent.mkdir(parents=True, exist_ok=True)
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(str(source), str(there), ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copyfile(str(source), str(there))
    tree = top / ".collections/ansible_collections/trainyard/gpu_node"
    tree.mkdir(parents=True)
    for entry in top.iterdir():
        if not entry.name.startswith("."):
            (tree / entry.name).symlink_to(entry)
    return top


def files(top: Path) -> dict[str, str]:
    found = {}
    for path in sorted(top.rglob("*")):
        if path.is_file() and ".collections" not in path.parts and "__pycache__" not in path.parts:
            found[str(path.relative_to(top))] = path.read_text(encoding="utf-8", errors="replace")
    return found


def test_an_option_is_a_field_and_nothing_else(tmp_path: Path) -> None:
    top = copy(tmp_path)
    before = files(top)
    text = before[OPTIONS]
    # Behind the last field.
    end = text.index("    def ", text.index("class Desired"))
    (top / OPTIONS).write_text(text[:end].rstrip() + "\n" + FIELD + "\n" + text[end:], encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHONPATH"))}
    done = subprocess.run(
        [sys.executable, "-m", "tools.docs"],
        cwd=str(top),
        env=dict(environment, PYTHONPYCACHEPREFIX=str(tmp_path / "bytecode")),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    after = files(top)
    changed = {name for name in before if after[name] != before[name]}
    assert changed == {OPTIONS, *PLACES, *MADE} and set(after) == set(before)
    for name, words in PLACES.items():
        added = "\n".join(
            line[1:] for line in difflib.ndiff(before[name].split("\n"), after[name].split("\n")) if line[0] == "+"
        )
        for word in words:
            assert word in " ".join(added.split()) or word in added, (name, word, added)
    schema = json.loads(after["docs/declaration.schema.json"])["properties"]["rdma"]["properties"]["mtu_bytes"]
    assert (schema["type"], schema["minimum"], schema["maximum"], schema["default"]) == ("integer", 256, 4096, 4096)
