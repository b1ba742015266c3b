# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines with simulated GPUs, which also compute."""

from __future__ import annotations

import json
import pathlib
import stat
import sys
from typing import Any, Dict, List, Optional, Sequence

import pytest

DATA = pathlib.Path(__file__).resolve().parents[4] / "data" / "health"

# Looks and judges as a real run does: in the lane's child process, under its limit, by the registry's entries.
CODE = '''
import json, sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import lanes, plain
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.checks import CHECKS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.limits import LIMITS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.thresholds import merged
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Cost, Expected
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.verdict import judge
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import host_device, peer_copies
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host

class Idle(Host):
    """Jobs of the machine that runs the tests have no part in them."""

    def names(self, path):
        return [] if path in ("/proc", "/run/gpu_node/jobs") else super().names(path)


given = json.loads(sys.argv[1])
host_device._GPU_SECONDS = peer_copies._STEP_SECONDS = given["gpu_seconds"]
chosen = [check for check in CHECKS if check.id in given["only"]]
looked = lanes.look(chosen, Evidence(Idle(), given["declared"], given["settings"]), 10.0)
expected = Expected("p", {}, given["declared"], merged(LIMITS, given["profile"], {}), {}, given["settings"], 0.0)
print(json.dumps(plain(judge("n", Cost.ACTIVE, chosen, looked, expected))))
'''


def profile(**limits: Any) -> Dict[str, Any]:
    """A profile with (warn, fail) for each figure, where more is better."""
    return {"thresholds": {name: {"better": "higher", "warn": w, "fail": f} for name, (w, f) in limits.items()}}


class Machine:
    """A simulated machine, whose GPUs compute; ``check`` runs one active check on it."""

    def __init__(self, simulator: Any, folder: pathlib.Path) -> None:
        self.simulator = simulator
        self.folder = folder
        self.tools: Dict[str, str] = {}
        self.environment: Dict[str, str] = {}
        self.gpus = [
            (one["uuid"], one["pci_address"])
            for one in simulator.python(
                "import json\n"
                "from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import gpu_info\n"
                "print(json.dumps(gpu_info.gather(gpu_info.Options(groups=())).to_dict()))"
            )["gpus"]
        ]
        self.library_path = str(simulator.built)

    def fault(self, words: str) -> None:
        """``gpu 1 to 3 wrong``: what nvml-simulator fault takes."""
        self.simulator.control("fault", *words.split())

    def tool(self, name: str, script: str) -> pathlib.Path:
        """A program of that name, which the settings then name."""
        path = self.folder / name
        path.write_text("#!{0} -S\n{1}".format(sys.executable, script), encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.tools[name] = str(path)
        return path

    def printing(self, name: str, output: str, status: int = 0) -> None:
        """A program that prints a recorded output, and notes what it was called with and where."""
        (self.folder / (name + ".out")).write_text(output, encoding="utf-8")
        self.tool(
            name,
            "import json, os, sys\n"
            "note = {{'argv': sys.argv[1:], 'gpus': os.environ.get('CUDA_VISIBLE_DEVICES'),\n"
            "        'nccl': {{name: value for name, value in os.environ.items() if name.startswith('NCCL_')}},\n"
            "        'locale': os.environ.get('LC_ALL'), 'libraries': os.environ.get('LD_LIBRARY_PATH')}}\n"
            "open({0!r} + '.calls', 'a').write(json.dumps(note) + '\\n')\n"
            "sys.stdout.write(open({0!r} + '.out').read())\n"
            "sys.exit({1})\n".format(str(self.folder / name), status),
        )

    def calls(self, name: str) -> List[Dict[str, Any]]:
        path = self.folder / (name + ".calls")
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def check(
        self,
        *only: str,
        limits: Optional[Dict[str, Any]] = None,
        declared: Optional[Dict[str, Any]] = None,
        gpu_seconds: float = 30.0,
        **settings: Any,
    ) -> Dict[str, Any]:
        """The verdict of these checks alone."""
        given = {
            "only": only,
            "settings": dict(settings, tools=dict(self.tools, **settings.get("tools", {}))),
            "declared": declared or {},
            "profile": limits or {},
            "gpu_seconds": gpu_seconds,
        }
        # Tools of the machine that runs the tests have no part in them.
        folder = self.folder / "empty"
        folder.mkdir(exist_ok=True)
        environment = {
            "PATH": str(folder),
            "LD_LIBRARY_PATH": self.library_path,
            "SLURM_JOB_ID": "",
        }
        answer: Dict[str, Any] = self.simulator.python(
            CODE, json.dumps(given), timeout=120, **dict(environment, **self.environment)
        )
        return answer


def findings(verdict: Dict[str, Any]) -> List[Sequence[str]]:
    """(check, code, key, outcome, action) of each."""
    return [
        (one["id"], finding["code"], finding["key"], finding["outcome"], finding["action"])
        for one in verdict["results"]
        for finding in one["findings"]
    ]


def measured(verdict: Dict[str, Any], name: str) -> Dict[str, float]:
    return {
        one["key"]: one["value"] for result in verdict["results"] for one in result["measured"] if one["name"] == name
    }


@pytest.fixture
def machine(nvml_simulator, tmp_path):
    """A function that makes machines: ``machine("nd96isr_h100_v5", "gpu.count=4")``."""
    pytest.importorskip("pynvml", reason="needs nvidia-ml-py")

    def make(name: str = "nd96isr_h100_v5", *settings: str) -> Machine:
        return Machine(nvml_simulator(name, *settings), tmp_path)

    return make


@pytest.fixture
def health():
    """The helpers of this folder, without an import that depends on where the tests run."""

    class Helpers:
        pass

    helpers = Helpers()
    helpers.profile, helpers.findings, helpers.measured, helpers.data = profile, findings, measured, DATA
    return helpers
