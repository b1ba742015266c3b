# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environments that many sites want, as data, each figure with its source.

A preset pins only what is known not to work otherwise; a lock (option ``lock``) pins the rest.
"""

from __future__ import annotations

import re
from typing import Iterable, List, Mapping, Optional, Tuple

from ...core.frozen import frozen


@frozen
class Preset:
    """``source_packages`` are built on the node when all others are installed. ``pythons``: the oldest and the newest
    that it runs on. ``needs``: what has to be on the node, each a path or a program with where it comes from.
    ``tells``: (command, pattern that its output has, what is wrong where it has not). ``ops``: what ds_report has to
    call compatible. ``frozen_for``: why no newer version will come; ``sources``: where all this is from.
    """

    packages: Tuple[str, ...]
    source_packages: Tuple[str, ...] = ()
    pythons: Tuple[Tuple[int, int], Optional[Tuple[int, int]]] = ((3, 8), None)
    variables: Mapping[str, str] = {}
    imports: Tuple[str, ...] = ()
    commands: Tuple[str, ...] = ()
    tells: Tuple[Tuple[str, str, str], ...] = ()
    ops: Tuple[str, ...] = ()
    needs: Tuple[Tuple[str, str], ...] = ()
    cuda: str = ""
    frozen_for: str = ""
    sources: Tuple[str, ...] = ()


_COMPILER = ("g++", "the package g++ (Debian, Ubuntu) or gcc-c++ (EL)")
_NVCC = ("nvcc", "the CUDA toolkit")

PRESETS: Mapping[str, Preset] = {
    "pytorch": Preset(
        packages=("torch>=2", "numpy", "tensorboard"),
        pythons=((3, 10), None),
        imports=("torch", "numpy", "tensorboard"),
        sources=("PyPI, torch 2.15.0 (2026): Python 3.10 and newer",),
    ),
    "horovod": Preset(
        # torch 2.1 and newer wants C++17, with which 0.28.1 is not compiled; numpy 2 came after torch 2.0.1; CMake 4
        # refuses projects that ask for CMake before 3.5, as those inside of Horovod do; setuptools 81 has no
        # pkg_resources, which Horovod's setup.py wants.
        packages=(
            "torch==2.0.1",
            "numpy<2",
            "horovod==0.28.1",
            "cmake>=3.13,<4",
            "setuptools<81",
            "wheel",
            "packaging",
            "cloudpickle",
            "psutil",
            "pyyaml",
            "cffi>=1.4",
        ),
        source_packages=("horovod",),
        pythons=((3, 8), (3, 11)),
        variables={
            "HOROVOD_GPU_OPERATIONS": "NCCL",
            "HOROVOD_WITH_PYTORCH": "1",
            "HOROVOD_WITHOUT_TENSORFLOW": "1",
            "HOROVOD_WITHOUT_MXNET": "1",
            "HOROVOD_WITH_MPI": "1",
        },
        imports=("torch", "horovod.torch"),
        tells=(("horovodrun --check-build", r"\[X\] NCCL", "Horovod was built without NCCL"),),
        needs=(_COMPILER, _NVCC, ("mpicxx", "an MPI with its compiler (such as HPC-X, or libopenmpi-dev)")),
        cuda="11",
        frozen_for="Horovod 0.28.1 (June 2023) is the last release, and is not compiled with torch 2.1 and newer",
        sources=(
            "PyPI: horovod 0.28.1, 2023-06-12; torch 2.0.1 is of CUDA 11.7, for Python 3.8 to 3.11",
            "github.com/horovod/horovod issues 3996 and 4014, pull request 3998: C++17",
            "horovod/docs/install.rst: HOROVOD_GPU_OPERATIONS and the like are read when it is built, not in a job",
        ),
    ),
    "deepspeed": Preset(
        packages=(
            "torch>=2",
            "deepspeed==0.19.8",
            "setuptools",
            "wheel",
            "ninja",
            "packaging",
            "numpy",
            "einops",
            "hjson",
            "msgpack",
            "psutil",
            "py-cpuinfo",
            "pydantic>=2",
            "tqdm",
        ),
        source_packages=("deepspeed",),
        pythons=((3, 10), None),
        # All others are built when a job first uses them; these two are what an offload to CPU and NVMe wants.
        variables={"DS_BUILD_OPS": "0", "DS_BUILD_CPU_ADAM": "1", "DS_BUILD_AIO": "1"},
        imports=("torch", "deepspeed"),
        ops=("cpu_adam", "async_io"),
        needs=(
            _COMPILER,
            _NVCC,
            ("/usr/include/libaio.h", "the package libaio-dev (Debian, Ubuntu) or libaio-devel (EL)"),
        ),
        sources=(
            "PyPI: deepspeed 0.19.8, a source distribution, and what it requires",
            "deepspeed/op_builder: BUILD_VAR of cpu_adam.py and async_io.py",
        ),
    ),
    "onnxruntime": Preset(
        packages=(
            "onnxruntime-training==1.19.2",
            "torch-ort==1.19.2",
            "torch==2.4.1",
            "numpy<2",
            "onnx",
            "setuptools<81",
        ),
        pythons=((3, 8), (3, 11)),
        imports=("torch", "onnxruntime", "torch_ort"),
        commands=("python -m torch_ort.configure",),
        frozen_for="onnxruntime-training ends with 1.19.2 and has no wheel for Python 3.12 and newer; upstream has "
        "deprecated ORTModule",
        sources=(
            "PyPI: onnxruntime-training 1.19.2, torch-ort 1.19.2",
            "github.com/pytorch/ort issue 199; github.com/microsoft/onnxruntime pull request 28058",
        ),
    ),
}

# developer.nvidia.com/cuda-gpus. The first that fits counts.
_ARCHITECTURES: Tuple[Tuple[str, str], ...] = (
    (r"\bG?B300\b", "10.3"),
    (r"\bG?B200\b", "10.0"),
    (r"\b(H100|H200|GH200|H800|H20)\b", "9.0"),
    (r"\b(L4|L40|L40S)\b", "8.9"),
    (r"\b(A10|A16|A2|A40|A10G)\b", "8.6"),
    (r"\b(A100|A30|A800)\b", "8.0"),
    (r"\bT4\b", "7.5"),
    (r"\bV100\b", "7.0"),
    (r"\bP100\b", "6.0"),
)


def architectures(products: Iterable[object]) -> List[str]:
    """Compute capabilities of GPUs by their products, as PyTorch takes them; those that nobody knows are left out."""
    found = set()
    for product in products if isinstance(products, (list, tuple)) else ():
        fit = next((one for pattern, one in _ARCHITECTURES if re.search(pattern, str(product).replace("-", " "))), None)
        if fit is not None:
            found.add(fit)
    return sorted(found, key=lambda one: [int(part) for part in one.split(".")])
