# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What products of large half-precision matrices reach on each GPU, by public measurements, and the limits from it.

A measurement is of the best shape that was found, ours of one shape, another library and clocks that follow the power
that random numbers take; so a GPU warns below three quarters and fails below six tenths. Where only the data sheet is
public, it warns below half of that peak. A profile or a setting with ``gemm_teraflops_per_second`` takes its place.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from typing import Optional, Tuple

from ..types import Threshold

WARN, FAIL, WARN_OF_PEAK = 0.75, 0.6, 0.5
_MAMF = "github.com/stas00/ml-engineering 744d01e, maximum achievable matmul FLOPS, BF16 (FP16 has the same peak)"
_AZURE = "github.com/Azure/ai-infrastructure-on-azure a01b073, sku_performance_baseline"
_VOLTA = "Markidis and others, NVIDIA Tensor Core Programmability, doi 10.1109/IPDPSW.2018.00091"
_SHEET = "NVIDIA's data sheet of this GPU, without sparsity"


@dataclasses.dataclass(frozen=True)
class Rate:
    """``product``: a pattern for the name that NVML gives. ``peak``: of a data sheet, not measured."""

    product: str
    teraflops: float
    source: str
    peak: bool = False

    @property
    def threshold(self) -> Threshold:
        if self.peak:
            return Threshold("higher", self.teraflops * WARN_OF_PEAK, None, _told(WARN_OF_PEAK, self))
        return Threshold("higher", self.teraflops * WARN, self.teraflops * FAIL, _told(FAIL, self))


def _told(share: float, rate: Rate) -> str:
    text = "this collection: warn {0:g}, fail {1:g} of {2:g} ({3})"
    if rate.peak:
        return "this collection: {0:g} of the peak {1:g} ({2})".format(share, rate.teraflops, rate.source)
    return text.format(WARN, FAIL, rate.teraflops, rate.source)


# The first that fits.
RATES: Tuple[Rate, ...] = (
    Rate("*V100*", 83, _VOLTA),
    Rate("*A100-SXM4-*", 271.2, _MAMF),
    Rate("*A100*PCI[Ee]*", 252.9, _MAMF),
    Rate("NVIDIA H100 80GB HBM3", 794.5, _MAMF + "; " + _AZURE + ": 769 is expected"),
    Rate("NVIDIA H100 NVL", 835, _SHEET, peak=True),
    Rate("NVIDIA H100 PCIe", 756, _SHEET, peak=True),
    Rate("NVIDIA H200", 794.5, _MAMF + ": H200 is the same as H100"),
    Rate("NVIDIA GH200*", 828.6, _MAMF),
    Rate("NVIDIA B200", 1745, _MAMF),
    Rate("NVIDIA B300*", 1769, _MAMF),
    Rate("NVIDIA GB200", 1822, _MAMF),
    Rate("NVIDIA GB300", 1850, _AZURE),
)


def of_product(name: str) -> Optional[Threshold]:
    found = next((rate for rate in RATES if fnmatch.fnmatchcase(name, rate.product)), None)
    return None if found is None else found.threshold
