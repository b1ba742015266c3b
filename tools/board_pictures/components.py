# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page that draws a board: Grafana's components from npm, bundled. npm's packages are in the user's cache."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from ..setup import npm
from ..virtual_node.virtual_machine import places

PAGE = Path(__file__).resolve().parent / "page"


def page(target: Path) -> Path:
    """Bundle the page into a directory; the first call on a machine has npm install 600 MB.

    :raises npm.NpmError: npm or the bundler fails.
    """
    digest = hashlib.sha256((PAGE / "package.json").read_bytes()).hexdigest()[:12]
    installed = npm.install(
        "Grafana's components", places.cache() / ("board-pictures-" + digest), PAGE / "package.json"
    )
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(PAGE, target)
    (target / "node_modules").symlink_to(installed / "node_modules")
    done = subprocess.run(
        ["node", "build.mjs"], cwd=target, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise npm.NpmError("Grafana's components: esbuild failed: {0}".format(done.stderr.strip()[-500:]))
    return target / "index.html"
