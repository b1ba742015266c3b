# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Submit-ready job scripts for nodes like this one, from its topology and its profile. One resource.

Front ends use :func:`run`, and :func:`facts` and :func:`text` for results. :mod:`.scripts` renders them and is pure.
"""

from __future__ import annotations

import os
from typing import Any, Dict

from ...core import declaration, managed_files
from ...core.host import Host
from ...core.managed_files import WriteFile
from ...core.resource import Action, NodeError, Outcome, converge
from .observe import observe
from .plan import plan
from .types import SECTION, Desired, State

__all__ = ["Desired", "State", "facts", "run", "text"]


def run(host: Host, desired: Desired, check_mode: bool = False) -> Outcome[State]:
    """Bring the scripts in the folder to what is desired. The machine is looked at once.

    :raises NodeError: one sentence; a refusal changed nothing.
    """
    if check_mode:
        return _converged(host, desired, True)
    if os.geteuid() != 0:
        raise NodeError("job_templates", "only root may write the declaration", "run it as root (become: true)")
    with host.lock(SECTION):
        return _converged(host, desired, False)


def _converged(host: Host, desired: Desired, check_mode: bool) -> Outcome[State]:
    first = observe(host, desired)
    return converge(
        lambda: observe(host, desired, first.topology),
        lambda state: plan(state, desired),
        lambda action: _apply(host, action),
        check_mode,
    )


def _apply(host: Host, action: Action) -> None:
    if isinstance(action, declaration.Declare):
        declaration.apply(host, action)
    else:
        managed_files.apply(host, action)


def facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    """The scripts that lie there, or in check mode would lie there."""
    files = managed_files.after(outcome.before.files, outcome.plan.actions)
    written = {action.path for action in outcome.plan.actions if isinstance(action, WriteFile)}
    ours = {path for path, seen in files.found if seen.ours and path.startswith(desired.folder + "/")}
    return {"folder": desired.folder, "files": sorted(os.path.basename(path) for path in ours | written)}


def text(outcome: Outcome[State], planned: bool) -> str:
    """The files as diff mode shows them; ``planned``: as they will be."""
    return managed_files.text(managed_files.after(outcome.before.files, outcome.plan.actions if planned else ()))
