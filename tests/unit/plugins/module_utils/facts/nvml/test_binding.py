# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where NVML's library is found."""

from __future__ import annotations

import shutil

import pytest

CODE = """
import json, sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml import binding
binding.DRIVER_CONTAINER = sys.argv[1]
pynvml = binding.load()
try:
    pynvml.nvmlInit()
    print(json.dumps(pynvml.nvmlDeviceGetCount()))
except pynvml.NVMLError as error:
    print(json.dumps(str(error)))
"""


@pytest.mark.parametrize("directory", ["usr/lib/x86_64-linux-gnu", "usr/lib64"])
def test_the_library_of_a_driver_container_is_found(nvml_simulator, tmp_path, directory):
    (tmp_path / directory).mkdir(parents=True)
    simulator = nvml_simulator("nd96asr_v4")
    shutil.copy2(str(simulator.library), str(tmp_path / directory))
    assert simulator.python(CODE, str(tmp_path), LD_LIBRARY_PATH="") == 8


@pytest.mark.parametrize("content", [None, b"not a library"])
def test_a_machine_without_the_library_says_so(nvml_simulator, tmp_path, content):
    if content:
        (tmp_path / "usr/lib64").mkdir(parents=True)
        (tmp_path / "usr/lib64/libnvidia-ml.so.1").write_bytes(content)
    assert (
        nvml_simulator("nd96asr_v4").python(CODE, str(tmp_path), LD_LIBRARY_PATH="") == "NVML Shared Library Not Found"
    )
