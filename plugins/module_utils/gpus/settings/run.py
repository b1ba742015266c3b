# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings the GPUs alone to a :class:`Wish`: what the boot unit, the hooks of jobs and ``gpunode clocks`` run."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Optional, Tuple

from ...core import declaration
from ...core.host import Host
from ...core.resource import Action, NodeError, Outcome, Plan, Resource, Together
from ...core.run import run
from . import apply, report
from .observe import observe
from .plan import decide
from .predict import predict
from .types import Forget, GpuAction, Remember, State
from .wish import SECTION, Wish


def set_gpus(host: Host, wish: Wish, check_mode: bool = False) -> Outcome[State]:
    """:raises NodeError: as a run of the resource. The GPUs are the machine's own, in whatever tree the files lie."""
    if os.geteuid() != 0 and not check_mode:
        raise NodeError("GPU settings", "only root may change them", "run it as root (in a play: become: true)")
    return run(host, _GPUS, wish, check_mode)


def _observe(host: Host, wish: Wish) -> State:
    return observe(host, wish.call_timeout_seconds, wish.declare)


def _plan(state: State, wish: Wish) -> Plan:
    return decide(state, wish).plan


def _set(host: Host, actions: Tuple[Action, ...], wish: Wish) -> Optional[NodeError]:
    return apply.set_gpus(host, actions, wish.call_timeout_seconds)


def _predict(state: State, actions: Tuple[Action, ...], dummy: Wish) -> State:
    return predict(state, actions)


def _facts(outcome: Outcome[State], wish: Wish) -> Dict[str, Any]:
    return report.details(outcome, wish)


def _shown(outcome: Outcome[State], dummy: Wish, planned: bool) -> str:
    return json.dumps(report.diff_text(outcome.after if planned else outcome.before), indent=2, sort_keys=True) + "\n"


_GPUS = Resource(
    name=SECTION,
    options=Wish,
    observe=_observe,
    plan=_plan,
    steps=declaration.STEPS,
    facts=_facts,
    shown=_shown,
    title="GPU settings",
    together=Together((GpuAction, Remember, Forget), _set),
    predict=_predict,
    ending=report.ending,
)
