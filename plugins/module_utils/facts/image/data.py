# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What parts of an image need of each other, with the source of each figure. Data; :mod:`.rules` goes by it."""

from __future__ import annotations

from typing import Tuple

from ...core.frozen import frozen

COMPATIBILITY = "NVIDIA, CUDA Compatibility, minor version compatibility"
# Read in copies of the notes of 11.0 and 11.4; those of 12 and 13 list no toolkit that is so old.
RELEASE_NOTES = "NVIDIA, CUDA Toolkit release notes of 11.4, toolkits and minimum drivers"
KERNEL_MODULES = "NVIDIA, driver installation guide, kernel modules"
OPEN_ONLY = "NVIDIA, technical blog, transition towards open-source GPU kernel modules"
LAST_BRANCHES = "NVIDIA, data center drivers, CUDA toolkit, driver, and architecture matrix"


@frozen
class MinimumDriver:
    """The oldest driver on which programs of this CUDA run: of a major version from 11 on, of each one before."""

    cuda: str
    driver: str
    source: str


MINIMUM_DRIVERS: Tuple[MinimumDriver, ...] = (
    MinimumDriver("13", "580", COMPATIBILITY),
    MinimumDriver("12", "525.60.13", COMPATIBILITY),
    MinimumDriver("11", "450.80.02", COMPATIBILITY),
    MinimumDriver("10.2", "440.33", RELEASE_NOTES),
    MinimumDriver("10.1", "418.39", RELEASE_NOTES),
    MinimumDriver("10.0", "410.48", RELEASE_NOTES),
    MinimumDriver("9.2", "396.26", RELEASE_NOTES),
    MinimumDriver("9.1", "390.46", RELEASE_NOTES),
    MinimumDriver("9.0", "384.81", RELEASE_NOTES),
)


@frozen
class Branch:
    """The CUDA that a branch of the driver was made with: PTX of a newer one is not compiled by it."""

    driver: int
    cuda: str


#: Newest first. Of a branch that is newer than all of these nothing is said.
BRANCHES: Tuple[Branch, ...] = tuple(
    Branch(driver, cuda)
    for driver, cuda in (
        (580, "13.0"),
        (575, "12.9"),
        (570, "12.8"),
        (565, "12.7"),
        (560, "12.6"),
        (555, "12.5"),
        (550, "12.4"),
        (545, "12.3"),
        (535, "12.2"),
        (530, "12.1"),
        (525, "12.0"),
        (520, "11.8"),
        (515, "11.7"),
        (510, "11.6"),
        (495, "11.5"),
        (470, "11.4"),
        (465, "11.3"),
        (460, "11.2"),
        (455, "11.1"),
        (450, "11.0"),
    )
)
NEWEST_BRANCH = 590


@frozen
class Generation:
    """GPUs by the range of their PCI device ids (pci.ids). ``kind``: the only kernel module that drives them, "" where
    both do, by ``source``; ``last_branch``: the last branch of the driver that does, 0 where it goes on
    (:data:`LAST_BRANCHES`)."""

    name: str
    first: int
    last: int
    kind: str
    last_branch: int
    source: str


GENERATIONS: Tuple[Generation, ...] = (
    Generation("Kepler (K80, K40, K20)", 0x101E, 0x102E, "proprietary", 470, KERNEL_MODULES),
    Generation("Maxwell (M60, M40)", 0x13F2, 0x13F3, "proprietary", 580, KERNEL_MODULES),
    Generation("Maxwell (M60, M40)", 0x17FD, 0x17FD, "proprietary", 580, KERNEL_MODULES),
    Generation("Pascal (P100, P40, P4)", 0x15F7, 0x15F9, "proprietary", 580, KERNEL_MODULES),
    Generation("Pascal (P100, P40, P4)", 0x1B30, 0x1BB9, "proprietary", 580, KERNEL_MODULES),
    Generation("Volta (V100)", 0x1DB0, 0x1DF6, "proprietary", 580, KERNEL_MODULES),
    Generation("Grace Hopper (GH200)", 0x2342, 0x2348, "open", 0, OPEN_ONLY),
    Generation("Blackwell (B200, GB200)", 0x2900, 0x29FF, "open", 0, OPEN_ONLY),
    Generation("Blackwell (B300, GB300)", 0x3180, 0x31FF, "open", 0, OPEN_ONLY),
)

#: NCCL asks for relaxed ordering by itself from here on (NCCL_IB_PCI_RELAXED_ORDERING=2 became the default).
NCCL_MINIMUM = "2.12"
NCCL_MINIMUM_SOURCE = "NVIDIA, NCCL documentation, environment variables, NCCL_IB_PCI_RELAXED_ORDERING"

#: Linux has DMA-BUF for RDMA from here on, over the open kernel module.
DMA_BUF_KERNEL = "5.12"

#: Modules of DKMS without which GPUs, or the network of jobs, do not work at all.
DKMS_NEEDED = ("nvidia*", "mlnx-ofed-kernel")
