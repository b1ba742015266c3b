# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find NVIDIA's Python binding (distribution nvidia-ml-py, module pynvml)."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import re
import sys
from typing import Any

from ...core.resource import NodeError
from .call import Reading, missing

LIBRARY = "libnvidia-ml.so.1"
# The GPU operator mounts the root of its driver container on the host here; ld.so does not search it.
DRIVER_CONTAINER = "/run/nvidia/driver"
_LIBRARY_DIRECTORIES = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64")

# The node command carries the binding, so a node needs neither pip nor a network.
RUNTIME = "/opt/gpu_node/gpunode.pyz"


def load() -> Any:
    """The module ``pynvml``: an installed one, else the one inside the node command.

    :raises NodeError: when there is none.
    """
    _load_library()
    return _module()


def _load_library() -> None:
    """Load NVML from the driver container if ld.so does not find it. The binding then gets this library by its name."""
    if not os.path.isdir(DRIVER_CONTAINER):
        return
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        for directory in _LIBRARY_DIRECTORIES:
            path = os.path.join(DRIVER_CONTAINER, directory, LIBRARY)
            with contextlib.suppress(OSError):
                ctypes.CDLL(path)
                return


def _module() -> Any:
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        pass
    if os.path.exists(RUNTIME) and RUNTIME not in sys.path:
        sys.path.append(RUNTIME)
        importlib.invalidate_caches()
        try:
            return importlib.import_module("pynvml")
        except ImportError:
            pass
    raise NodeError(
        "NVIDIA's Python binding (module pynvml)",
        "it was not found on this node",
        "run the role trainyard.gpu_node.node_runtime, or install nvidia-ml-py",
    )


def version(pynvml: Any) -> Reading[str]:
    """The version of the distribution that a binding came from, by the folder that pip leaves beside it."""
    folder = os.path.dirname(getattr(pynvml, "__file__", None) or "")
    try:
        names = sorted(os.listdir(folder))
    except OSError:  # inside the node command
        return missing("this copy of the binding does not tell its version")
    for name in names:
        match = re.fullmatch(r"nvidia_ml_py-([^-]+)\.(?:dist|egg)-info", name)
        if match is not None:
            return Reading(match.group(1))
    return missing("this copy of the binding does not tell its version")
