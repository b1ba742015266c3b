# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read CUDA's toolkits, NCCL with its plugins, and other libraries of NVIDIA in an image."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Optional, Tuple

from . import elf, loader
from .files import Files
from .loader import Loader
from .packages import Packages
from .types import Library, Toolkit
from .version import numbers

PACKAGES = (
    "libnccl2?",
    "nvidia-cuda-toolkit",
    "libcudnn[89](?:-cuda-\\d+)?",
    "cudnn[89]?(?:-cuda-\\d+)?",
    "datacenter-gpu-manager(?:-4-core)?",
    "datacenter-gpu-manager-exporter|dcgm-exporter",
)
#: Where libnccl may lie beside the folders of ld.so: CUDA's toolkit, and what images and sites build themselves.
NCCL_FOLDERS = (
    "/usr/local/cuda/lib64",
    "/usr/local/nccl/lib",
    "/usr/local/nccl/build/lib",
    "/opt/nccl/lib",
    "/opt/nccl/build/lib",
)
#: Where the plugin for RDMA and SHARP lies beside HPC-X: what Azure's images build.
PLUGIN_FOLDERS = ("/usr/local/nccl-rdma-sharp-plugins/lib", "/usr/local/lib", "/opt/nccl-rdma-sharp-plugins/lib")
_PLUGIN = "libnccl-net.so"
_VERSION_IN_NAME = re.compile(r"\.so\.(\d+(?:\.\d+)+)$")
# "NCCL version 2.21.5+cuda12.4" (VERSION_STRING in src/init.cc); suffixes such as b1 mark betas.
_BANNER = re.compile(rb"NCCL version (\d+\.\d+\.\d+)[a-z0-9]*(?:\+cuda(\d+\.\d+))?")
_OF_PACKAGE = re.compile(r"(\d+\.\d+\.\d+).*\+cuda(\d+\.\d+)")
_CONSTANTS_MAX = 16 << 20


def toolkits(files: Files, packages: Packages) -> Tuple[Toolkit, ...]:
    """Oldest first, each once, by its own path."""
    default = files.real("/usr/local/cuda")
    found: Dict[str, Toolkit] = {}
    for path in [*files.glob("/usr/local/cuda-[0-9]*"), "/usr/local/cuda"]:
        real = files.real(path)
        if real is None or real in found:
            continue
        version = _toolkit_version(files, real)
        if version is not None or files.exists(real + "/bin/nvcc"):
            compat = files.exists(real + "/compat/libcuda.so.1")
            found[real] = Toolkit(real, version, real == default, compat)
    packaged = packages.version("nvidia-cuda-toolkit")
    if packaged is not None and files.exists("/usr/lib/cuda"):
        found["/usr/lib/cuda"] = Toolkit("/usr/lib/cuda", packaged.split("-")[0].split("~")[0], not default)
    return tuple(sorted(found.values(), key=lambda one: numbers(one.version or "")))


def _toolkit_version(files: Files, path: str) -> Optional[str]:
    text = files.read(path + "/version.json")
    if text is not None:
        try:
            content: Any = json.loads(text)
            found = str(content["cuda"]["version"])
            if numbers(found):
                return found
        except (ValueError, KeyError, TypeError):
            pass
    told = re.search(r"CUDA Version (\d+(?:\.\d+)+)", files.read(path + "/version.txt") or "")
    if told is None:
        told = re.search(r"cuda-(\d+\.\d+)$", path)
    return told.group(1) if told is not None else None


def nccl(files: Files, libraries: Loader, packages: Packages) -> Tuple[Library, ...]:
    """Each libnccl once, the one that ld.so gives first."""
    used = libraries.find("libnccl.so.2")
    paths = [] if used is None else [used]
    paths += [folder + "/libnccl.so.2" for folder in NCCL_FOLDERS if files.has(folder, "libnccl.so.2")]
    package = _OF_PACKAGE.match(packages.version("libnccl2", "libnccl") or "")
    found: Dict[str, Library] = {}
    for path in paths:
        real = files.real(path)
        if real is None or real in found:
            continue
        named = _VERSION_IN_NAME.search(real)
        version = named.group(1) if named is not None else None
        cuda = None
        if package is not None and path == used and version == package.group(1):
            cuda = package.group(2)
        else:
            constants = elf.section(files.host.path(real), ".rodata", _CONSTANTS_MAX) or b""
            banner = _BANNER.search(constants)
            if banner is not None:
                version = banner.group(1).decode()
                cuda = banner.group(2).decode() if banner.group(2) else None
        found[real] = Library(path, version, cuda, path == used)
    return tuple(found.values())


def nccl_plugins(files: Files, libraries: Loader, hpcx: List[Tuple[str, Optional[str]]]) -> Tuple[Library, ...]:
    """NCCL's plugins for the network, each with what it needs and does not find: beside ld.so's folders in those of the
    HPC-X that jobs load with it."""
    folders = tuple(
        tree + part for tree, dummy in hpcx for part in ("/ucx/lib", "/sharp/lib", "/ucc/lib", "/hcoll/lib")
    )
    folders += ("/opt/mellanox/sharp/lib",)
    paths = [tree + "/nccl_rdma_sharp_plugin/lib/" + _PLUGIN for tree, dummy in hpcx]
    paths += [folder + "/" + _PLUGIN for folder in PLUGIN_FOLDERS]
    found: Dict[str, Library] = {}
    given = libraries.find(_PLUGIN)
    for path in [*paths, *([given] if given is not None else [])]:
        real = files.real(path)
        if real is not None and real not in found:
            missing = libraries.missing(path, folders)
            found[real] = Library(path, None, None, path == given, tuple(sorted(loader.names(missing))))
    return tuple(found.values())


def library_version(files: Files, libraries: Loader, *names: str) -> Optional[str]:
    """The version in the name that the first of these libraries has in the end."""
    for name in names:
        path = libraries.find(name)
        found = _VERSION_IN_NAME.search(files.real(path) or "") if path is not None else None
        if found is not None:
            return found.group(1)
    return None
