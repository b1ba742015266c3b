# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image of a node as it is required. It is looked at and never changed, and before everything else: where it is not
as required, nothing of the node is."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ...core.child import collect
from ...core.host import Host
from ...core.resource import Line, NodeError, Outcome, Resource
from ...facts.image import software
from ...facts.image.look import look
from .options import Desired
from .plan import plan
from .types import NAME, State

__all__ = ["RESOURCE", "Desired", "State"]


# A look takes half a second. What lies below /opt may be on a server that does not answer, which would hold a boot.
_SECONDS = 60.0


def observe(host: Host, desired: Desired) -> State:
    """:raises NodeError: it cannot be read in time."""
    if not desired.asks:
        return State(None)
    found = collect(lambda dummy: iter([look(host)]), _SECONDS)
    if found.hung_at is not None:
        reason = "it could not be read within {0:g} s".format(_SECONDS)
        remedy = "look for a file system below /opt, /usr or /etc that does not answer, as one of a server that is down"
        raise NodeError("the image", reason, remedy)
    return State(found.items[0])


def _facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    image = outcome.after.image
    return {"versions": {} if image is None else software.versions(image)}


def _shown(dummy: Outcome[State], _desired: Desired, _planned: bool) -> str:
    return ""


def _line(result: Mapping[str, Any]) -> str:
    versions = result.get("versions") or {}
    told = ["{0} {1}".format(name, versions[name]) for name in ("driver", "cuda", "nccl") if name in versions]
    return "as required, {0}".format(", ".join(told) or "with no software for GPUs")


RESOURCE = Resource(
    name=NAME,
    options=Desired,
    observe=observe,
    plan=plan,
    steps={},
    facts=_facts,
    shown=_shown,
    title="the image",
    line=Line("image", _line),
)
