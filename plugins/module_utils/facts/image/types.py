# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an image holds, as far as its parts must fit each other."""

from __future__ import annotations

from typing import Mapping, Optional, Tuple

from ...core.frozen import frozen

OPEN, PROPRIETARY = "open", "proprietary"


@frozen
class Library:
    """``cuda``: the version of CUDA that it was built for. ``used``: it is the one that ld.so gives. ``missing``:
    libraries that it needs and that are not found."""

    path: str
    version: Optional[str]
    cuda: Optional[str] = None
    used: bool = False
    missing: Tuple[str, ...] = ()


@frozen
class Driver:
    """NVIDIA's driver. ``loaded``: the version of the module in the kernel. ``module``: the version of the module on
    disk for the running kernel, ``module_path`` its path (its version may be unknown). ``library``: the version of the
    libraries. ``kind``: open or proprietary. ``firmware``: GSP firmware of this version is there, or runs. ``nouveau``:
    it is loaded, and may hold GPUs that NVIDIA's driver should manage. ``other_manager``: the running Fabric Manager is
    not the installed one. ``contained``: a driver container runs."""

    loaded: Optional[str] = None
    module: Optional[str] = None
    module_path: Optional[str] = None
    library: Optional[str] = None
    kind: Optional[str] = None
    firmware: bool = False
    fabric_manager: Optional[str] = None
    fabric_manager_path: Optional[str] = None
    persistenced: bool = False
    nouveau: bool = False
    other_manager: bool = False
    contained: bool = False
    peermem_loaded: bool = False
    peermem_installed: bool = False

    @property
    def version(self) -> Optional[str]:
        return self.loaded or self.module or self.library


@frozen
class Dkms:
    """A module that DKMS is to build. ``kernel``: it was built for the running kernel."""

    module: str
    version: str
    kernel: bool


@frozen
class Toolkit:
    """A CUDA toolkit. ``default``: /usr/local/cuda leads to it. ``compat``: it has NVIDIA's package for older
    drivers."""

    path: str
    version: Optional[str]
    default: bool = False
    compat: bool = False


@frozen
class Mpi:
    """``kind``: openmpi, mvapich, mpich or intel_mpi; ``owner``: hpcx where it is the one of HPC-X. ``ucx``: it has
    a component for UCX."""

    kind: str
    path: str
    version: Optional[str]
    owner: str = ""
    ucx: bool = False
    ucx_missing: Tuple[str, ...] = ()


@frozen
class Command:
    """A program in the search path that logins begin with, and where its links end."""

    name: str
    path: str
    target: str


@frozen
class Slurm:
    """``plugins``: the folders of its plugins. ``pmix``: the plugins for PMIx in them, each with the paths of libpmix
    that it looks for and that are not there."""

    version: Optional[str]
    plugins: Tuple[str, ...] = ()
    pmix: Tuple[Library, ...] = ()
    wanted: str = ""


@frozen
class ContainerCli:
    """nvidia-container-cli. ``for_all``: every user may run it."""

    path: str
    version: Optional[str]
    for_all: bool
    missing: Tuple[str, ...] = ()


@frozen
class BrokenLink:
    path: str
    target: str


@frozen
class Image:
    """``kernel`` is the running one, ``next_kernel`` the newest that can be booted; ``next_has_driver``: that one has
    NVIDIA's module. ``gpu_ids``: PCI IDs of the GPUs of this machine; ``gpus_driven``: PCI IDs of the GPUs that the
    loaded driver has accepted. ``others``: versions of software that no rule covers.
    """

    distribution: str = ""
    kernel: Optional[str] = None
    next_kernel: Optional[str] = None
    next_has_driver: bool = True
    gpu_ids: Tuple[str, ...] = ()
    gpus_driven: Tuple[str, ...] = ()
    nvswitches: int = 0
    rdma_devices: Tuple[str, ...] = ()
    driver: Driver = Driver()
    dkms: Tuple[Dkms, ...] = ()
    toolkits: Tuple[Toolkit, ...] = ()
    nccl: Tuple[Library, ...] = ()
    nccl_plugins: Tuple[Library, ...] = ()
    mpis: Tuple[Mpi, ...] = ()
    mpi_commands: Tuple[Command, ...] = ()
    slurm: Optional[Slurm] = None
    container_cli: Optional[ContainerCli] = None
    broken_links: Tuple[BrokenLink, ...] = ()
    others: Mapping[str, str] = {}
    notes: Tuple[str, ...] = ()

    @property
    def toolkit(self) -> Optional[Toolkit]:
        """The toolkit that programs are built with where nothing else is said."""
        return next((one for one in self.toolkits if one.default), self.toolkits[-1] if self.toolkits else None)

    @property
    def libnccl(self) -> Optional[Library]:
        """The libnccl that a program gets where nothing else is said."""
        return next((one for one in self.nccl if one.used), self.nccl[0] if self.nccl else None)
