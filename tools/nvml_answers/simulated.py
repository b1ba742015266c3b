# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answers of the simulator for the product and the driver of a recording."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

ROOT = Path(__file__).resolve().parents[2]
SIMULATOR = ROOT / "tools" / "nvml_simulator"


def value_of(recording: Mapping[str, Any], label: str) -> Any:
    return recording["answers"].get(label, {}).get("value")


def machine_of(recording: Mapping[str, Any], folder: Path = SIMULATOR / "machines") -> Optional[str]:
    """The description whose GPUs have the recorded name; of several, one with as many GPUs."""
    name = value_of(recording, "nvmlDeviceGetName()")
    found = []
    for path in sorted(folder.glob("*.conf")):
        text = path.read_text(encoding="utf-8")
        own = dict(re.findall(r"^(gpu\.name|gpu\.count) = (.*?)\s*(?:#.*)?$", text, re.MULTILINE))
        if own.get("gpu.name") == name:
            found.append((own.get("gpu.count") != str(recording["gpus"]), path.stem))
    return min(found)[1] if found else None


def settings_of(recording: Mapping[str, Any]) -> List[str]:
    """What else of the machine was as it is, as settings of the simulator."""
    settings = ["gpu.count={0}".format(recording["gpus"])]
    for key, label in (
        ("driver.version", "nvmlSystemGetDriverVersion"),
        ("driver.cuda_version", "nvmlSystemGetCudaDriverVersion"),
        ("gpu.persistence_mode", "nvmlDeviceGetPersistenceMode()"),
        ("gpu.virtualization_mode", "nvmlDeviceGetVirtualizationMode()"),
    ):
        value = value_of(recording, label)
        if value is not None:
            settings.append("{0}={1}".format(key, value))
    for key, label in (("gpu.ecc_mode", "nvmlDeviceGetEccMode()"), ("gpu.mig_mode", "nvmlDeviceGetMigMode()")):
        pair = value_of(recording, label)
        if pair is not None:
            settings.append("{0}={1}".format(key, pair[0]))
    return settings


def build(folder: Path) -> None:
    """Build the simulator there.

    :raises subprocess.CalledProcessError: without a C compiler and make, with their words on the error output.
    """
    subprocess.run(["make", "--silent", "-C", str(SIMULATOR), "OUT={0}".format(folder)], check=True)


def simulated(recording: Mapping[str, Any], built: Path) -> Dict[str, Any]:
    """What the simulator in ``built`` answers as that machine.

    :raises ValueError: when no description has such a GPU.
    """
    machine = machine_of(recording)
    if machine is None:
        raise ValueError(
            "{0!r}: no description in tools/nvml_simulator/machines has such a GPU; write one".format(
                value_of(recording, "nvmlDeviceGetName()")
            )
        )
    with tempfile.TemporaryDirectory() as state:
        environment = dict(
            os.environ,
            NVML_SIMULATOR_STATE=state,
            LD_LIBRARY_PATH=str(built),
            PYTHONPATH=os.pathsep.join([str(ROOT), *(path for path in sys.path if path)]),
        )
        words = [word for setting in settings_of(recording) for word in ("--set", setting)]
        subprocess.run([str(built / "nvml-simulator"), "init", machine, *words], env=environment, check=True)
        told = subprocess.run(
            [sys.executable, "-m", "tools.nvml_answers", "record", "-"],
            env=environment,
            stdout=subprocess.PIPE,
            cwd=str(ROOT),
            check=True,
        )
    answer: Dict[str, Any] = json.loads(told.stdout)
    return answer
