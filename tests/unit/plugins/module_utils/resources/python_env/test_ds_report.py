# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ds_report of several versions prints: recorded from a real run, and as people have shown it in DeepSpeed's
issues, with other paths. ``tests/soak/test_deepspeed.py`` runs it."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.python_env.ds_report import fault, parse

_HEAD = """\
--------------------------------------------------
DeepSpeed C++/CUDA extension op report
--------------------------------------------------
NOTE: Ops not installed will be just-in-time (JIT) compiled at
      runtime if needed. Op compatibility means that your system
      meet the required dependencies to JIT install the op.
--------------------------------------------------
JIT compiled ops requires ninja
ninja .................. [OKAY]
--------------------------------------------------
op name ................ installed .. compatible
--------------------------------------------------
"""
# Issue 5195, a V100 of February 2024, with the colours of a terminal; issue alltalk_tts 4, 0.12.5.
GPU = (
    "[2024-02-26 15:34:02,963] [INFO] [real_accelerator.py:191:get_accelerator] Setting ds_accelerator to cuda\n"
    + _HEAD
    + """\
 [WARNING]  async_io requires the dev libaio .so object and headers but these were not found.
 [WARNING]  async_io: please install the libaio-devel package with yum
async_io ............... \x1b[93m[NO]\x1b[0m ....... \x1b[93m[NO]\x1b[0m
fused_adam ............. \x1b[92m[YES]\x1b[0m ...... \x1b[92m[OKAY]\x1b[0m
cpu_adam ............... \x1b[93m[NO]\x1b[0m ....... \x1b[92m[OKAY]\x1b[0m
 [WARNING]  sparse_attn requires a torch version >= 1.5 and < 2.0 but detected 2.1
stochastic_transformer . [NO] ....... [OKAY]
--------------------------------------------------
DeepSpeed general environment info:
torch install path ............... ['/env/lib/python3.11/site-packages/torch']
torch version .................... 2.1.2+cu121
deepspeed info ................... 0.12.5, unknown, unknown
torch cuda version ............... 12.1
torch hip version ................ None
nvcc version ..................... 12.3
deepspeed wheel compiled w. ...... torch 2.1, cuda 12.1
shared memory (/dev/shm) size .... 15.54 GB
"""
)
# Issue 5553, on a CPU; pull request 6762, 0.15.5.
CPU = (
    _HEAD
    + """\
deepspeed_not_implemented  [NO] ....... [OKAY]
deepspeed_ccl_comm ..... [NO] ....... [OKAY]
cpu_adam ............... [NO] ....... [OKAY]
--------------------------------------------------
DeepSpeed general environment info:
torch install path ............... ['/env/lib/python3.12/site-packages/torch']
deepspeed info ................... 0.15.5+46d7d0d1, 46d7d0d1, patch-1
torch cuda version ............... 11.8
nvcc version ..................... 12.0
shared memory (/dev/shm) size .... 512.00 MB
"""
)

# Recorded: ds_report of DeepSpeed 0.19.8 with torch 2.13.0+cpu on Python 3.11 of Debian 12, DS_ACCELERATOR=cpu.
RECORDED = (
    _HEAD.replace("[OKAY]", "\x1b[92m[OKAY]\x1b[0m")
    + """\
deepspeed_not_implemented  \x1b[93m[NO]\x1b[0m ....... \x1b[92m[OKAY]\x1b[0m
\x1b[93m [WARNING] \x1b[0m async_io requires the dev libaio .so object and headers but these were not found.
\x1b[93m [WARNING] \x1b[0m async_io: please install the libaio-dev package with apt
\x1b[93m [WARNING] \x1b[0m If libaio is already installed (perhaps from source), \
try setting the CFLAGS and LDFLAGS environment variables to where it can be found.
async_io ............... \x1b[93m[NO]\x1b[0m ....... \x1b[93m[NO]\x1b[0m
deepspeed_ccl_comm ..... \x1b[93m[NO]\x1b[0m ....... \x1b[92m[OKAY]\x1b[0m
deepspeed_shm_comm ..... \x1b[93m[NO]\x1b[0m ....... \x1b[92m[OKAY]\x1b[0m
cpu_adagrad ............ \x1b[93m[NO]\x1b[0m ....... \x1b[92m[OKAY]\x1b[0m
cpu_adam ............... \x1b[93m[NO]\x1b[0m ....... \x1b[92m[OKAY]\x1b[0m
cpu_lion ............... \x1b[93m[NO]\x1b[0m ....... \x1b[92m[OKAY]\x1b[0m
fused_adam ............. \x1b[93m[NO]\x1b[0m ....... \x1b[92m[OKAY]\x1b[0m
pin_memory ............. \x1b[93m[NO]\x1b[0m ....... \x1b[92m[OKAY]\x1b[0m
--------------------------------------------------
DeepSpeed general environment info:
torch install path ............... ['/env/lib/python3.11/site-packages/torch']
torch version .................... 2.13.0+cpu
deepspeed install path ........... ['/env/lib/python3.11/site-packages/deepspeed']
deepspeed info ................... 0.19.8, unknown, unknown
deepspeed wheel compiled w. ...... torch 0.0
shared memory (/dev/shm) size .... 23.54 GB
"""
)


def test_ops_and_figures_of_a_recorded_run():
    report = parse(RECORDED)
    assert report.ops.pop("async_io") == (False, False)
    assert len(report.ops) == 8 and set(report.ops.values()) == {(False, True)} and "cpu_adam" in report.ops
    assert report.figures == {
        "torch install path": "['/env/lib/python3.11/site-packages/torch']",
        "torch version": "2.13.0+cpu",
        "deepspeed install path": "['/env/lib/python3.11/site-packages/deepspeed']",
        "deepspeed info": "0.19.8, unknown, unknown",
        "deepspeed wheel compiled w.": "torch 0.0",
        "shared memory (/dev/shm) size": "23.54 GB",
    }
    assert report.shm_bytes == int(23.54 * 1024**3)


def test_ops_and_figures_of_a_gpu():
    report = parse(GPU)
    assert report.ops == {
        "async_io": (False, False),
        "fused_adam": (True, True),
        "cpu_adam": (False, True),
        "stochastic_transformer": (False, True),
    }
    assert report.figures["torch version"] == "2.1.2+cu121" and report.shm_bytes == int(15.54 * 1024**3)
    assert report.figures["deepspeed wheel compiled w."] == "torch 2.1, cuda 12.1"
    assert not report.cuda_mismatch and "op name" not in report.figures and "ninja" not in report.figures


def test_ops_and_figures_of_a_cpu():
    report = parse(CPU)
    assert report.ops["deepspeed_not_implemented"] == (False, True) and report.shm_bytes == 512 * 1024**2
    assert report.cuda_mismatch == "torch is of CUDA 11, nvcc of 12"


@pytest.mark.parametrize(
    "text, wanted, told",
    [
        (GPU, ("cpu_adam",), ""),
        (GPU, ("cpu_adam", "async_io"), "ds_report calls async_io not compatible"),
        (GPU, ("cpu_adam", "unknown"), "ds_report calls unknown not compatible"),
        (CPU, ("cpu_adam",), "torch is of CUDA 11, nvcc of 12"),
        ("Traceback (most recent call last):\n", (), "ds_report lists no op"),
    ],
)
def test_what_an_environment_is_to_have(text, wanted, told):
    assert fault(parse(text), wanted) == told
