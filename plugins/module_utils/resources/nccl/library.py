# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which libnccl and which of its plugins a node has, without loading any of them."""

from __future__ import annotations

import fnmatch
import mmap
import os
import re
from typing import Iterable, List, Optional, Tuple

from ...core.frozen import frozen
from ...core.host import Host

# Packages, CUDA, what Azure's images build, and the plugin that HPC-X brings.
FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/local/cuda/lib64",
    "/usr/local/nccl/lib",
    "/usr/local/nccl-rdma-sharp-plugins/lib",
    "/opt/nccl/lib",
    "/opt/hpcx/current/nccl_rdma_sharp_plugin/lib",
)
_SONAME = "libnccl.so.2"
_FILE = re.compile(r"libnccl\.so\.(\d+\.\d+(?:\.\d+)?)$")
# "NCCL version 2.32.3+cuda12.9" (VERSION_STRING in src/init.cc); suffixes such as b1 mark betas.
_BANNER = re.compile(rb"NCCL version (\d+\.\d+\.\d+[a-z0-9]*)")
# Constants lie before the kernels for the GPUs, which are most of the 200 to 500 MB of the file.
_LOOKED_AT_BYTES = 64 << 20
_PLUGINS = ("libnccl-net*.so*", "libnccl-tuner*.so*", "libnccl-env*.so*")


@frozen
class Library:
    """``version`` None: neither the name nor the file tells it."""

    path: str
    version: Optional[str]


def libraries(host: Host, folders: Iterable[str] = FOLDERS) -> Tuple[Library, ...]:
    """Each libnccl once, wherever links lead to it."""
    found: List[Library] = []
    seen = set()
    for folder in folders:
        path = "{0}/{1}".format(folder, _SONAME)
        if not host.exists(path):
            continue
        real = host.real_path(path)
        if real not in seen:
            seen.add(real)
            found.append(Library(path, version(host, real)))
    return tuple(found)


def version(host: Host, path: str) -> Optional[str]:
    """Of the file's name (``libnccl.so.2.28.9``), else of the text that the library prints."""
    found = _FILE.search(path)
    if found and found.group(1).count(".") == 2:
        return found.group(1)
    try:
        with open(host.path(path), "rb") as stream:
            length = min(os.fstat(stream.fileno()).st_size, _LOOKED_AT_BYTES)
            if not length:
                return None
            with mmap.mmap(stream.fileno(), length, access=mmap.ACCESS_READ) as content:
                banner = _BANNER.search(content)
                return banner.group(1).decode("ascii") if banner else None
    except (OSError, ValueError):
        return None


def plugins(host: Host, folders: Iterable[str] = FOLDERS) -> Tuple[str, ...]:
    """Network, tuner and environment plugins that NCCL would find there by their names."""
    return tuple(
        "{0}/{1}".format(folder, name)
        for folder in folders
        for name in host.names(folder)
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in _PLUGINS) and not re.search(r"\.so(\.\d+){2,}$", name)
    )
