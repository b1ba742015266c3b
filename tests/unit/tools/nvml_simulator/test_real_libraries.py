# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulator against what NVIDIA's own libraries of five branches tell without a driver."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parents[2] / "data" / "nvml_libraries"
REAL = json.loads((HERE / "libraries.json").read_text(encoding="utf-8"))


@pytest.fixture(name="told", scope="module", params=sorted(REAL))
def _told(request, nvml_simulator_built, tmp_path_factory):
    """(What a real library tells, what the simulator tells as that version) on a machine whose driver is not loaded."""
    state = tmp_path_factory.mktemp("state")
    environment = {"NVML_SIMULATOR_STATE": str(state)}
    for words in (
        ["init", "nd96asr_v4", "--set", "driver.version=" + request.param],
        ["fault", "driver", "not-loaded"],
    ):
        subprocess.run([str(nvml_simulator_built / "nvml-simulator"), *words], env=environment, check=True)
    done = subprocess.run(
        [sys.executable, str(HERE / "read_library.py"), str(nvml_simulator_built / "libnvidia-ml.so.1")],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    return REAL[request.param], json.loads(done.stdout)


@pytest.mark.parametrize("part", ["texts", "before_init", "init", "after_failed_init"])
def test_the_simulator_tells_what_the_real_library_tells(told, part):
    real, simulated = told
    assert simulated[part] == real[part]


def test_calls_are_there_from_the_branch_on_that_has_them(nvml_simulator_built):
    listed = subprocess.run(
        [str(nvml_simulator_built / "nvml-simulator"), "calls"], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    since = {name: int(branch) for name, branch in (line.split() for line in listed.splitlines())}
    exported, wrong = set(), []
    for version in sorted(REAL):
        exported |= set(REAL[version]["symbols_added"])
        branch = int(version.split(".")[0])
        wrong += [(name, version) for name, first in since.items() if (first <= branch) != (name in exported)]
    assert wrong == []
