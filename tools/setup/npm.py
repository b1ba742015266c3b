# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of npm in the user's cache: too large for each clone, so npm installs them when a test first wants them."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Sequence

from ..virtual_node.virtual_machine import places

SECONDS = 900.0


class NpmError(Exception):
    """What could not be had, why, and the remedy."""


def install(thing: str, target: Path, package: Path) -> Path:
    """The directory with ``node_modules`` of a package.json, which names exact versions; the first call installs it.

    :raises NpmError: npm is not there, or fails.
    """
    with places.lock(target.with_name(target.name + ".lock"), "another run that installs {0}".format(thing)):
        if not target.is_dir():
            with tempfile.TemporaryDirectory(prefix=target.name, dir=target.parent) as work:
                tree = Path(work) / "tree"
                tree.mkdir()
                shutil.copy(package, tree / "package.json")
                run(thing, tree)
                tree.rename(target)
    return target


def run(thing: str, folder: Path, names: Sequence[str] = ()) -> None:
    """Have npm install what package.json there names, or ``names``."""
    if shutil.which("npm") is None:
        raise NpmError("{0}: npm is not installed; install it (package npm)".format(thing))
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--prefix"]
    try:
        done = subprocess.run(
            [*command, str(folder), *names],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NpmError("{0}: npm took longer than {1:.0f} s; check the network".format(thing, SECONDS)) from None
    if done.returncode != 0:
        told = (done.stderr.strip() or "no message").splitlines()[0]
        raise NpmError("{0}: npm failed ({1}); check the network and the registry".format(thing, told))
