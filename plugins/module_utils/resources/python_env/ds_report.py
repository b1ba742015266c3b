# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``ds_report`` of DeepSpeed prints, as figures. Pure.

Formats of 0.9 to 0.19: ops as ``NAME ....... [NO] ....... [OKAY]`` in colours, then lines ``WORDS ..... VALUE``.
"""

from __future__ import annotations

import re
from typing import Dict, Mapping, Optional, Sequence, Tuple

from ...core.frozen import frozen

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_OP = re.compile(r"(\w+) *\.* +\[(YES|NO)\] *\.* *\[(OKAY|NO)\]")
_FIGURE = re.compile(r"([A-Za-z][\w /().+-]*?) ?\.{3,} ?(.*)")
_SIZE = re.compile(r"([0-9.]+) *([KMGT]?)B", re.IGNORECASE)
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


@frozen
class Report:
    """``ops``: by name, whether it is built into the package, and whether it can be built or runs here. ``figures``:
    the other lines as they are. ``shm_bytes``: the size of /dev/shm."""

    ops: Mapping[str, Tuple[bool, bool]] = {}
    figures: Mapping[str, str] = {}
    shm_bytes: Optional[int] = None

    @property
    def cuda_mismatch(self) -> str:
        """The two major versions of CUDA, where torch and nvcc differ."""
        torch, nvcc = (_major(self.figures.get(name, "")) for name in ("torch cuda version", "nvcc version"))
        return "torch is of CUDA {0}, nvcc of {1}".format(torch, nvcc) if torch and nvcc and torch != nvcc else ""


def parse(text: str) -> Report:
    """Lines of another kind are passed over: warnings come in between."""
    ops: Dict[str, Tuple[bool, bool]] = {}
    figures: Dict[str, str] = {}
    for line in _COLOUR.sub("", text).splitlines():
        line = line.strip()
        op, figure = _OP.fullmatch(line), _FIGURE.fullmatch(line)
        if op:
            ops[op.group(1)] = (op.group(2) == "YES", op.group(3) == "OKAY")
        elif figure and figure.group(1) not in ("op name", "ninja"):
            figures[figure.group(1).strip()] = figure.group(2).strip()
    return Report(ops, figures, _bytes(figures.get("shared memory (/dev/shm) size", "")))


def fault(report: Report, wanted: Sequence[str]) -> str:
    """What is wrong with the ops that an environment is to have; empty: nothing."""
    if not report.ops:
        return "ds_report lists no op"
    lacking = [name for name in wanted if not report.ops.get(name, (False, False))[1]]
    if lacking:
        return "ds_report calls {0} not compatible".format(" and ".join(lacking))
    return report.cuda_mismatch


def _major(version: str) -> str:
    found = re.match(r"(\d+)", version)
    return found.group(1) if found else ""


def _bytes(text: str) -> Optional[int]:
    found = _SIZE.match(text)
    return int(float(found.group(1)) * _UNITS[found.group(2).upper()]) if found else None
