# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine of this type must look like: choose its profile, compare, and declare the choice on the node."""

from __future__ import annotations

from typing import Any, Dict

from ...core import declaration
from ...core.resource import Outcome, Resource
from ...facts.profile.types import SECTION
from .observe import observe
from .options import Desired
from .plan import judge, plan
from .types import State

__all__ = ["RESOURCE", "Desired", "State"]


def _facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    """The verdict, as results and as the fact of the host that other roles read."""
    verdict = judge(outcome.after, desired)
    if verdict is None or outcome.after.evidence is None:
        return {}
    told = verdict.to_dict()
    found = {key: value for key, value in told.items() if key != "data"}
    return dict(found, ansible_facts={"gpu_node_profile": told})


def _shown(outcome: Outcome[State], dummy: Desired, planned: bool) -> str:
    actions = outcome.plan.actions if planned else ()
    return declaration.text({SECTION: outcome.before.declared}, (SECTION,), actions)


RESOURCE = Resource(
    name="node_profile",
    options=Desired,
    observe=observe,
    plan=plan,
    steps=declaration.STEPS,
    facts=_facts,
    shown=_shown,
    title=declaration.PATH,
)
