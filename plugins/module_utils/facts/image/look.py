# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one look at an image: everything that its parts are judged by, read from files. No program is executed."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Optional, Tuple

from ...core.host import Host
from .. import fabric
from . import read_cuda, read_driver, read_jobs
from .files import Files
from .loader import Loader
from .packages import Packages
from .types import BrokenLink, Image

AZURE = "/opt/azurehpc/component_versions.txt"
DGX = "/etc/dgx-release"
#: Links that images are made of: one that leads nowhere is told.
LINKS = (
    "/usr/local/cuda",
    "/usr/local/cuda-[0-9]*",
    "/usr/local/nccl",
    "/opt/hpcx",
    "/opt/hpcx-*",
    "/opt/hpcx/current",
    "/opt/openmpi",
    "/opt/openmpi-*",
    "/opt/pmix/*",
    "/etc/alternatives/cuda*",
    "/etc/alternatives/mpi*",
    "/usr/bin/mpirun",
    "/usr/bin/mpicc",
)
_LIBRARY_FOLDERS = ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/local/lib", "/usr/local/cuda/lib64")
_LIBRARIES = re.compile(
    r"lib(nccl|nccl-net|cuda|cudart|nvidia-ml|cudnn|ucp|uct|ucs|ucm|mpi|pmix|gdrapi|ibverbs|nvidia-container)\.so(\.\d+)*"
)


def look(host: Host) -> Image:
    files = Files(host)
    packages = Packages(files, (*read_driver.PACKAGES, *read_cuda.PACKAGES, *read_jobs.PACKAGES))
    loader = Loader(files)
    kernel = files.line("/proc/sys/kernel/osrelease") or None
    following, has_driver = read_driver.next_kernel(files, kernel)
    of_hpcx = read_jobs.hpcx(files)
    slurm = read_jobs.slurm(files, loader, packages)
    return Image(
        distribution=_distribution(files),
        kernel=kernel,
        next_kernel=following,
        next_has_driver=has_driver,
        gpu_ids=read_driver.gpu_ids(files),
        gpus_driven=read_driver.gpus_driven(files),
        nvswitches=len(fabric.switches(host)),
        rdma_devices=tuple(files.names("/sys/class/infiniband")),
        driver=read_driver.driver(files, loader, packages, kernel),
        dkms=read_driver.dkms(files, kernel),
        toolkits=read_cuda.toolkits(files, packages),
        nccl=read_cuda.nccl(files, loader, packages),
        nccl_plugins=read_cuda.nccl_plugins(files, loader, of_hpcx),
        mpis=read_jobs.mpis(files, loader, packages, of_hpcx),
        mpi_commands=read_jobs.mpi_commands(files, read_jobs.login_path(files)),
        slurm=slurm,
        container_cli=read_jobs.container_cli(files, loader),
        broken_links=_broken(files),
        others=_others(files, loader, packages, of_hpcx),
        notes=(packages.note,) if packages.note else (),
    )


def _distribution(files: Files) -> str:
    told = dict(
        line.partition("=")[::2]
        for line in (files.read("/etc/os-release") or files.read("/usr/lib/os-release") or "").splitlines()
    )
    words = (told.get(name, "").strip().strip("\"'") for name in ("ID", "VERSION_ID"))
    return " ".join(word for word in words if word)


def _broken(files: Files) -> Tuple[BrokenLink, ...]:
    paths = [path for pattern in LINKS for path in files.glob(pattern)]
    for folder in [folder for pattern in _LIBRARY_FOLDERS for folder in files.glob(pattern)]:
        paths += [folder + "/" + name for name in files.names(folder) if _LIBRARIES.fullmatch(name)]
    return tuple(BrokenLink(path, files.target(path) or "") for path in dict.fromkeys(paths) if files.dangles(path))


def _others(
    files: Files, loader: Loader, packages: Packages, of_hpcx: List[Tuple[str, Optional[str]]]
) -> Dict[str, str]:
    ucx = read_jobs.pkgconfig(
        files, "/usr/lib*/pkgconfig/ucx.pc", "/usr/lib/*/pkgconfig/ucx.pc", "/opt/ucx*/lib/pkgconfig/ucx.pc"
    )
    if ucx is None:
        ucx = (packages.version("ucx", "libucx0") or "").split("-")[0] or None
    if ucx is None:
        ucx = read_jobs.pkgconfig(files, *(tree + "/ucx/lib/pkgconfig/ucx.pc" for tree, dummy in of_hpcx))
    found: Dict[str, Optional[str]] = {
        "cudnn": read_cuda.library_version(files, loader, "libcudnn.so.9", "libcudnn.so.8"),
        "dcgm": read_cuda.library_version(files, loader, "libdcgm.so.4", "libdcgm.so.3")
        or packages.version("datacenter-gpu-manager(?:-4-core)?"),
        "dcgm_exporter": packages.version("datacenter-gpu-manager-exporter|dcgm-exporter"),
        "ofed": read_jobs.ofed(files) or packages.version("doca-ofed", "mlnx-ofed-all", "mlnx-ofed-basic"),
        "rdma_core": packages.version("rdma-core"),
        "hpcx": ", ".join(version or "?" for dummy, version in of_hpcx),
        "ucx": ucx,
        "pmix": read_jobs.pmix(files),
        "gdrcopy": read_cuda.library_version(files, loader, "libgdrapi.so.2"),
        "container_toolkit": packages.version("nvidia-container-toolkit"),
        "enroot": packages.version(r"enroot(?:-hardened)?(?:\+caps)?"),
        "pyxis": "there" if _pyxis(files) else None,
        "docker": packages.version("docker-ce", "moby-engine", r"docker\.io", "docker"),
        "nccl_tests": _first(files, "/opt/nccl-tests/build/all_reduce_perf", "/usr/local/bin/all_reduce_perf"),
        "nvbandwidth": _first(
            files, "/opt/nvidia/nvbandwidth/nvbandwidth", "/usr/local/bin/nvbandwidth", "/usr/bin/nvbandwidth"
        ),
        "dgx": _told(files, DGX, r"DGX_SWBUILD_VERSION=\"?([\w.-]+)"),
        "azure_hpc": _azure(files),
    }
    return {name: version for name, version in found.items() if version}


def _pyxis(files: Files) -> bool:
    return bool(files.glob("/usr/local/lib/slurm/spank_pyxis.so") or files.glob("/usr/lib*/slurm/spank_pyxis.so"))


def _first(files: Files, *paths: str) -> Optional[str]:
    return next((path for path in paths if files.exists(path)), None)


def _told(files: Files, path: str, pattern: str) -> Optional[str]:
    found = re.search(pattern, files.read(path) or "")
    return found.group(1) if found is not None else None


def _azure(files: Files) -> Optional[str]:
    """What Azure's HPC images say of themselves, as components with their versions."""
    try:
        content: Any = json.loads(files.read(AZURE) or "")
    except ValueError:
        return None
    return ", ".join("{0} {1}".format(*pair) for pair in sorted(content.items())) if isinstance(content, dict) else None
