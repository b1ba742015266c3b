# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this collection has in Slurm's folders: the two hooks, gres.conf and the node features. One resource."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping

from ...core import managed_files
from ...core.resource import Line, Outcome, Resource, Unread
from ...slurm import hooks_conf
from ...slurm.hooks_conf import EPILOG_NAME, PROLOG_NAMES
from ...slurm.types import SECTION
from .apply import STEPS
from .gres import Gres, decide
from .observe import observe
from .options import Desired
from .plan import features, plan, unread
from .types import State

__all__ = ["RESOURCE", "Desired", "State"]


def _facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    """Beside the actions: what jobs can ask for, and whether Slurm comes by here at all."""
    state = outcome.after
    known = state.configured or state.running
    prolog = "{0}/{1}".format(desired.prolog_folder, PROLOG_NAMES[0])
    epilog = "{0}/{1}".format(desired.epilog_folder, EPILOG_NAME)
    managed = desired.present and outcome.plan.skipped is None
    gres = decide(state, desired) if managed else Gres()
    # In check mode nothing was looked at again.
    left = unread(state, desired, outcome.plan.actions if state is outcome.before else ()) if managed else ()
    return {
        "features": list(features(state)) if managed else [],
        "gpus": [
            {"minor": gpu.minor, "cores": list(gpu.cores), "product": gpu.product, "mig": gpu.mig}
            for gpu in state.gpus or ()
        ],
        "gres_conf": state.gres_conf.path,
        "gres_lines": list(gres.lines),
        "gres_differences": list(gres.differences),
        "prolog_reached": None if known is None else hooks_conf.reaches(known.prolog, prolog),
        "epilog_reached": None if known is None else hooks_conf.reaches(known.epilog, epilog),
        "slurm_conf": state.slurm_conf,
        "unread": list(left),
        "reconfigure_pending": bool(left),
        "restart_pending": desired.gres_file in left,
    }


def _shown(outcome: Outcome[State], dummy: Desired, planned: bool) -> str:
    return managed_files.text(managed_files.after(outcome.before.files, outcome.plan.actions if planned else ()))


def _line(result: Mapping[str, Any]) -> str:
    gpus = len(result.get("gpus") or [])
    pending = "; Slurm has yet to read a changed file" if result.get("reconfigure_pending") else ""
    return "hooks, node features and gres.conf of {0} GPU(s){1}".format(gpus, pending)


def _unread(result: Mapping[str, Any]) -> str:
    """Of gres.conf alone: a hook that slurm.conf does not name yet is no danger to a job."""
    return next((path for path in result.get("unread") or [] if path != result.get("slurm_conf")), "")


def _read(result: Mapping[str, Any]) -> Dict[str, Any]:
    left = [path for path in result["unread"] if path == result["slurm_conf"]]
    return {"unread": left, "reconfigure_pending": bool(left), "restart_pending": False}


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=observe,
    plan=plan,
    steps=STEPS,
    facts=_facts,
    shown=_shown,
    title="Slurm's files",
    needs_command=True,
    shared=lambda desired: tuple(os.path.dirname(path) for path in desired.paths()),
    line=Line("Slurm", _line, foresees=True),
    unread=Unread(_unread, _read),
)
