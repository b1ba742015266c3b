# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated machine whose layouts are brought about by a process of its own."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any, Dict, List, Optional, Tuple

from ansible_collections.trainyard.gpu_node.tests.unit import forked

A100, H100, H200 = "nd96asr_v4", "nd96isr_h100_v5", "nd96isr_h200_v5"
RTX_PRO_6000 = "rtx_pro_6000"
DRIVER = pathlib.Path(__file__).with_name("drive_mig.py")
RECORD = "var/lib/gpu_node/mig_layout.json"
NODE = "etc/gpu_node/node.json"
UNIT = "etc/systemd/system/gpu-node-mig_layout.service"


class Machine:
    """A simulated machine and a folder as its root."""

    def __init__(self, simulator: Any, root: pathlib.Path) -> None:
        self.simulator = simulator
        self.control = simulator.control
        self.root = root
        (root / "etc/systemd/system").mkdir(parents=True)

    def job(self, **job: Any) -> str:
        return json.dumps(dict({"root": str(self.root), "check": False, "options": {}}, **job))

    def start(self, **job: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(DRIVER)],
            env=self.simulator.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(self.job(**job))
        process.stdin.close()
        process.stdin = None
        return process

    def run(
        self, *layouts: Dict[str, Any], check: bool = False, declared: bool = False, **options: Any
    ) -> Dict[str, Any]:
        options = dict({"layouts": list(layouts), "boot_unit": False}, **options)
        job = self.job(options=options, check=check, declared=declared)
        done = forked.run(
            [sys.executable, str(DRIVER)],
            input=job,
            env=self.simulator.environment(),
            timeout=120,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        found: Dict[str, Any] = json.loads(done.stdout)
        return found

    def layout(self, gpu: int = 0) -> List[Tuple[str, int, List[int]]]:
        """What stands on a GPU, whatever anybody remembers of it."""
        return layout_of(self.run(check=True, require_gpus=True), gpu)

    def record(self) -> Optional[Dict[str, Any]]:
        path = self.root / RECORD
        return json.loads(path.read_text(encoding="utf-8"))["gpus"] if path.exists() else None

    def uuid(self, gpu: int = 0) -> str:
        return str(self.run(check=True, require_gpus=True)["gpus"][gpu]["uuid"])


def layout_of(result: Dict[str, Any], gpu: int = 0) -> List[Tuple[str, int, List[int]]]:
    return [
        (i["profile"], i["start"], sorted(c["slices"] for c in i["compute"])) for i in result["gpus"][gpu]["instances"]
    ]


def of(*instances: Any, gpus: Any = ("all",), **more: Any) -> Dict[str, Any]:
    """A layout; an instance is a name or a mapping."""
    return dict(gpus=list(gpus), instances=[i if isinstance(i, dict) else {"profile": i} for i in instances], **more)
