# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics for the textfile collector of Prometheus' node exporter. Pure.

Format: Prometheus, "Exposition formats", text version 0.0.4. The collector takes no time stamps and drops a whole file
in which a sample stands twice or a name has two types, so both are impossible here.
"""

from __future__ import annotations

import math
from typing import Dict, List, Mapping, Sequence, Tuple

from .managed_files import MARKER
from .one_line import line

PREFIX = "gpu_node_"
GAUGE = "gauge"
COUNTER = "counter"
Labels = Mapping[str, str]


class Exposition:
    """A file of metrics: ``comment`` says whose they are, and :meth:`add` takes one metric with all its samples."""

    def __init__(self, comment: str) -> None:
        self._lines: List[str] = ["{0} {1}".format(MARKER, line(comment))]

    def add(self, name: str, kind: str, what: str, samples: Sequence[Tuple[Labels, float]]) -> None:
        """``name`` without the prefix. Of two samples with the same labels the second one stays; a metric without
        samples is not there."""
        unique: Dict[str, float] = {}
        for labels, value in samples:
            unique[_labels(labels)] = value
        if not unique:
            return
        full = PREFIX + name
        self._lines.append("# HELP {0} {1}".format(full, line(what).replace("\\", "\\\\")))
        self._lines.append("# TYPE {0} {1}".format(full, kind))
        self._lines += ["{0}{1} {2}".format(full, labels, _number(value)) for labels, value in unique.items()]

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join('{0}="{1}"'.format(name, _escaped(text)) for name, text in labels.items()) + "}"


def _escaped(text: str) -> str:
    return line(text).replace("\\", "\\\\").replace('"', '\\"')


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    return repr(value) if value != int(value) or abs(value) >= 1e15 else str(int(value))
