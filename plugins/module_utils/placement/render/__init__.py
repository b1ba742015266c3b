# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments, environment and files that make a launcher do a placement.

One module a launcher, loaded when it is asked for. Each has ``ORDER`` (which rank gets which GPU, see
:data:`..types.ORDERS`), may have ``WHOLE_SHARE``, and ``render(placement, topology, base)``.
"""

from __future__ import annotations

import importlib
from typing import Any, Tuple

from ...core.frozen import replaced
from ...facts.topology.types import Topology
from ..types import Misasked, Placement, Request
from .rendered import File, Rendered

__all__ = ["File", "LAUNCHERS", "Rendered", "adapt", "render"]

LAUNCHERS = ("srun", "openmpi", "intelmpi", "mvapich2", "lsf", "numactl", "hpl", "torchrun", "kubernetes")
_OTHER_NAMES = {"hpcx": "openmpi", "mpirun": "openmpi", "slurm": "srun", "impi": "intelmpi", "k8s": "kubernetes"}


def adapt(launcher: str, request: Request) -> Request:
    """The request as this launcher numbers its ranks.

    :raises Misasked: for a launcher that is not known.
    """
    module = _module(launcher)
    return replaced(request, order=module.ORDER, whole_share=getattr(module, "WHOLE_SHARE", False))


def render(launcher: str, placement: Placement, topology: Topology, base: str = "pin") -> Rendered:
    """``base``: how the paths of files that the command names begin.

    :raises Refused: for a launcher that cannot say this placement.
    """
    rendered: Rendered = _module(launcher).render(placement, topology, base)
    return rendered


def _module(launcher: str) -> Any:
    name = _OTHER_NAMES.get(launcher, launcher)
    if name not in LAUNCHERS:
        from ...core.nearest import nearest

        raise Misasked(
            "launcher {0}".format(launcher),
            "it is not known here",
            "{0}use one of {1}".format(nearest(launcher, (*LAUNCHERS, *_OTHER_NAMES)), _listed(LAUNCHERS)),
        )
    return importlib.import_module("." + name, __package__)


def _listed(names: Tuple[str, ...]) -> str:
    return "{0} or {1}".format(", ".join(names[:-1]), names[-1])
