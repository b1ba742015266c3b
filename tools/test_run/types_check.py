# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks the types strictly: the library as the modules import it, and each tool as it is run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Tuple

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ".collections/ansible_collections/trainyard/gpu_node/plugins"
# What Ansible itself hands over has no types, so classes and values that come from it are of any type.
UNTYPED_BASE = ("--allow-subclassing-any", "--no-warn-return-any", "--allow-untyped-decorators")
# The search path, what is checked, further options. The search path makes the names those of the import statements.
RUNS: Tuple[Tuple[str, Tuple[str, ...], Tuple[str, ...]], ...] = (
    (".collections", (PLUGINS + "/module_utils",), ()),
    (".collections", (PLUGINS + "/plugin_utils", PLUGINS + "/filter"), UNTYPED_BASE),
    (".", ("tools/setup", "tools/test_run", "tools/docs", "tools/nvml_answers", "tools/board_pictures"), ()),
    (".:.collections", ("tools/bundle", "tools/cluster_init"), UNTYPED_BASE),
    (".collections", (PLUGINS.replace("plugins", "tools/hardware"),), UNTYPED_BASE),
    ("tools/fleet", ("tools/fleet/loopback_fleet",), ()),
    ("tools/virtual_node", ("tools/virtual_node/virtual_machine",), ()),
)


def command(targets: Tuple[str, ...], options: Tuple[str, ...]) -> List[str]:
    strict = [sys.executable, "-m", "mypy", "--strict", "--namespace-packages", "--explicit-package-bases"]
    return [*strict, *options, *targets]


def main() -> int:
    worst = 0
    for search_path, targets, options in RUNS:
        present = tuple(target for target in targets if (ROOT / target).exists())
        if not present:
            continue
        print("mypy: " + " ".join(present), flush=True)
        environment: Dict[str, str] = dict(os.environ, MYPYPATH=search_path)
        status = subprocess.run(command(present, options), cwd=str(ROOT), env=environment, check=False).returncode
        worst = max(worst, status)
    return worst


if __name__ == "__main__":
    sys.exit(main())
