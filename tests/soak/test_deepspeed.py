# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ds_report of DeepSpeed itself on a CPU, by which a build of the preset is judged. No op is compiled, no GPU used."""

from __future__ import annotations

import os
import subprocess

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.python_env import ds_report
from ansible_collections.trainyard.gpu_node.tools.setup import cached


@pytest.fixture(name="text", scope="module")
def _text() -> str:
    try:
        programs = str(cached.programs("deepspeed"))
    except cached.CachedError as error:
        pytest.skip(
            "{0}; PyTorch's CPU builds are not on PyPI, see tools/setup/requirements/deepspeed.txt".format(error)
        )
    variables = dict(os.environ, PATH="{0}:{1}".format(programs, os.environ["PATH"]), DS_ACCELERATOR="cpu")
    done = subprocess.run([programs + "/ds_report"], env=variables, capture_output=True, text=True, check=True)
    return done.stdout


def test_it_is_read(text: str) -> None:
    report = ds_report.parse(text)
    assert report.figures["torch version"].endswith("+cpu")
    assert report.figures["deepspeed info"].startswith("0.19.8")
    assert report.ops["cpu_adam"] == (False, True) and "async_io" in report.ops and "ninja" not in report.ops
    memory = os.statvfs("/dev/shm")
    assert report.shm_bytes == pytest.approx(memory.f_blocks * memory.f_frsize, abs=0.01 * 1024**3)


def test_it_is_judged(text: str) -> None:
    assert ds_report.fault(ds_report.parse(text), ("cpu_adam",)) == ""
    assert ds_report.fault(ds_report.parse(text), ("no_such_op",)) == "ds_report calls no_such_op not compatible"
