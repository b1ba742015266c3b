# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what jobs communicate and start with: HPC-X, MPI, UCX, PMIx and Slurm's plugin for it, containers."""

from __future__ import annotations

import os
import re
import stat
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ...core.declaration import PATH, WISH
from .files import Files
from .loader import Loader, names
from .packages import Packages
from .read_cuda import library_version
from .types import Command, ContainerCli, Library, Mpi, Slurm

PACKAGES = (
    "openmpi(?:-bin)?",
    "mpich",
    "ucx|libucx0",
    "rdma-core",
    "doca-ofed|mlnx-ofed-all|mlnx-ofed-basic",
    "slurm|slurmd|slurm-smd|slurm-smd-slurmd|slurm-slurmd",
    "nvidia-container-toolkit",
    r"enroot(?:-hardened)?(?:\+caps)?",
    "docker-ce|moby-engine|docker\\.io|docker",
    "libgdrapi|gdrcopy",
)
_HPCX = ("/opt/hpcx-*", "/opt/hpcx", "/opt/hpcx/*", "/usr/local/hpcx-*", "/usr/local/hpcx")
_OPEN_MPI = (
    "/opt/openmpi-*",
    "/opt/openmpi",
    "/usr/mpi/gcc/openmpi-*",
    "/usr/local/openmpi*",
    "/usr/lib/*-linux-gnu/openmpi",
    "/usr/lib64/openmpi",
)
_OTHER_MPIS = (
    ("mvapich", ("/opt/mvapich-*", "/opt/mvapich2-*", "/usr/mpi/gcc/mvapich*"), "bin/mpirun"),
    ("mpich", ("/opt/mpich-*", "/usr/lib64/mpich", "/usr/lib/*-linux-gnu/mpich"), "bin/mpirun"),
    ("intel_mpi", ("/opt/intel/oneapi/mpi/[0-9]*", "/opt/intel/impi/[0-9]*"), "bin/mpiexec.hydra"),
)
_COMMANDS = ("mpirun", "mpiexec", "mpicc")
_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_PLUGIN_FOLDERS = (
    "/usr/lib64/slurm",
    "/usr/lib/slurm",
    "/usr/lib/*-linux-gnu/slurm",
    "/usr/lib/*-linux-gnu/slurm-wlm",
    "/usr/local/lib/slurm",
    "/opt/slurm/lib/slurm",
    "/opt/slurm/lib64/slurm",
)
_IN_NAME = re.compile(r"-v?(\d+(?:\.\d+)+)")
_LIBPMIX = re.compile(rb"(?:/[\w.+/-]+/)?libpmix\.so(?:\.\d+)*")
# The folder that --with-pmix named when Slurm was built (PMIXP_V4_LIBPATH in src/plugins/mpi/pmix/mpi_pmix.c), a string
# of its own, which the plugin puts before the name. In Debian 12's libpmix.so is there with libpmix-dev alone.
_PMIX_FOLDER = re.compile(rb"(?<=\0)/[\w.+/-]*pmix[\w.+/-]*/lib(?:64)?(?=\0)")
_PLUGIN_MAX = 8 << 20


# HPC-X and MPI ----------------------------------------------------------------------------------------


def hpcx(files: Files) -> List[Tuple[str, Optional[str]]]:
    """Path and version of each HPC-X, by its own path."""
    found: Dict[str, Optional[str]] = {}
    for pattern in _HPCX:
        for path in files.glob(pattern):
            real = files.real(path)
            if real is None or real in found or not files.exists(real + "/ompi/bin/mpirun"):
                continue
            told = re.search(r"v?(\d+(?:\.\d+)+)", (files.read(real + "/VERSION") or "")[:200])
            told = told or _IN_NAME.search(os.path.basename(real))
            found[real] = told.group(1) if told is not None else None
    return list(found.items())


def mpis(files: Files, loader: Loader, packages: Packages, of_hpcx: List[Tuple[str, Optional[str]]]) -> Tuple[Mpi, ...]:
    found: Dict[str, Mpi] = {}
    paths = [(tree + "/ompi", "hpcx") for tree, dummy in of_hpcx]
    paths += [(path, "") for pattern in _OPEN_MPI for path in files.glob(pattern)]
    for path, owner in paths:
        real = files.real(path)
        if real is None or real in found or not any(files.exists(real + one) for one in ("/bin/mpirun", "/lib")):
            continue
        found[real] = _open_mpi(files, loader, packages, real, owner)
    for kind, patterns, program in _OTHER_MPIS:
        for path in [path for pattern in patterns for path in files.glob(pattern)]:
            real = files.real(path)
            if real is not None and real not in found and files.exists("{0}/{1}".format(real, program)):
                told = _IN_NAME.search(os.path.basename(real)) or re.search(r"/(\d+(?:\.\d+)+)$", real)
                version = told.group(1) if told is not None else packages.version(kind) if kind == "mpich" else None
                found[real] = Mpi(kind, real, version)
    return tuple(found.values())


def _open_mpi(files: Files, loader: Loader, packages: Packages, path: str, owner: str) -> Mpi:
    told = re.search(r"^Version:\s*(\d+(?:\.\d+)+)", files.read(path + "/lib/pkgconfig/ompi.pc") or "", re.MULTILINE)
    told = told or _IN_NAME.search(os.path.basename(path))
    version = told.group(1) if told is not None else None
    if version is None and not owner:
        version = (packages.version("openmpi-bin", "openmpi") or "").split("-")[0] or None
    # A component of its own up to Open MPI 4, in libmpi itself from 5 on.
    components = files.glob(path + "/lib/openmpi*/mca_pml_ucx.so")
    inside = path + "/lib/libmpi.so.40"
    read = loader.elf(inside)
    if not components and read is not None and any(one.startswith("libucp.so") for one in read.needed):
        components = [inside]
    folders = (path + "/lib", *((os.path.dirname(path) + "/ucx/lib",) if owner else ()))
    missing = sorted({name for one in components for name in names(loader.missing(one, folders))})
    return Mpi("openmpi", path, version, owner, bool(components), tuple(missing))


def login_path(files: Files) -> Tuple[str, ...]:
    """The folders that a login searches for programs, as far as plain files say it: /etc/environment, or the usual
    ones, and what scripts of /etc/profile.d put before or after them."""
    told = re.search(r"^\s*(?:export\s+)?PATH=[\"']?([^\"'\n]+)", files.read("/etc/environment") or "", re.MULTILINE)
    folders = told.group(1).split(":") if told is not None else list(_PATH)
    for script in files.glob("/etc/profile.d/*.sh"):
        for line in re.findall(r"^\s*(?:export\s+)?PATH=[\"']?([^\"'\n;#]+)", files.read(script) or "", re.MULTILINE):
            parts = line.strip().split(":")
            at = next((place for place, one in enumerate(parts) if one in ("$PATH", "${PATH}")), None)
            if at is not None:
                folders = [*parts[:at], *folders, *parts[at + 1 :]]
    plain = [one.rstrip("/") for one in folders if one.startswith("/") and "$" not in one]
    return tuple(dict.fromkeys(plain))


def mpi_commands(files: Files, folders: Tuple[str, ...]) -> Tuple[Command, ...]:
    """The commands of MPI that a login finds, each in the first folder that has it."""
    found = []
    for name in _COMMANDS:
        for path in files.programs(folders, name)[:1]:
            found.append(Command(name, path, files.real(path) or path))
    return tuple(found)


def pkgconfig(files: Files, *patterns: str) -> Optional[str]:
    """The version that a file of pkg-config tells."""
    for path in [each for pattern in patterns for each in files.glob(pattern)]:
        told = re.search(r"^Version:\s*(\d+(?:\.\d+)+)", files.read(path) or "", re.MULTILINE)
        if told is not None:
            return told.group(1)
    return None


def ofed(files: Files) -> Optional[str]:
    """What ``ofed_info -s`` prints, which is a text in that script."""
    for path in files.programs(("/usr/bin", "/usr/sbin"), "ofed_info"):
        told = re.search(r"\b((?:MLNX_OFED_LINUX|MLNX_EN|OFED-internal)-\d[\w.-]*)", files.read(path) or "")
        if told is not None:
            return told.group(1).rstrip(".-")
    return None


# Slurm and PMIx ---------------------------------------------------------------------------------------


def slurm(files: Files, loader: Loader, packages: Packages) -> Optional[Slurm]:
    """None: it is not on this image."""
    programs = files.programs(("/usr/sbin", "/usr/local/sbin", "/opt/slurm/sbin"), "slurmd")
    version = packages.version("slurm-smd-slurmd", "slurm-smd", "slurm-slurmd", "slurmd", "slurm")
    folders = tuple(
        path for pattern in _PLUGIN_FOLDERS for path in files.glob(pattern) if files.has(path, "auth_munge.so")
    )
    if not programs and not folders:
        return None
    plugins = [path for folder in folders for path in files.glob(folder + "/mpi_pmix*.so")]
    found = tuple(Library(path, None, missing=_pmix_missing(files, loader, path)) for path in plugins)
    return Slurm((version or "").split("-")[0] or None, folders, found, _wanted(files))


def _pmix_missing(files: Files, loader: Loader, plugin: str) -> Tuple[str, ...]:
    """The plugin loads libpmix when a job starts: by the path that it was built with, or by its name."""
    missing = set(names(loader.missing(plugin)))
    content = files.content(plugin, _PLUGIN_MAX) or b""
    wanted = {one.decode() for one in _LIBPMIX.findall(content)}
    if "libpmix.so" in wanted:
        wanted = {one.decode() + "/libpmix.so" for one in _PMIX_FOLDER.findall(content)} or wanted
    there = [one for one in wanted if (files.exists(one) if "/" in one else loader.find(one) is not None)]
    if wanted and not there:
        missing |= wanted
    return tuple(sorted(missing))


def pmix(files: Files) -> Optional[str]:
    """The versions of PMIx in its usual place, and that of the distribution."""
    found: Dict[str, None] = {}
    for path in files.glob("/opt/pmix/*"):
        if files.exists(path + "/lib/libpmix.so"):
            told = pkgconfig(files, path + "/lib/pkgconfig/pmix.pc") or os.path.basename(path)
            found[told] = None
    packaged = pkgconfig(
        files, "/usr/lib*/pkgconfig/pmix.pc", "/usr/lib/*/pkgconfig/pmix.pc", "/usr/lib/*/pmix2/lib/pkgconfig/pmix.pc"
    )
    if packaged is not None:
        found[packaged] = None
    return ", ".join(found) or None


def _wanted(files: Files) -> str:
    """What the job templates of this node give to srun --mpi; empty where there are none."""
    section = _section(files, PATH, "job_templates")
    written = section.get("files")
    for path in written if isinstance(written, list) else ():
        told = re.search(r"--mpi=([\w-]+)", files.read(str(path)) or "") if str(path).startswith("/") else None
        if told is not None:
            return told.group(1)
    section = _section(files, WISH, "job_templates")
    return str(section.get("slurm_mpi") or "pmix") if section and section.get("state") != "absent" else ""


def _section(files: Files, path: str, name: str) -> Mapping[str, Any]:
    import json  # few machines without a declaration need it

    try:
        section = json.loads(files.read(path) or "{}").get(name)
    except (ValueError, AttributeError):
        return {}
    return section if isinstance(section, dict) else {}


# Containers -------------------------------------------------------------------------------------------


def container_cli(files: Files, loader: Loader) -> Optional[ContainerCli]:
    paths = files.programs(("/usr/bin", "/usr/local/bin"), "nvidia-container-cli")
    if not paths:
        return None
    version = library_version(files, loader, "libnvidia-container.so.1")
    needs = stat.S_IROTH | stat.S_IXOTH
    return ContainerCli(
        paths[0],
        version,
        (files.mode(paths[0]) or 0) & needs == needs,
        tuple(sorted(names(loader.missing(paths[0])))),
    )
