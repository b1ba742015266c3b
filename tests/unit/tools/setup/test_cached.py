# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Training programs in the cache: made once, made anew where they are half or their Python is gone, failures told."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.tools.setup import cached


@pytest.fixture(name="lists")
def _lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of requirements, a package with a program that needs no index, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    info = "board-1.dist-info/"
    with zipfile.ZipFile(tmp_path / "board-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("board.py", "def main():\n    print('it runs')\n")
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: board\nVersion: 1\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "entry_points.txt", "[console_scripts]\nboard = board:main\n")
        wheel.writestr(info + "RECORD", "")
    (tmp_path / "board.txt").write_text("board==1\n", encoding="utf-8")
    return tmp_path


def test_it_is_made_once_and_anew_when_it_is_half_or_wanted_otherwise(lists: Path) -> None:
    programs = cached.programs("board", lists)
    assert subprocess.run([str(programs / "board")], capture_output=True, check=True).stdout == b"it runs\n"
    mark = programs / "kept"
    mark.touch()
    assert cached.programs("board", lists) == programs and mark.exists()
    (programs.parent / "whole").unlink()
    assert cached.programs("board", lists) == programs and not mark.exists()
    mark.touch()
    (programs / "python").unlink()
    assert cached.programs("board", lists) == programs and not mark.exists()
    (lists / "board.txt").write_text("# as before\nboard==1\n", encoding="utf-8")
    assert cached.programs("board", lists) != programs


def test_what_pip_does_not_find_is_told_and_tried_again(lists: Path) -> None:
    (lists / "board.txt").write_text("board==2\n", encoding="utf-8")
    with pytest.raises(cached.CachedError, match=r"^board: pip failed \(ERROR: .*board==2.*\); check the network"):
        cached.programs("board", lists)
    with pytest.raises(cached.CachedError, match="board==2"):
        cached.programs("board", lists)
