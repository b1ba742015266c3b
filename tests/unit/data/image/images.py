# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Four invented images, file by file as far as anything reads them, after Azure HPC on Ubuntu 22.04, DGX OS 6, EL 9
with the driver from NVIDIA's repository, and a Debian 12 with nothing of this on it.

Their files lie where those of these images do. Their versions are those of no release: they have the form of real ones
and fit each other, so each image is in good health.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Callable

from .binaries import cache, elf, module, rpmdb

#: PCI ids of GPUs.
A100, H100, V100, B200 = "20b0", "2330", "1db5", "2901"
LIB = "/usr/lib/x86_64-linux-gnu"
LIB64 = "/usr/lib64"


class Root:
    """A folder that becomes the root of an image."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.libraries: dict[str, str] = {}

    def at(self, path: str) -> Path:
        return self.path / path.lstrip("/")

    def file(self, path: str, content: str | bytes = "", mode: int = 0o644) -> None:
        self.at(path).parent.mkdir(parents=True, exist_ok=True)
        self.at(path).write_bytes(content.encode() if isinstance(content, str) else content)
        self.at(path).chmod(mode)

    def program(self, path: str, content: str | bytes = "#!/bin/sh\n") -> None:
        self.file(path, content, 0o755)

    def link(self, path: str, target: str) -> None:
        self.at(path).parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(self.at(path)):
            self.at(path).unlink()
        self.at(path).symlink_to(target)

    def merged(self, folder: str) -> None:
        """A folder that is the one of its name in /usr."""
        self.at("/usr" + folder).mkdir(parents=True, exist_ok=True)
        self.link(folder, "usr" + folder)

    def remove(self, path: str) -> None:
        self.at(path).unlink()

    def library(
        self, folder: str, soname: str, real: str = "", content: bytes | None = None, cached: bool = True
    ) -> None:
        """A library and the link of its name to it."""
        real = real or soname
        self.file("{0}/{1}".format(folder, real), elf(soname=soname) if content is None else content)
        if real != soname:
            self.link("{0}/{1}".format(folder, soname), real)
        if cached:
            self.libraries[soname] = "{0}/{1}".format(folder, soname)

    def ldconfig(self) -> None:
        self.file("/etc/ld.so.cache", cache(self.libraries))

    def dpkg(self, packages: dict[str, str], removed: tuple[str, ...] = ()) -> None:
        blocks = [
            "Package: {0}\nStatus: install ok installed\nPriority: optional\nSection: libs\nArchitecture: amd64\n"
            "Version: {1}\nDescription: a package\n of several lines\n".format(name, version)
            for name, version in packages.items()
        ]
        blocks += ["Package: {0}\nStatus: deinstall ok config-files\nVersion: 1.0-1\n".format(name) for name in removed]
        self.file("/var/lib/dpkg/status", "\n".join(blocks) + "\n")

    # The kernel ---------------------------------------------------------------------------------------

    def kernel(self, name: str, modules: tuple[str, ...] = (), running: bool = True) -> None:
        self.file("/boot/vmlinuz-" + name)
        self.file("/lib/modules/{0}/modules.dep".format(name), "".join(one + ":\n" for one in modules))
        if running:
            self.file("/proc/sys/kernel/osrelease", name + "\n")

    def loaded(self, *names: str) -> None:
        self.file("/proc/modules", "".join("{0} 16384 0 - Live 0x0\n".format(name) for name in names))
        for name in names:
            self.at("/sys/module/" + name).mkdir(parents=True, exist_ok=True)

    def driver(self, version: str, kind: str) -> None:
        """NVIDIA's module is loaded."""
        what = {
            "proprietary": "NVIDIA UNIX x86_64 Kernel Module  ",
            "open": "NVIDIA UNIX Open Kernel Module for x86_64  ",
        }[kind]
        date = "  Sat Feb 17 22:55:48 UTC 2024\nGCC version:  gcc version 11.4.0\n"
        self.file("/proc/driver/nvidia/version", "NVRM version: " + what + version + date)
        self.file("/sys/module/nvidia/version", version + "\n")

    def pci(self, gpus: tuple[str, ...], switches: int = 0) -> None:
        devices = [(one, "0x030200") for one in gpus] + [("1af1", "0x068000")] * switches
        for number, (device, kind) in enumerate(devices):
            folder = "/sys/bus/pci/devices/{0:04x}:00:00.0/".format(number + 1)
            self.file(folder + "vendor", "0x10de\n")
            self.file(folder + "device", "0x{0}\n".format(device))
            self.file(folder + "class", kind + "\n")

    def dkms(self, name: str, version: str, kernel: str, built: tuple[str, ...]) -> None:
        self.file("/usr/src/{0}-{1}/dkms.conf".format(name, version), 'BUILT_MODULE_NAME[0]="{0}"\n'.format(built[0]))
        self.link("/var/lib/dkms/{0}/{1}/source".format(name, version), "/usr/src/{0}-{1}".format(name, version))
        for one in built:
            self.file("/var/lib/dkms/{0}/{1}/{2}/x86_64/module/{3}.ko".format(name, version, kernel, one))

    # What jobs use ------------------------------------------------------------------------------------

    def cuda(self, version: str, default: bool = True) -> None:
        short = ".".join(version.split(".")[:2])
        told = {"cuda": {"name": "CUDA SDK", "version": version}, "nvidia_driver": {"version": "1"}}
        self.file("/usr/local/cuda-{0}/version.json".format(short), json.dumps(told))
        self.program("/usr/local/cuda-{0}/bin/nvcc".format(short))
        if default:
            self.link("/etc/alternatives/cuda", "/usr/local/cuda-" + short)
            self.link("/usr/local/cuda", "/etc/alternatives/cuda")

    def nccl(self, folder: str, version: str, cuda: str) -> None:
        banner = "junk\0NCCL version {0}+cuda{1}\0more".format(version, cuda).encode()
        content = elf(soname="libnccl.so.2", sections={".nv_fatbin": bytes(4096), ".rodata": banner})
        self.library(folder, "libnccl.so.2", "libnccl.so." + version, content)

    def open_mpi(self, path: str, version: str, runpath: str = "", plugin: str = "lib/openmpi") -> None:
        self.program(path + "/bin/mpirun")
        self.program(path + "/bin/mpicc")
        self.file(path + "/lib/libmpi.so.40", elf(soname="libmpi.so.40"))
        self.file("{0}/{1}/mca_pml_ucx.so".format(path, plugin), elf(("libucp.so.0", "libc.so.6"), runpath=runpath))
        self.file(path + "/lib/pkgconfig/ompi.pc", "Name: Open MPI\nVersion: {0}\n".format(version))

    def hpcx(self, path: str, version: str) -> None:
        self.file(path + "/VERSION", "HPC-X v{0}\n".format(version))
        self.file(path + "/hpcx-init.sh")
        self.open_mpi(path + "/ompi", "4.1.7", "$ORIGIN/../../../ucx/lib")
        self.file(path + "/ucx/lib/libucp.so.0", elf(("libucs.so.0",), "libucp.so.0", runpath="$ORIGIN"))
        self.file(path + "/ucx/lib/libucs.so.0", elf(soname="libucs.so.0"))
        self.file(path + "/ucx/lib/pkgconfig/ucx.pc", "Name: ucx\nVersion: 1.16.0\n")
        self.file(path + "/sharp/lib/libsharp_coll.so.5", elf(soname="libsharp_coll.so.5"))
        plugin = elf(("libsharp_coll.so.5", "libucp.so.0", "libcuda.so.1", "libc.so.6"))
        self.file(path + "/nccl_rdma_sharp_plugin/lib/libnccl-net.so", plugin)

    def slurm(self, folder: str, libpmix: str, wanted: str = "pmix") -> None:
        """Slurm with its plugin for PMIx, and a job template that uses it."""
        self.program("/usr/sbin/slurmd")
        self.file(folder + "/auth_munge.so", elf())
        self.file(folder + "/mpi_pmix_v4.so", elf(sections={".rodata": libpmix.encode() + b"\0"}))
        self.link(folder + "/mpi_pmix.so", "mpi_pmix_v4.so")
        script = "/etc/gpu_node/job_templates/nccl.slurm.sh"
        self.file(script, "#!/bin/bash\nsrun --mpi={0} true\n".format(wanted))
        self.file("/etc/gpu_node/node.json", json.dumps({"job_templates": {"files": [script]}}))


def azure_hpc(path: Path) -> Root:
    """Invented, after microsoft-dsvm:ubuntu-hpc:2204 on an ND96asr_v4."""
    root, kernel = Root(path), "5.15.0-1064-azure"
    root.file("/etc/os-release", 'PRETTY_NAME="Ubuntu 22.04.4 LTS"\nID=ubuntu\nVERSION_ID="22.04"\n')
    root.file("/etc/environment", 'PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"\n')
    root.merged("/lib")
    root.merged("/bin")
    root.merged("/sbin")
    root.file("/opt/azurehpc/component_versions.txt", json.dumps({"OFED": "24.01-0.3.3.1", "CUDA": "12.2"}))
    root.kernel(
        kernel,
        (
            "updates/dkms/nvidia.ko",
            "updates/dkms/nvidia-peermem.ko",
            "updates/dkms/gdrdrv.ko",
            "updates/dkms/mlx5_core.ko",
        ),
    )
    root.file("/lib/modules/{0}/updates/dkms/nvidia.ko".format(kernel), module("535.161.08", "NVIDIA"))
    root.driver("535.161.08", "proprietary")
    root.loaded("nvidia", "nvidia_peermem", "mlx5_core")
    root.pci((A100,) * 8, switches=6)
    for number in range(8):
        root.file("/sys/class/infiniband/mlx5_{0}/node_type".format(number), "1: CA\n")
    root.dkms("nvidia", "535.161.08", kernel, ("nvidia", "nvidia-uvm"))
    root.dkms("gdrdrv", "2.4.1", kernel, ("gdrdrv",))
    root.dkms("mlnx-ofed-kernel", "24.01.OFED.24.01.0.3.3.1", kernel, ("mlx5_core",))
    root.program("/usr/bin/nv-fabricmanager")
    root.program("/usr/bin/nvidia-persistenced")
    root.library(LIB, "libc.so.6")
    root.library(LIB, "libcuda.so.1", "libcuda.so.535.161.08")
    root.library(LIB, "libnvidia-ml.so.1", "libnvidia-ml.so.535.161.08")
    root.cuda("12.2.2")
    root.nccl(LIB, "2.19.3", "12.2")
    root.library(LIB, "libdcgm.so.3", "libdcgm.so.3.3.3")
    root.library(LIB, "libgdrapi.so.2", "libgdrapi.so.2.4")
    root.library(LIB, "libnvidia-container.so.1", "libnvidia-container.so.1.14.6")
    root.program("/usr/bin/nvidia-container-cli", elf(("libnvidia-container.so.1", "libc.so.6")))
    root.program(
        "/usr/bin/ofed_info", '#!/bin/bash\nif [ "$1" == "-s" ]; then\n echo MLNX_OFED_LINUX-24.01-0.3.3.1:\nfi\n'
    )
    hpcx = "/opt/hpcx-v2.18-gcc-mlnx_ofed-ubuntu22.04-cuda12-x86_64"
    root.hpcx(hpcx, "2.18")
    root.file(
        "/usr/local/nccl-rdma-sharp-plugins/lib/libnccl-net.so",
        elf(("libucp.so.0", "libsharp_coll.so.5", "libc.so.6"), runpath=hpcx + "/sharp/lib"),
    )
    root.program("/opt/mvapich2-2.3.7-1/bin/mpirun")
    root.program("/opt/intel/oneapi/mpi/2021.9.0/bin/mpiexec.hydra")
    root.program("/opt/nccl-tests/build/all_reduce_perf")
    root.program("/opt/nvidia/nvbandwidth/nvbandwidth")
    root.file("/opt/pmix/4.2.9/lib/libpmix.so", elf(soname="libpmix.so.2"))
    root.slurm(LIB + "/slurm", "/opt/pmix/4.2.9/lib/libpmix.so")
    root.dpkg(
        {
            "libnccl2": "2.19.3-1+cuda12.2",
            "nvidia-fabricmanager-535": "535.161.08-1",
            "datacenter-gpu-manager": "1:3.3.3",
            "nvidia-container-toolkit": "1.14.6-1",
            "moby-engine": "24.0.9-ubuntu22.04u1",
            "slurm-smd-slurmd": "23.11.7-1",
            "rdma-core": "2307mlnx47-1.2401033",
        },
        removed=("nvidia-fabricmanager-525",),
    )
    root.ldconfig()
    return root


def dgx_os(path: Path) -> Root:
    """Invented, after DGX OS 6 on a DGX H100: Ubuntu 22.04, the open driver prebuilt for NVIDIA's kernel, DOCA-OFED."""
    root, kernel = Root(path), "5.15.0-1046-nvidia"
    root.file("/etc/os-release", 'NAME="Ubuntu"\nID=ubuntu\nVERSION_ID="22.04"\n')
    root.file(
        "/etc/dgx-release", 'DGX_NAME="DGX Server"\nDGX_PRETTY_NAME="NVIDIA DGX Server"\nDGX_SWBUILD_VERSION="6.2.0"\n'
    )
    root.merged("/lib")
    root.kernel(kernel, ("kernel/nvidia-550srv-open/nvidia.ko.zst", "kernel/nvidia-550srv-open/nvidia-peermem.ko.zst"))
    root.file("/lib/modules/{0}/kernel/nvidia-550srv-open/nvidia.ko.zst".format(kernel), b"(\xb5/\xfd")
    root.driver("550.90.07", "open")
    root.loaded("nvidia", "nvidia_peermem", "mlx5_core")
    root.file("/lib/firmware/nvidia/550.90.07/gsp_ga10x.bin")
    root.pci((H100,) * 8, switches=4)
    root.file("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n")
    root.library(LIB, "libc.so.6")
    root.library(LIB, "libcuda.so.1", "libcuda.so.550.90.07")
    root.library(LIB, "libnvidia-ml.so.1", "libnvidia-ml.so.550.90.07")
    root.program("/usr/bin/nv-fabricmanager")
    root.cuda("12.4.1")
    root.cuda("11.8.0", default=False)
    root.nccl(LIB, "2.21.5", "12.4")
    root.library(LIB, "libdcgm.so.3", "libdcgm.so.3.3.6")
    root.library(LIB, "libnvidia-container.so.1", "libnvidia-container.so.1.15.0")
    root.program("/usr/bin/nvidia-container-cli", elf(("libnvidia-container.so.1", "libc.so.6")))
    # Open MPI of MLNX_OFED is the only one that logins find.
    root.library(LIB, "libucp.so.0", "libucp.so.0.0.0")
    root.open_mpi("/usr/mpi/gcc/openmpi-4.1.7a1", "4.1.7")
    root.file("/etc/profile.d/openmpi.sh", "export PATH=/usr/mpi/gcc/openmpi-4.1.7a1/bin:$PATH\n")
    root.dpkg(
        {
            "libnccl2": "2.21.5-1+cuda12.4",
            "nvidia-fabricmanager-550": "550.90.07-0ubuntu0.22.04.1",
            "doca-ofed": "2.7.0",
            "docker-ce": "5:26.1.3-1~ubuntu.22.04~jammy",
            "nvidia-container-toolkit": "1.15.0-1",
        }
    )
    root.ldconfig()
    return root


def el9(path: Path) -> Root:
    """Invented, after Rocky Linux 9 with V100: driver and CUDA of NVIDIA's repository, Open MPI of the distribution."""
    root, kernel = Root(path), "5.14.0-427.13.1.el9_4.x86_64"
    root.file("/etc/os-release", 'NAME="Rocky Linux"\nID="rocky"\nVERSION_ID="9.4"\n')
    root.merged("/lib")
    root.merged("/lib64")
    root.kernel(kernel, ("extra/nvidia.ko.xz", "weak-updates/gdrdrv.ko.xz"))
    root.file("/lib/modules/{0}/extra/nvidia.ko.xz".format(kernel), b"\xfd7zXZ")
    root.driver("570.86.15", "proprietary")
    root.loaded("nvidia")
    root.pci((V100,) * 4)
    root.dkms("nvidia", "570.86.15", kernel, ("nvidia",))
    # Built for the kernel before; weak-modules(8) has this one use it.
    root.dkms("gdrdrv", "2.5", "5.14.0-362.el9.x86_64", ("gdrdrv",))
    root.library(LIB64, "libc.so.6")
    root.library(LIB64, "libcuda.so.1", "libcuda.so.570.86.15")
    root.library(LIB64, "libnvidia-ml.so.1", "libnvidia-ml.so.570.86.15")
    root.cuda("12.8.0")
    root.nccl(LIB64, "2.25.1", "12.8")
    root.library(LIB64, "libucp.so.0", "libucp.so.0.0.0")
    root.open_mpi(LIB64 + "/openmpi", "4.1.1")
    root.library(LIB64, "libpmix.so.2", "libpmix.so.2.9.3")
    root.slurm(LIB64 + "/slurm", "libpmix.so.2")
    rpmdb(
        root.at("/var/lib/rpm/rpmdb.sqlite"),
        {
            "bash": "5.1.8-9.el9",
            "libnccl": "2.25.1-1+cuda12.8",
            "openmpi": "4.1.1-7.el9",
            "ucx": "1.15.0-2.el9",
            "rdma-core": "48.0-1.el9",
            "slurm-slurmd": "22.05.9-1.el9",
            "datacenter-gpu-manager-4-core": "4.1.1-1",
        },
    )
    root.ldconfig()
    return root


def bare_debian(path: Path) -> Root:
    """Invented: a Debian 12 without any of it, and without a cache of ld.so."""
    root = Root(path)
    root.file("/etc/os-release", 'ID=debian\nVERSION_ID="12"\n')
    root.merged("/lib")
    root.kernel("6.1.0-28-amd64")
    root.file("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
    root.file("/etc/ld.so.conf.d/x86_64-linux-gnu.conf", "# Multiarch support\n{0}\n".format(LIB))
    root.library(LIB, "libc.so.6")
    root.dpkg({"bash": "5.2.15-2", "rdma-core": "44.0-2"})
    return root


IMAGES: dict[str, Callable[[Path], Root]] = {
    "azure_hpc": azure_hpc,
    "dgx_os": dgx_os,
    "el9": el9,
    "bare_debian": bare_debian,
}
