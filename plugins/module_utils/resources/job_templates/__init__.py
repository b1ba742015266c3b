# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Submit-ready job scripts for nodes like this one, from its topology and its profile. One resource.

:mod:`.scripts` renders them and is pure.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping

from ...core import declaration, managed_files
from ...core.managed_files import WriteFile
from ...core.resource import Line, Outcome, Resource
from .observe import observe
from .options import Desired
from .plan import plan
from .types import SECTION, State

__all__ = ["RESOURCE", "Desired", "State"]


def _facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    """The scripts that lie there, or in check mode would lie there."""
    files = managed_files.after(outcome.before.files, outcome.plan.actions)
    written = {action.path for action in outcome.plan.actions if isinstance(action, WriteFile)}
    ours = {path for path, seen in files.found if seen.ours and path.startswith(desired.folder + "/")}
    return {"folder": desired.folder, "files": sorted(os.path.basename(path) for path in ours | written)}


def _shown(outcome: Outcome[State], dummy: Desired, planned: bool) -> str:
    return managed_files.text(managed_files.after(outcome.before.files, outcome.plan.actions if planned else ()))


def _line(result: Mapping[str, Any]) -> str:
    return "{0} scripts in {1}".format(len(result.get("files") or []), result.get("folder"))


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=observe,
    plan=plan,
    steps={**declaration.STEPS, **managed_files.STEPS},
    facts=_facts,
    shown=_shown,
    title="job scripts",
    of_cluster=True,
    shared=lambda desired: (desired.folder,),
    line=Line("jobs", _line, foresees=True),
)
