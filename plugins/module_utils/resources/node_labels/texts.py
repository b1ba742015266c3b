# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The texts of the units. Pure."""

from __future__ import annotations

from typing import Tuple

from ...core.managed_files import Wanted
from ...core.systemd.timer import after_each_end
from ...facts.nvml.binding import RUNTIME
from .options import Desired
from .types import UNIT


def wanted(file: str, desired: Desired) -> Tuple[Wanted, ...]:
    return UNIT.wanted(service(file, desired), timer(desired.interval_seconds))


def command(file: str, desired: Desired) -> str:
    words = [RUNTIME, "labels", "-o", file, "--valid", str(desired.valid)]
    if desired.gfd:
        from ...metrics.labels import sharing  # seldom wanted

        words += ["--gfd", "--mig-strategy", desired.mig_strategy, *sharing.words(sharing.read(desired.sharing))]
    return " ".join(words)


def service(file: str, desired: Desired) -> str:
    rest = [
        "ExecStart=" + command(file, desired),
        "TimeoutStartSec=120",
        "# Why a label is left out is told; starts and ends are not.",
        "SyslogLevel=notice",
        "LogLevelMax=notice",
        "Nice=10",
    ]
    after = "nvidia-persistenced.service nvidia-fabricmanager.service"
    return UNIT.service_text("Labels of this node for Kubernetes", RUNTIME, rest, after)


def timer(interval_seconds: int) -> str:
    return UNIT.timer_text("Labels of this node for Kubernetes, again and again", after_each_end(interval_seconds))
