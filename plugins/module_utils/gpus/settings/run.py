# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings the GPUs alone to their settings: what the boot unit, the hooks of jobs and ``gpunode clocks`` run."""

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
from .options import SECTION, Settings
from .plan import decide, predict
from .types import Forget, GpuAction, Remember, State


def set_gpus(host: Host, settings: Settings, check_mode: bool = False) -> Outcome[State]:
    """:raises NodeError: as a run of the resource. The GPUs are the machine's own, in whatever tree the files lie."""
    if os.geteuid() != 0 and not check_mode:
        raise NodeError("GPU settings", "only root may change them", "run it as root (in a play: become: true)")
    return run(host, _GPUS, settings, check_mode)


def _observe(host: Host, settings: Settings) -> State:
    return observe(host, settings.call_timeout_seconds, settings.declare)


def _plan(state: State, settings: Settings) -> Plan:
    return decide(state, settings).plan


def _set(host: Host, actions: Tuple[Action, ...], settings: Settings) -> Optional[NodeError]:
    return apply.set_gpus(host, actions, settings.call_timeout_seconds)


def _predict(state: State, actions: Tuple[Action, ...], dummy: Settings) -> State:
    return predict(state, actions)


def _facts(outcome: Outcome[State], settings: Settings) -> Dict[str, Any]:
    return report.details(outcome, settings)


def _shown(outcome: Outcome[State], dummy: Settings, planned: bool) -> str:
    return json.dumps(report.diff_text(outcome.after if planned else outcome.before), indent=2, sort_keys=True) + "\n"


_GPUS = Resource(
    name=SECTION,
    options=Settings,
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
