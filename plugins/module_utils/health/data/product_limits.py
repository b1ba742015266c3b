# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of active checks by product: what a healthy GPU reaches, the source, and the shares of it that are limits.

A measured value warns and fails. A value of a data sheet is never reached, and nobody has run these kernels on that
GPU: it is unproven and warns at the most. A profile's or a setting's limit of the same figure takes precedence.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
from typing import Callable, Dict, Optional, Tuple

from ..types import Threshold

_SHEET = "NVIDIA's data sheet of this GPU"
_PAPER = "NVIDIA's white paper of this architecture"
_MEASURED = "measured on one GPU with these kernels, at its power limit of 700 W"
_SAME_CHIP = "measured on an H100 80GB HBM3, which has the same chip and power limit"
_SKETCH = "measured on one GPU with a first version of these kernels, the same instructions"


@dataclasses.dataclass(frozen=True)
class Product:
    """``kind``: a pattern for the name that NVML gives. ``value``: in the unit of ``figure``, of a healthy GPU.
    ``proven``: measured on a real one, by us or in a publication; False: of a data sheet. ``unproven``: its own share
    instead of that of its figure."""

    kind: str
    figure: str
    value: float
    source: str
    proven: bool = False
    unproven: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Shares:
    """Of :attr:`Product.value`: below ``warn`` and ``fail`` where it is proven, below ``unproven`` a warning."""

    warn: float
    fail: float
    unproven: float
    source: str = "our choice, with a margin for clocks, power caps and other versions of the kernels"


_MEMORY = "gpu_memory_gigabytes_per_second"

_F16, _BF16 = "compute_f16_teraflops_per_second", "compute_bf16_teraflops_per_second"
_F32, _F64 = "compute_f32_teraflops_per_second", "compute_f64_teraflops_per_second"
_INT8, _INT32 = "compute_int8_teraops_per_second", "compute_int32_teraops_per_second"
_TENSORS = (_F16, _BF16, _INT8)
# FP16, BF16 and INT8 tensor cores (without sparsity), FP32 and FP64 (without tensor cores). 0: it has none, or the data
# sheet is of other instructions than our kernels use: tensor cores of Blackwell reach it by tcgen05.mma only.
_COMPUTE: Tuple[Tuple[str, float, float, float, float, float], ...] = (
    ("*V100-SXM*", 125, 0, 0, 15.7, 7.8),
    ("*V100*", 112, 0, 0, 14, 7),
    ("*A100*", 312, 312, 624, 19.5, 9.7),
    ("NVIDIA H100 PCIe", 756, 756, 1513, 51, 26),
    ("NVIDIA H100 NVL", 835, 835, 1670, 60, 30),
    ("NVIDIA H200 NVL", 835, 835, 1670, 60, 30),
    ("NVIDIA GH200*", 989, 989, 1979, 67, 34),
    ("NVIDIA B200", 0, 0, 0, 75, 37),
    ("NVIDIA GB200", 0, 0, 0, 80, 40),
    ("NVIDIA B300*", 0, 0, 0, 75, 0),
    ("NVIDIA GB300", 0, 0, 0, 80, 0),
)
# Tensor cores of Volta and Ampere reach nearly all of their data sheet by mma.sync. Half of it leaves room for cards of
# 250 W.
_BEFORE_HOPPER = ("*V100-SXM*", "*V100*", "*A100*")
_UNPROVEN_BEFORE_HOPPER = 0.5
# An H100 of 700 W reached 45 % of its data sheet: mma.sync, which our kernels use, reaches 55 to 66 % of it, and the
# power limit takes the rest. A card of 350 W reaches less.
_TENSOR = Shares(0.75, 0.5, 0.25)
# The same GPU reached 56 to 58 %.
_SCALAR = Shares(0.75, 0.5, 0.4)
# By an H100, in the order of _MEASURED_FIGURES: the lower of three runs.
_H100 = (442, 452, 914, 37.6, 19.7, 29.5)
_MEASURED_FIGURES = (_F16, _BF16, _INT8, _F32, _F64, _INT32)
_UNPROVEN_SAME_CHIP = 0.6

_TO, _FROM = "host_to_device_gigabytes_per_second", "device_to_host_gigabytes_per_second"
_PEER = "gpu_to_gpu_gigabytes_per_second"
# Copies with 16 lanes of a host that is one PCIe generation behind the GPU, which is no fault of either. Cards that fit
# into each slot have no row.
_HOSTS: Tuple[Tuple[str, float, str], ...] = (
    ("*V100-SXM*", 12, "PCIe 3.0, as for A100"),
    ("*A100-SXM4*", 12, "PCIe 3.0, if the host has no more; github.com/Azure/azurehpc-health-checks wants 10 there"),
    ("NVIDIA H100 80GB HBM3", 26, "PCIe 4.0, if the host has no more; github.com/NVIDIA/nvbandwidth, README: 26"),
    ("NVIDIA H200", 26, "PCIe 4.0, if the host has no more; github.com/NVIDIA/nvbandwidth, README: 26"),
    ("NVIDIA B200", 55, "PCIe 5.0; one H100 and one H200 with it measured 55"),
)
_NVLINK = "NVIDIA's data sheet of this GPU, one direction of its NVLinks, behind NVSwitches"

SHARES: Dict[str, Shares] = {
    _TO: Shares(0.85, 0.6, 0.6),
    _FROM: Shares(0.85, 0.6, 0.6),
    # The limits of github.com/Azure/azurehpc-health-checks are 0.78 (A100) and 0.74 (H100, H200) of the data sheet.
    _PEER: Shares(0.85, 0.6, 0.7),
    _F16: _TENSOR,
    _BF16: _TENSOR,
    _INT8: _TENSOR,
    _F32: _SCALAR,
    _F64: _SCALAR,
    _INT32: _SCALAR,
    # Two GPUs measured 92 % and 94 % of their data sheets; a memory clock that is stuck low costs far more than this.
    _MEMORY: Shares(0.85, 0.6, 0.6),
}

# The first row of a figure whose pattern matches counts.
PRODUCTS: Tuple[Product, ...] = (
    Product("*V100*", _MEMORY, 900, _SHEET),
    Product("NVIDIA A100*40GB*", _MEMORY, 1555, _SHEET),
    Product("NVIDIA A100 80GB PCIe", _MEMORY, 1935, _SHEET),
    Product("NVIDIA A100*80GB*", _MEMORY, 2039, _SHEET),
    Product("NVIDIA H100 80GB HBM3", _MEMORY, 3038, _MEASURED, proven=True),
    Product("NVIDIA H100 PCIe", _MEMORY, 2000, _SHEET),
    Product("NVIDIA H100 NVL", _MEMORY, 3938, _SHEET),
    Product("NVIDIA H200", _MEMORY, 4500, _SKETCH, proven=True),
    Product("NVIDIA H200 NVL", _MEMORY, 4800, _SHEET),
    Product("NVIDIA B200", _MEMORY, 8000, _SHEET),
    *(
        Product("NVIDIA H100 80GB HBM3", figure, value, _MEASURED, proven=True)
        for figure, value in zip(_MEASURED_FIGURES, _H100)
    ),
    *(
        Product("NVIDIA H200", figure, value, _SAME_CHIP, unproven=_UNPROVEN_SAME_CHIP)
        for figure, value in zip(_MEASURED_FIGURES, _H100)
    ),
    *(
        Product(
            kind,
            figure,
            value,
            _SHEET,
            unproven=_UNPROVEN_BEFORE_HOPPER if kind in _BEFORE_HOPPER and figure in _TENSORS else None,
        )
        for kind, *values in _COMPUTE
        for figure, value in zip((_F16, _BF16, _INT8, _F32, _F64), values)
        if value
    ),
    *(Product(kind, figure, value, source) for kind, value, source in _HOSTS for figure in (_TO, _FROM)),
    Product("*A100-SXM4*", _PEER, 300, _NVLINK),
    Product("NVIDIA H100 80GB HBM3", _PEER, 450, _NVLINK),
    Product("NVIDIA H200", _PEER, 450, _NVLINK),
    Product("NVIDIA B200", _PEER, 900, _NVLINK),
    Product("*V100-SXM*", _INT32, 15.7, _PAPER),
    Product("*A100*", _INT32, 19.5, _PAPER),
    Product("NVIDIA H100 PCIe", _INT32, 25.6, _PAPER),
)


def row(kind: str, figure: str) -> Optional[Product]:
    """The row of this figure for a GPU that NVML calls ``kind``."""
    rows = (one for one in PRODUCTS if one.figure == figure and fnmatch.fnmatchcase(kind, one.kind))
    return next(rows, None)


def threshold(kind: str, figure: str) -> Optional[Threshold]:
    """The limits of ``figure`` for a GPU that NVML calls ``kind``. None: nothing is known of this product."""
    product = row(kind, figure)
    return None if product is None else threshold_of(product)


def threshold_of(product: Product) -> Threshold:
    shares = SHARES[product.figure]
    if not product.proven:
        share = shares.unproven if product.unproven is None else product.unproven
        source = "this collection, unproven ({0:.0%} of {1:g}: {2})".format(share, product.value, product.source)
        return Threshold("higher", product.value * share, None, source)
    text = "this collection ({0:.0%} of {2:g} warns, {1:.0%} fails: {3})"
    source = text.format(shares.warn, shares.fail, product.value, product.source)
    return Threshold("higher", product.value * shares.warn, product.value * shares.fail, source)


def limit_of(figure: str) -> Callable[[str], Optional[Threshold]]:
    """:func:`threshold` of one figure, for ``readings.Figure``."""
    return functools.partial(threshold, figure=figure)
