# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a GPU which processes use it. A GPU in MIG mode tells root those of all its instances."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Sequence, Tuple

from .call import Gpu, Reading

COMPUTE, GRAPHICS, MPS = "compute", "graphics", "mps"
KINDS = (COMPUTE, GRAPHICS, MPS)
#: The ways to ask for each kind. The versioned names come first: the plain ones of the binding refuse drivers of
#: another age with an error of their own. A driver before branch 510 has the second form alone.
CALLS: Dict[str, Tuple[str, str]] = {
    COMPUTE: ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
    GRAPHICS: ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"),
    MPS: ("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2"),
}


def ask(gpu: Gpu, kind: str) -> Reading[Sequence[Any]]:
    newer, older = CALLS[kind]
    return gpu.first((newer,), (older,))


def pids(gpu: Gpu, kinds: Sequence[str] = KINDS) -> Iterator[int]:
    """Those that are told; what cannot be asked counts as nobody."""
    for kind in kinds:
        for one in ask(gpu, kind).value or ():
            yield int(one.pid)
