# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether CUDA's toolkits, NCCL and the driver fit each other. Pure."""

from __future__ import annotations

from typing import Optional, Tuple

from . import data
from .problem import FAIL, WARN, Problem, Told
from .types import Image, Toolkit
from .version import major, order


def minimum_driver(cuda: str) -> Optional[str]:
    """The oldest driver for programs of this CUDA; None: it is not in the table."""
    found = (one.driver for one in data.MINIMUM_DRIVERS if order(cuda, one.cuda) == 0)
    return next(found, None)


def cuda_of(driver: str) -> Optional[str]:
    """The CUDA that a driver was made with; None: it is older or newer than the table."""
    branch = major(driver)
    if branch >= data.NEWEST_BRANCH:
        return None
    return next((one.cuda for one in data.BRANCHES if branch >= one.driver), None)


def cuda_driver(image: Image) -> Told:
    for one in _with_driver(image):
        least = minimum_driver(one.version or "")
        if least is not None and _too_old(image, one):
            yield Problem(
                "cuda_driver",
                FAIL if one is image.toolkit else WARN,
                _thing(one),
                "it needs driver {0} or newer, and this is {1}: its programs do not start".format(
                    least, image.driver.version
                ),
                "install driver {0} or newer, or NVIDIA's package cuda-compat-{1}".format(least, _short(one)),
                one.path,
            )


def cuda_ptx(image: Image) -> Told:
    made_with = cuda_of(image.driver.version or "")
    for one in _with_driver(image):
        if made_with is not None and order(_dotted(one), made_with) > 0 and not _too_old(image, one):
            yield Problem(
                "cuda_ptx",
                WARN,
                _thing(one),
                "driver {0} was made with CUDA {1} and compiles no PTX of a newer one, so programs that bring PTX "
                "alone for these GPUs fail".format(image.driver.version, made_with),
                "install a driver made with CUDA {0} or newer, or the package cuda-compat-{1}".format(
                    _dotted(one), _short(one)
                ),
                one.path,
            )


def _with_driver(image: Image) -> Tuple[Toolkit, ...]:
    """The toolkits that go by the driver alone."""
    if not major(image.driver.version or ""):
        return ()
    return tuple(one for one in image.toolkits if major(one.version or "") and not one.compat)


def _too_old(image: Image, toolkit: Toolkit) -> bool:
    least = minimum_driver(toolkit.version or "")
    return least is not None and order(image.driver.version or "", least) < 0


def _thing(toolkit: Toolkit) -> str:
    return "CUDA {0} ({1})".format(toolkit.version, toolkit.path)


def _dotted(toolkit: Toolkit) -> str:
    return ".".join((toolkit.version or "").split(".")[:2])


def _short(toolkit: Toolkit) -> str:
    return _dotted(toolkit).replace(".", "-")


def nccl_cuda(image: Image) -> Told:
    majors = sorted({major(one.version) for one in image.toolkits if one.version and major(one.version)})
    if not majors:
        return
    for one in image.nccl:
        if one.cuda is not None and major(one.cuda) and major(one.cuda) not in majors:
            yield Problem(
                "nccl_cuda",
                FAIL if one is image.libnccl else WARN,
                "libnccl {0} ({1})".format(one.version or "of unknown version", one.path),
                "it was built for CUDA {0}, and the toolkits here are of CUDA {1}".format(
                    one.cuda, " and ".join(map(str, majors))
                ),
                "install libnccl2 of version '…+cuda{0}.x', or the toolkit of CUDA {1}".format(
                    majors[-1], major(one.cuda)
                ),
                one.path,
            )


def nccl_minimum(image: Image) -> Told:
    one = image.libnccl
    if one is not None and one.version and major(one.version) and order(one.version, data.NCCL_MINIMUM) < 0:
        yield Problem(
            "nccl_minimum",
            WARN,
            "libnccl {0} ({1})".format(one.version, one.path),
            "before {0} NCCL does not ask for relaxed ordering of PCIe by itself, which InfiniBand in virtual machines "
            "needs for its speed".format(data.NCCL_MINIMUM),
            "install NCCL {0} or newer, or set NCCL_IB_PCI_RELAXED_ORDERING=1".format(data.NCCL_MINIMUM),
            one.path,
        )
