# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of the GPUs of a node: persistence mode, clocks, power limit, ECC, compute mode.

For front ends, beside the record of the resource:

- ``converge_declared(host, check_mode)`` brings the GPUs to the declared section; None when there is none.

The knowledge is in ``gpus/settings``: ``options`` say what is asked for, ``settings`` is the table of the settings, and
``plan`` decides, GPU by GPU; here, ``plan`` adds the persistence daemon and the boot unit. ``apply`` sets all GPUs in
one session; one that does not answer fails the run only after the others were set (``report``).
"""

from __future__ import annotations

import json
from typing import Any, Dict, Optional, Tuple

from ...core import declaration
from ...core.frozen import replaced
from ...core.host import Host
from ...core.options import of_section
from ...core.resource import Action, Line, NodeError, Outcome, Plan, Resource, Together
from ...core.systemd import boot_unit
from ...gpus.settings import apply, report
from ...gpus.settings.options import SECTION, Settings
from ...gpus.settings.plan import predict
from ...gpus.settings.run import set_gpus
from ...gpus.settings.types import Forget, GpuAction, Remember, State
from . import persistenced
from .options import Desired
from .persistenced import StartPersistenced
from .plan import Found, look, plan, settings_of, unit_of

__all__ = ["RESOURCE", "Desired", "Found", "State", "converge_declared"]


def _together(host: Host, actions: Tuple[Action, ...], desired: Desired) -> Optional[NodeError]:
    return apply.set_gpus(host, actions, desired.call_timeout_seconds)


def _predicted(found: Found, actions: Tuple[Action, ...], dummy: Desired) -> Found:
    return replaced(found, gpus=predict(found.gpus, actions))


def _ending(found: Found, rest: Plan, desired: Desired, failed: Optional[NodeError]) -> str:
    return report.ending(found.gpus, rest, settings_of(found, desired), failed)


def _facts(outcome: Outcome[Found], desired: Desired) -> Dict[str, Any]:
    gpus = Outcome(outcome.before.gpus, outcome.after.gpus, outcome.plan, outcome.changed)
    return report.details(gpus, settings_of(outcome.before, desired))


def _shown(outcome: Outcome[Found], desired: Desired, planned: bool) -> str:
    found = outcome.after if planned else outcome.before
    gpus = json.dumps(report.diff_text(found.gpus), indent=2, sort_keys=True) + "\n"
    steps = outcome.plan.actions if planned else ()
    return gpus + boot_unit.text(outcome.before.unit, unit_of(desired), steps)


def converge_declared(host: Host, check_mode: bool = False) -> Optional[Outcome[State]]:
    """What the boot unit runs: the GPUs alone."""
    section = declaration.read(host).get(SECTION)
    return None if section is None else set_gpus(host, of_section(Settings, section), check_mode)


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=look,
    plan=plan,
    steps={**declaration.STEPS, **boot_unit.STEPS, StartPersistenced: persistenced.start},
    facts=_facts,
    shown=_shown,
    title="GPU settings",
    needs_command=True,
    together=Together((GpuAction, Remember, Forget), _together),
    predict=_predicted,
    ending=_ending,
    line=Line("GPUs", report.summary, foresees=True, always=True),
    at_boot=converge_declared,
)
