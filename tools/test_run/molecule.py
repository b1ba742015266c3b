# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the Molecule scenarios one after the other: `python -m tools.test_run.molecule FOLDER [SCENARIO ...]`.

They share one virtual node, because its start costs more than most scenarios; it is taken down at the end. Each
scenario counts as one test in FOLDER/junit.xml.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import List, Tuple
from xml.etree import ElementTree

from .nodes import take_down
from .parts import ROOT

Result = Tuple[str, int, float]


def scenarios() -> List[str]:
    return sorted(path.parent.name for path in (ROOT / "extensions" / "molecule").glob("*/molecule.yml"))


def run(name: str) -> Result:
    print("\n=== scenario {0}".format(name), flush=True)
    began = time.monotonic()
    # The create step leaves the node standing for the next scenario while this is set.
    environment = dict(os.environ, GPU_NODE_KEEP="1", MOLECULE_PROJECT_DIRECTORY=str(ROOT))
    command = ["molecule", "test", "--scenario-name", name]
    status = subprocess.run(command, cwd=str(ROOT), env=environment, stdin=subprocess.DEVNULL, check=False).returncode
    print("=== scenario {0} ended with status {1}".format(name, status), flush=True)
    return name, status, time.monotonic() - began


def write_junit(results: List[Result], path: Path) -> None:
    suite = ElementTree.Element("testsuite", name="molecule", tests=str(len(results)))
    for name, status, seconds in results:
        case = ElementTree.SubElement(
            suite, "testcase", classname="molecule", name=name, time="{0:.1f}".format(seconds)
        )
        if status != 0:
            ElementTree.SubElement(case, "failure", message="ended with status {0}".format(status))
    ElementTree.ElementTree(suite).write(str(path))


def main() -> int:
    folder, names = Path(sys.argv[1]), sys.argv[2:] or scenarios()
    results: List[Result] = []
    try:
        for name in names:
            results.append(run(name))
            write_junit(results, folder / "junit.xml")
    finally:
        take_down(dict(os.environ))
    return max([1 if status else 0 for _, status, _ in results], default=1)


if __name__ == "__main__":
    sys.exit(main())
