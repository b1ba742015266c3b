# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that may hold a GPU at any time: they belong to the node, not to a job."""

from __future__ import annotations

from typing import Tuple

from ...core.frozen import frozen


@frozen
class Program:
    """``name`` is the command name as the kernel keeps it: at most 15 characters."""

    name: str
    source: str


GPU_PROGRAMS: Tuple[Program, ...] = (
    Program("nvidia-persiste", "NVIDIA driver README, nvidia-persistenced"),
    Program("nvidia-fabricma", "NVIDIA Fabric Manager user guide"),
    Program("nv-fabricmanage", "NVIDIA Fabric Manager user guide"),
    Program("nv-hostengine", "NVIDIA DCGM user guide"),
    Program("dcgm-exporter", "github.com/NVIDIA/dcgm-exporter"),
    Program("nvidia-imex", "NVIDIA IMEX service guide"),
    Program("nvidia-cuda-mps", "NVIDIA Multi-Process Service guide: control daemon and server"),
    Program("Xorg", "NVIDIA driver README: a display server"),
    Program("Xwayland", "NVIDIA driver README: a display server"),
    Program("gnome-shell", "NVIDIA driver README: a Wayland compositor"),
)
NAMES = frozenset(program.name for program in GPU_PROGRAMS)
