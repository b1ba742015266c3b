# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVML answers on this machine, recorded, and compared with what the simulator answers for the same product.

The recording stays in build/nvml_answers: copied to tests/hardware/recordings, unit tests hold the simulator to it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools.nvml_answers import compare, simulated  # noqa: E402


@pytest.fixture(scope="module")
def path(nvidia_smi):
    (row, *dummy) = nvidia_smi("name", "driver_version") or [None]
    if row is None:
        pytest.skip("this machine has a driver and no GPU")
    name = re.sub(r"\W+", "_", "{0} {1}".format(row["name"], row["driver_version"])).lower()
    folder = ROOT / "build" / "nvml_answers"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / (name + ".json")
    done = subprocess.run(
        [sys.executable, "-m", "tools.nvml_answers", "record", str(file)],
        cwd=str(ROOT),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return file


def test_the_recording_tells_everything_but_who_the_gpu_is(path, nvidia_smi):
    text = path.read_text(encoding="utf-8")
    assert len(json.loads(text)["answers"]) > 500
    for row in nvidia_smi("uuid", "serial"):
        secrets = [value for value in row.values() if re.search(r"\d{6}", value)]
        assert [value for value in secrets if value in text] == []


def test_the_simulator_answers_alike(path, tmp_path):
    if shutil.which("make") is None or not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
        pytest.skip("the simulator needs a C compiler and make: install gcc and make")
    real = json.loads(path.read_text(encoding="utf-8"))
    if simulated.machine_of(real) is None:
        pytest.skip("tools/nvml_simulator/machines describes no machine with such a GPU: write one")
    simulated.build(tmp_path)
    found = compare.compare(real, simulated.simulated(real, tmp_path))
    for one in found:
        print(one)
    # What differs in its value is a figure of the description; a code or a type is the simulator's behaviour.
    assert [str(one) for one in found if one.what != "value"] == []
