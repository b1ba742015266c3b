# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""torchrun: it binds nothing itself, so a script does that for each LOCAL_RANK and then becomes Python."""

from __future__ import annotations

from ...facts.topology.types import Topology
from ..types import Placement
from .rendered import File, Rendered, fewest_threads, gpu_notes, visible_devices
from .wrapper import path_of, script

ORDER = "gpu"


def render(placement: Placement, topology: Topology, base: str) -> Rendered:
    wrapper = File(base + ".sh", script(placement, each_its_gpu=False), executable=True)
    # torchrun sets OMP_NUM_THREADS to 1 where nobody has set it.
    environment = (("OMP_NUM_THREADS", str(fewest_threads(placement))),)
    return Rendered(
        launcher="torchrun",
        program="torchrun",
        # Options with underscores: those with hyphens are of PyTorch 2.0 and newer.
        count=("--nproc_per_node={0}".format(len(placement.ranks)),),
        arguments=("--no_python", path_of(wrapper), "python3"),
        environment=environment + visible_devices(placement),
        files=(wrapper,),
        notes=gpu_notes(placement),
    )
