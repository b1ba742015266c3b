# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated ND96asr_v4 for the pictures of the documentation: its sysfs as a folder, its GPUs by the NVML simulator.

``python -m ...tools.docs.simulated_node ROOT NAME ARGUMENTS...`` is gpunode on such a node. It is a process of its own
because a process finds the simulated GPUs by the environment that it was started with.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Sequence

import yaml

ROOT = Path(__file__).resolve().parents[2]
LINKED = ROOT / ".collections"
COLLECTION = "ansible_collections.trainyard.gpu_node"
MACHINE, TREE = "nd96asr_v4", "ndv4"
UNPACK = "import sys; from {0}.tests.unit.data.topology.unpack import unpack; unpack(*sys.argv[1:])".format(COLLECTION)
# What the checks read and the tree of a machine's topology does not hold.
FILES = {
    "proc/loadavg": "0.52 0.58 0.59 1/1467 4242",
    "proc/sys/kernel/tainted": "0",
    "proc/sys/kernel/random/boot_id": "b1e2d3c4-0000-4000-8000-000000000000",
    "dev/kmsg": "6,0,0,-;Linux version 6.8.0-1021-azure (buildd@lcy02) #25-Ubuntu SMP",
}


def bytecode() -> Dict[str, str]:
    """For the environment of a process: bytecode where it is kept already, and never among the clone's files."""
    kept = os.environ.get("PYTHONPYCACHEPREFIX")
    return {"PYTHONPYCACHEPREFIX": kept} if kept else {"PYTHONDONTWRITEBYTECODE": "1"}


class Node:
    """A node with a name, in a folder of its own."""

    def __init__(self, built: Path, folder: Path, name: str) -> None:
        self.name, self.root, self.built = name, folder / "root", built
        state = folder / "nvml"
        state.mkdir(parents=True)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("NVML_SIMULATOR_")}
        self.environment = dict(
            kept,
            PYTHONPATH=str(LINKED),
            LD_LIBRARY_PATH=str(built),
            NVML_SIMULATOR_STATE=str(state),
            **bytecode(),
        )
        self.python("-c", UNPACK, TREE, str(self.root))
        profile = yaml.safe_load((ROOT / "roles/node_profile/files/profiles" / (MACHINE + ".yml")).read_text())
        for path, content in FILES.items():
            self.write(path, content)
        self.write("etc/gpu_node/node.json", json.dumps({"profile": {"name": MACHINE, "data": profile}}))
        self.simulate("init", MACHINE)

    def write(self, path: str, content: str) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content + "\n", encoding="utf-8")

    def simulate(self, *words: str) -> None:
        """Have the NVML simulator do something, as ``fault gpu 3 lost``."""
        subprocess.run([str(self.built / "nvml-simulator"), *words], env=self.environment, check=True)

    def gpunode(self, *words: str, good: Sequence[int] = (0,)) -> str:
        program = ("-m", COLLECTION + ".tools.docs.simulated_node", str(self.root), self.name)
        return self.python(*program, *words, good=good)

    def health(self, *words: str) -> Dict[str, Any]:
        """The verdict."""
        verdict: Dict[str, Any] = json.loads(self.gpunode("health", "--json", *words, good=range(5)))
        return verdict

    def python(self, *words: str, good: Sequence[int] = (0,)) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            env=self.environment,
            cwd=str(ROOT),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if done.returncode not in good:
            raise SystemExit(
                "docs: {0} ended with status {1}: {2}".format(" ".join(words), done.returncode, done.stderr.strip())
            )
        return done.stdout


def main(arguments: List[str]) -> int:
    command: Any = importlib.import_module(COLLECTION + ".plugins.module_utils.command.main")
    host: Any = importlib.import_module(COLLECTION + ".plugins.module_utils.core.host")
    root, name = arguments[:2]
    uname = list(os.uname())
    os.uname = lambda: os.uname_result([uname[0], name, *uname[2:]])
    command.Host = lambda: host.Host(root)
    status: int = command.main(arguments[2:])
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
