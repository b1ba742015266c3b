# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes down the virtual nodes of one part."""

from __future__ import annotations

import subprocess
from typing import Dict

from .parts import ROOT

TOOL = ROOT / "tools" / "virtual_node" / "virtual_node"


def take_down(variables: Dict[str, str]) -> bool:
    """End every node of the run that VIRTUAL_NODE_RUN in these variables names. False when that did not work."""
    if not TOOL.exists():
        return True
    try:
        done = subprocess.run(
            [str(TOOL), "down", "--all"],
            cwd=str(ROOT),
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a second ctrl-C must not stop the clean-up
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
