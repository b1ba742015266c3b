# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run by an interpreter that has PyTorch or CuPy, not by this collection: one GPU, half precision, some seconds.

The operands are the same in each repeat, so each product must be equal to the first, bit by bit: one library, one
shape, one GPU and no atomics choose the same order of sums each time. Prints one JSON object.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any, Callable, List, Tuple

Figures = Tuple[float, int, int]
SIZE = 8192
BATCH = 8


def with_torch(seconds: float) -> Tuple[str, Figures]:
    torch: Any = importlib.import_module("torch")

    if not torch.cuda.is_available():
        raise SystemExit("PyTorch sees no GPU")
    torch.manual_seed(7)
    one = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.float16)
    other = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.float16)
    first = one @ other

    def differs() -> bool:
        return not bool(torch.equal(one @ other, first))

    def multiply() -> None:
        torch.matmul(one, other, out=result)

    result = torch.empty_like(first)
    return "PyTorch {0}".format(torch.__version__), measure(seconds, multiply, torch.cuda.synchronize, differs)


def with_cupy(seconds: float) -> Tuple[str, Figures]:
    cupy: Any = importlib.import_module("cupy")

    cupy.random.seed(7)
    one = cupy.random.standard_normal((SIZE, SIZE), dtype=cupy.float32).astype(cupy.float16)
    other = cupy.random.standard_normal((SIZE, SIZE), dtype=cupy.float32).astype(cupy.float16)
    first = one @ other

    def differs() -> bool:
        return not bool((cupy.asarray(one @ other).view(cupy.uint16) == first.view(cupy.uint16)).all())

    def multiply() -> None:
        cupy.matmul(one, other, out=result)

    result = cupy.empty_like(first)
    return "CuPy {0}".format(cupy.__version__), measure(seconds, multiply, cupy.cuda.Device().synchronize, differs)


def measure(
    seconds: float, multiply: Callable[[], None], synchronize: Callable[[], None], differs: Callable[[], bool]
) -> Figures:
    """(Tflop/s as the median of batches, repeats compared, repeats that were different)."""
    multiply()
    synchronize()
    rates: List[float] = []
    different, compared = 0, 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline or not rates:
        begun = time.monotonic()
        for product in [multiply] * BATCH:
            product()
        synchronize()
        rates.append(2.0 * SIZE**3 * BATCH / (time.monotonic() - begun) / 1e12)
        different += int(differs())
        compared += 1
    return sorted(rates)[len(rates) // 2], compared, different


def main() -> None:
    seconds = float(sys.argv[1])
    try:
        name, figures = with_torch(seconds)
    except ImportError:
        try:
            name, figures = with_cupy(seconds)
        except ImportError as error:
            raise SystemExit("this Python has neither PyTorch nor CuPy") from error
    told = dict(zip(("teraflops", "repeats", "different"), figures))
    sys.stdout.write(json.dumps(dict(told, framework=name)) + "\n")


if __name__ == "__main__":
    main()
