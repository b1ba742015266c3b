# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs shellcheck on every file that git knows and that is a shell script by name or by first line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import List

from .ansible_test import ROOT, files_of_the_clone

FIRST_LINES = (b"#!/bin/sh", b"#!/bin/bash", b"#!/usr/bin/env bash", b"#!/usr/bin/env sh")


def is_shell(path: Path) -> bool:
    if path.suffix in (".sh", ".bash"):
        return True
    if path.suffix or path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.readline().strip().startswith(FIRST_LINES)


def main() -> int:
    scripts: List[str] = [name for name in files_of_the_clone() if is_shell(ROOT / name)]
    print("shellcheck: " + " ".join(scripts), flush=True)
    return subprocess.run(["shellcheck", "--external-sources", *scripts], cwd=str(ROOT), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
