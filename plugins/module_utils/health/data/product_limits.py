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

_HERE = "measured with these kernels on one GPU"
_SHEET = "NVIDIA's data sheet of this GPU"


@dataclasses.dataclass(frozen=True)
class Product:
    """``kind``: a pattern for the name that NVML gives. ``value``: in the unit of ``figure``, of a healthy GPU.
    ``proven``: measured on a real one, by us or in a publication; False: of a data sheet."""

    kind: str
    figure: str
    value: float
    source: str
    proven: bool = False


@dataclasses.dataclass(frozen=True)
class Shares:
    """Of :attr:`Product.value`: below ``warn`` and ``fail`` where it is proven, below ``unproven`` a warning."""

    warn: float
    fail: float
    unproven: float


_MEMORY = "gpu_memory_gigabytes_per_second"

SHARES: Dict[str, Shares] = {
    # Two GPUs measured 92 % and 94 % of their data sheets; a memory clock that is stuck low costs far more than this.
    _MEMORY: Shares(0.85, 0.6, 0.6),
}

# The first row of a figure whose pattern matches counts.
PRODUCTS: Tuple[Product, ...] = (
    Product("*V100*", _MEMORY, 900, _SHEET),
    Product("NVIDIA A100*40GB*", _MEMORY, 1555, _SHEET),
    Product("NVIDIA A100 80GB PCIe", _MEMORY, 1935, _SHEET),
    Product("NVIDIA A100*80GB*", _MEMORY, 2039, _SHEET),
    Product("NVIDIA H100 80GB HBM3", _MEMORY, 3080, _HERE, proven=True),
    Product("NVIDIA H100 PCIe", _MEMORY, 2000, _SHEET),
    Product("NVIDIA H100 NVL", _MEMORY, 3938, _SHEET),
    Product("NVIDIA H200", _MEMORY, 4500, _HERE, proven=True),
    Product("NVIDIA H200 NVL", _MEMORY, 4800, _SHEET),
    Product("NVIDIA B200", _MEMORY, 8000, _SHEET),
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
        text = "this collection, unproven: {0:g} of {1:g} ({2})"
        source = text.format(shares.unproven, product.value, product.source)
        return Threshold("higher", product.value * shares.unproven, None, source)
    text = "this collection: warn {0:g}, fail {1:g} of {2:g} ({3})"
    source = text.format(shares.warn, shares.fail, product.value, product.source)
    return Threshold("higher", product.value * shares.warn, product.value * shares.fail, source)


def limit_of(figure: str) -> Callable[[str], Optional[Threshold]]:
    """:func:`threshold` of one figure, for ``readings.Figure``."""
    return functools.partial(threshold, figure=figure)
