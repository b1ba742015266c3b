# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether jobs find what they communicate and start with: GPUDirect, plugins, UCX, PMIx, containers, links. Pure."""

from __future__ import annotations

from . import data
from .problem import FAIL, WARN, Problem, Told
from .types import OPEN, Image
from .version import order


def peermem(image: Image) -> Told:
    driver = image.driver
    if not image.rdma_devices or driver.loaded is None or driver.peermem_loaded:
        return
    if driver.kind == OPEN and image.kernel and order(image.kernel, data.DMA_BUF_KERNEL) >= 0:
        return
    how = "run 'modprobe nvidia-peermem' and have it loaded at each boot (role nccl)"
    if not driver.peermem_installed:
        how = "install the driver's modules again with the RDMA drivers there, so that nvidia-peermem is built"
    yield Problem(
        "peermem",
        WARN,
        "GPUDirect RDMA",
        "there are RDMA devices, and neither nvidia-peermem is loaded nor DMA-BUF can be used (it needs the open "
        "kernel module and Linux {0})".format(data.DMA_BUF_KERNEL),
        how,
    )


def sharp_plugin(image: Image) -> Told:
    for one in image.nccl_plugins:
        if one.missing:
            yield Problem(
                "sharp_plugin",
                WARN,
                "NCCL plugin {0}".format(one.path),
                "it needs {0}, which is not found, so NCCL goes on without it".format(", ".join(one.missing)),
                "install what has these libraries (HPC-X, or SHARP of the OFED), or build the plugin anew",
                one.path,
            )


def mpi_ucx(image: Image) -> Told:
    for one in image.mpis:
        if one.ucx_missing:
            yield Problem(
                "mpi_ucx",
                FAIL,
                "Open MPI {0} ({1})".format(one.version or "of unknown version", one.path),
                "it does not find {0} of UCX, so it leaves InfiniBand aside".format(", ".join(one.ucx_missing)),
                "install that UCX, or add its folder to /etc/ld.so.conf.d and run 'ldconfig'",
                one.path,
            )


def one_mpi(image: Image) -> Told:
    owners = {one.name: _owner(one.target, image) for one in image.mpi_commands}
    if len(set(owners.values())) > 1:
        yield Problem(
            "one_mpi",
            WARN,
            "the search path of a login",
            "its commands are of different MPIs: {0}".format(
                ", ".join("{0} is {1}".format(one.name, one.target) for one in image.mpi_commands)
            ),
            "keep one MPI in the search path, and load others as modules",
        )


def _owner(target: str, image: Image) -> str:
    """The installation that a program belongs to; of one in the folders of the distribution, its kind by its name."""
    tree = next((one.path for one in image.mpis if target.startswith(one.path + "/")), None)
    kinds = (kind for words, kind in _NAMES if any(word in target.rsplit("/", 1)[1] for word in words))
    return tree or next(kinds, target.rsplit("/", 2)[0])


_NAMES = (
    (("openmpi", "orterun", "prterun", "opal_wrapper"), "openmpi"),
    (("mpich", "hydra"), "mpich"),
)


def pmix(image: Image) -> Told:
    slurm = image.slurm
    if slurm is None or not slurm.wanted.startswith("pmix") or not slurm.plugins:
        return
    fit = [one for one in slurm.pmix if one.path.rsplit("/", 1)[1] == "mpi_{0}.so".format(slurm.wanted)]
    thing = "srun --mpi={0}".format(slurm.wanted)
    if not fit:
        yield Problem(
            "pmix",
            FAIL,
            thing,
            "the job templates use it, and Slurm has no plugin mpi_{0}.so in {1}".format(
                slurm.wanted, ", ".join(slurm.plugins)
            ),
            "install Slurm built with PMIx, or set job_templates_slurm_mpi to one of 'srun --mpi=list'",
        )
    elif fit[0].missing:
        yield Problem(
            "pmix",
            FAIL,
            thing,
            "the job templates use it, and its plugin {0} does not find {1}".format(
                fit[0].path, " or ".join(fit[0].missing)
            ),
            "install PMIx where this Slurm was built to look for it",
        )


def container_cli(image: Image) -> Told:
    cli = image.container_cli
    if cli is None:
        return
    thing = "nvidia-container-cli ({0})".format(cli.path)
    if cli.missing:
        yield Problem(
            "container_cli",
            FAIL,
            thing,
            "it needs {0}, which is not found".format(", ".join(cli.missing)),
            "install the packages of nvidia-container-toolkit in one version",
        )
    elif not cli.for_all:
        yield Problem(
            "container_cli",
            FAIL,
            thing,
            "only root may run it, so containers of users (enroot) get no GPU",
            "run 'chmod 0755 {0}'".format(cli.path),
        )


def broken_links(image: Image) -> Told:
    for one in image.broken_links:
        yield Problem(
            "broken_link",
            WARN,
            one.path,
            "this link leads to {0}, which is not there".format(one.target or "nothing"),
            "install what it is to lead to, or remove it",
            one.path,
        )
