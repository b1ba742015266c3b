# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Training programs of PyPI that tests run: for each a Python environment in the user's cache, of its own, since what
they need would pin what the project needs. It is made when a test first wants it, so no setup waits for it."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from ..virtual_node.virtual_machine import places

REQUIREMENTS = Path(__file__).resolve().parent / "requirements"
SECONDS = 1200.0


class CachedError(Exception):
    """What could not be had, why, and the remedy."""


def folder(name: str, lists: Path = REQUIREMENTS) -> Path:
    """The environment for ``requirements/NAME.txt``, for this Python."""
    digest = hashlib.sha256((lists / (name + ".txt")).read_bytes()).hexdigest()[:12]
    return places.cache() / "{0}-{1}-python{2}.{3}".format(name, digest, *sys.version_info[:2])


def programs(name: str, lists: Path = REQUIREMENTS) -> Path:
    """The folder of the environment's programs; the first call makes it.

    :raises CachedError: pip fails.
    """
    target = folder(name, lists)
    whole = target / "whole"
    with places.lock(target.with_name(target.name + ".lock"), "another run that installs {0}".format(name)):
        # One whose interpreter is gone is made anew.
        if not (whole.exists() and (target / "bin" / "python").exists()):
            shutil.rmtree(target, ignore_errors=True)
            # Programs hold the path of their environment, so it is made where it stays; the file says that it is whole.
            _run(name, ["-m", "venv", "--without-pip", str(target)])
            command = ["-m", "pip", "--python", str(target / "bin" / "python"), "install", "--quiet"]
            command += ["--disable-pip-version-check", "--progress-bar=off"]
            _run(name, [*command, "--requirement", str(lists / (name + ".txt"))])
            whole.touch()
    return target / "bin"


def _run(name: str, words: "list[str]") -> None:
    try:
        done = subprocess.run(
            [sys.executable, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise CachedError("{0}: pip took longer than {1:.0f} s; check the network".format(name, SECONDS)) from None
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        told = next((line for line in reversed(lines) if line.startswith("ERROR:")), (lines or ["no message"])[-1])
        raise CachedError("{0}: pip failed ({1}); check the network and the package index".format(name, told.strip()))
