# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rooms of the library: nothing imports upwards, and no two packages import each other, lazily or not."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

LIBRARY = Path(__file__).resolve().parents[4] / "plugins" / "module_utils"
# From the ground up. docs/architecture.md has a sentence on each.
ROOMS = (
    "core",
    "facts",
    "slurm",
    "placement",
    "gpus",
    "kubernetes",
    "checkpoints",
    "metrics",
    "health",
    "jobs",
    "resources",
    "node",
    "command",
    "front",
)


@functools.lru_cache(maxsize=None)
def imports(library: Path) -> dict[str, set[str]]:
    """The modules that each module imports, by dotted names below ``library``; packages for names of an __init__."""
    names = {path.relative_to(library).with_suffix("") for path in library.rglob("*.py")}
    known = {".".join(name.parts[:-1] if name.name == "__init__" else name.parts) for name in names}
    found: dict[str, set[str]] = {}
    for name in names:
        package = name.parts[:-1]
        text = (library / name.with_suffix(".py")).read_text(encoding="utf-8")
        here = found.setdefault(".".join(package if name.name == "__init__" else name.parts), set())
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = (*package[: len(package) - node.level + 1], *(node.module or "").split("."))
                source = ".".join(part for part in base if part)
                for alias in node.names:
                    longer = source + "." + alias.name if source else alias.name
                    here.add(longer if longer in known else source)
    return found


def upwards(library: Path) -> list[str]:
    return sorted(
        "{0} imports {1}".format(one, other)
        for one, others in imports(library).items()
        for other in others
        if one and ROOMS.index(other.split(".")[0]) > ROOMS.index(one.split(".")[0])
    )


def circles(library: Path) -> list[list[str]]:
    """Sets of packages (room.package, or room.module) of which each can be reached from each other one."""
    edges: dict[str, set[str]] = {}
    for one, others in imports(library).items():
        here = edges.setdefault(".".join(one.split(".")[:2]), set())
        here.update(".".join(other.split(".")[:2]) for other in others)

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        pending = [start]
        while pending:
            for other in edges.get(pending.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    pending.append(other)
        return seen

    reach = {one: reached(one) for one in edges}
    found = {
        frozenset(other for other in reach[one] if one in reach.get(other, ())) - {""}
        for one in edges
        if one in reach[one]
    }
    return sorted(sorted(some) for some in found if len(some) > 1)


def test_the_rooms_are_all_that_there_is():
    assert {path.name for path in LIBRARY.iterdir() if path.name != "__pycache__"} == set(ROOMS)


def test_nothing_imports_upwards():
    assert upwards(LIBRARY) == []


def test_no_packages_import_each_other():
    assert circles(LIBRARY) == []


@pytest.mark.parametrize(
    "text, told",
    [
        ("from ..health import verdict\n", 1),
        ("def act():\n    from ..health.verdict import one\n", 1),
        ("import os\n", 0),
    ],
)
def test_an_import_upwards_is_seen_wherever_it_stands(tmp_path, text, told):
    for folder in ("slurm", "health"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    (tmp_path / "health" / "verdict.py").write_text("from ..slurm import client\none = 1\n")
    (tmp_path / "slurm" / "client.py").write_text(text)
    assert len(upwards(tmp_path)) == told and len(circles(tmp_path)) == told
