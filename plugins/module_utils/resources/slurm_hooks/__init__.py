# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this collection has in Slurm's folders: the two hooks, gres.conf and the node features. One resource.

Front ends use :func:`run`, and :func:`facts` and :func:`text` for results.
"""

from __future__ import annotations

import os
from typing import Any, Dict

from ...core import managed_files
from ...core.host import Host
from ...core.resource import NodeError, Outcome, converge
from ...slurm.types import SECTION, Settings
from . import conf
from .apply import apply
from .gres import Gres, decide
from .observe import observe
from .plan import features, pending, plan
from .types import EPILOG_NAME, PROLOG_NAMES, Desired, State

__all__ = ["Desired", "Settings", "State", "facts", "run", "text"]


def run(host: Host, desired: Desired, check_mode: bool = False) -> Outcome[State]:
    """Bring Slurm's files on this node to what is desired; Slurm itself is not touched.

    :raises NodeError: one sentence; a refusal changed nothing.
    """
    if check_mode:
        return _converged(host, desired, True)
    if os.geteuid() != 0:
        raise NodeError("slurm_hooks", "only root may write Slurm's files", "run it as root (become: true)")
    with host.lock(SECTION):
        return _converged(host, desired, False)


def _converged(host: Host, desired: Desired, check_mode: bool) -> Outcome[State]:
    return converge(
        lambda: observe(host, desired),
        lambda state: plan(state, desired),
        lambda action: apply(host, action),
        check_mode,
    )


def facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    """Beside the actions: what jobs can ask for, and whether Slurm comes by here at all."""
    state = outcome.after
    known = state.configured or state.running
    prolog = "{0}/{1}".format(desired.prolog_folder, PROLOG_NAMES[0])
    epilog = "{0}/{1}".format(desired.epilog_folder, EPILOG_NAME)
    managed = desired.present and outcome.plan.skipped is None
    gres = decide(state, desired) if managed else Gres()
    return {
        "features": list(features(state)) if managed else [],
        "gpus": [
            {"minor": gpu.minor, "cores": list(gpu.cores), "product": gpu.product, "mig": gpu.mig}
            for gpu in state.gpus or ()
        ],
        "gres_conf": state.gres_conf.path,
        "gres_lines": list(gres.lines),
        "gres_differences": list(gres.differences),
        "prolog_reached": None if known is None else conf.reaches(known.prolog, prolog),
        "epilog_reached": None if known is None else conf.reaches(known.epilog, epilog),
        "slurm_conf": state.slurm_conf,
        "reconfigure_pending": bool(pending(state, desired, list(outcome.plan.actions))),
    }


def text(outcome: Outcome[State], planned: bool) -> str:
    """The files as diff mode shows them; ``planned``: as they will be."""
    return managed_files.text(managed_files.after(outcome.before.files, outcome.plan.actions if planned else ()))
