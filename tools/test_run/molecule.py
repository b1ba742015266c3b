# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the Molecule scenarios one after the other: `python -m tools.test_run.molecule FOLDER [SCENARIO ...]`.

They share one virtual node, because its start costs more than most scenarios; it is taken down at the end. Each
scenario counts as one test in FOLDER/junit.xml.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import List, Sequence
from xml.etree import ElementTree

from .nodes import TOOL, take_down
from .parts import ROOT

# How the line begins that says what went wrong: Ansible's, testinfra's, Molecule's own.
_COMPLAINTS = ("fatal: ", "[ERROR]: ", "ERROR", "CRITICAL", "E   ")


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of one scenario; ``why`` is empty when it passed."""

    name: str
    seconds: float
    why: str = ""


def scenarios() -> List[str]:
    return sorted(path.parent.name for path in (ROOT / "extensions" / "molecule").glob("*/molecule.yml"))


def complaint(lines: Sequence[str]) -> str:
    """The first complaint in a scenario's output with the task that it came from, for the summary of the run."""
    task = ""
    for number, line in enumerate(lines):
        if line.startswith("TASK ["):
            task = line.rstrip(" *") + ": "
        if line.startswith(_COMPLAINTS):
            return task + " ".join(" ".join(lines[number : number + 12]).split())
    return " ".join(lines[-1:])


def run(name: str) -> Result:
    """One scenario. Its output is passed on as it comes and kept for the case that it fails."""
    print("\n=== scenario {0}".format(name), flush=True)
    began = time.monotonic()
    # The create step leaves the node standing for the next scenario while this is set.
    environment = dict(os.environ, GPU_NODE_KEEP="1", MOLECULE_PROJECT_DIRECTORY=str(ROOT))
    lines: List[str] = []
    with subprocess.Popen(
        ["molecule", "test", "--scenario-name", name], cwd=str(ROOT), env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    ) as child:  # fmt: skip
        assert child.stdout is not None
        for line in child.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            lines.append(line.rstrip())
    print("=== scenario {0} ended with status {1}".format(name, child.returncode), flush=True)
    return Result(name, time.monotonic() - began, complaint(lines) or "no output" if child.returncode else "")


def kernel_crashes() -> List[str]:
    """What the virtual node's kernel said when it crashed, if it did."""
    command = [str(TOOL), "status", "--json"]
    done = subprocess.run(command, cwd=str(ROOT), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    nodes = json.loads(done.stdout) if done.returncode == 0 and done.stdout.startswith("{") else {}
    return [crash for node in nodes.values() for crash in node.get("kernel_crashes", [])]


def run_on_a_sound_machine(name: str) -> Result:
    """Run a scenario, and once more when it failed and its machine's kernel crashed: that says nothing of the role."""
    before = len(kernel_crashes())
    result = run(name)
    crashes = kernel_crashes()[before:]
    if not result.why or not crashes:
        return result
    print("=== scenario {0}: the virtual node's kernel crashed meanwhile ({1});".format(name, crashes[0]))
    print("=== it is run once more on a new node", flush=True)
    take_down(dict(os.environ))
    return run(name)


def write_junit(results: List[Result], path: Path) -> None:
    suite = ElementTree.Element("testsuite", name="molecule", tests=str(len(results)))
    for result in results:
        case = ElementTree.SubElement(
            suite, "testcase", classname="molecule", name=result.name, time="{0:.1f}".format(result.seconds)
        )
        if result.why:
            ElementTree.SubElement(case, "failure", message=result.why)
    ElementTree.ElementTree(suite).write(str(path))


def main() -> int:
    folder, names = Path(sys.argv[1]), sys.argv[2:] or scenarios()
    folder.mkdir(parents=True, exist_ok=True)
    results: List[Result] = []
    try:
        for name in names:
            results.append(run_on_a_sound_machine(name))
            write_junit(results, folder / "junit.xml")
            if results[-1].why:  # what it left behind would be found by the next ones
                take_down(dict(os.environ))
    finally:
        take_down(dict(os.environ))
    return 0 if results and not any(result.why for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
