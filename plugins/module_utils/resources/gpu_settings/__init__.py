# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of the GPUs of a node: persistence mode, clocks, power limit, ECC, compute mode.

For front ends, beside the record of the resource:

- ``converge_declared(host, check_mode)`` brings the GPUs to the declared section; None when there is none.

The knowledge is in ``gpus/settings``: ``options`` make a ``wish`` once the node was seen, and ``plan`` decides, GPU by
GPU (``rules``, ``clocks``, ``select``, ``undo``); ``whole`` adds the persistence daemon and the boot unit. ``apply``
sets all GPUs in one session; one that does not answer fails the run only after the others were set (``report``).

How the clocks are held: locked clocks where the GPU has them (graphics since Volta, memory since Ampere),
application clocks otherwise. The driver cannot tell which locks are on, so /var/lib/gpu_node/gpu_settings.json
remembers them. What it says counts only while

- the boot and the load of the driver are the same (boot id, inode of /sys/module/nvidia, driver version),
- persistence mode, if it was on then, is still on, and
- the clock readings do not contradict it (above the lock; or below it without a reason, where the lock did
  show in the readings when it was set).
"""

from __future__ import annotations

import collections
import json
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from ...core import declaration
from ...core.frozen import replaced
from ...core.host import Host
from ...core.resource import Action, Line, NodeError, Outcome, Plan, Resource, Together
from ...core.systemd import boot_unit
from ...gpus.settings import apply, report
from ...gpus.settings.predict import predict
from ...gpus.settings.run import set_gpus
from ...gpus.settings.types import Forget, GpuAction, Remember, State
from ...gpus.settings.wish import SECTION, Wish
from . import persistenced
from .options import Desired
from .persistenced import StartPersistenced
from .whole import Found, look, plan, unit_of, wish_of

__all__ = ["RESOURCE", "Desired", "Found", "State", "Wish", "converge_declared"]
Asked = Union[Desired, Wish]


def _together(host: Host, actions: Tuple[Action, ...], asked: Asked) -> Optional[NodeError]:
    return apply.set_gpus(host, actions, asked.call_timeout_seconds)


def _predicted(found: Found, actions: Tuple[Action, ...], dummy: Asked) -> Found:
    return replaced(found, gpus=predict(found.gpus, actions))


def _ending(found: Found, rest: Plan, asked: Asked, failed: Optional[NodeError]) -> str:
    return report.ending(found.gpus, rest, wish_of(found, asked), failed)


def _facts(outcome: Outcome[Found], asked: Asked) -> Dict[str, Any]:
    gpus = Outcome(outcome.before.gpus, outcome.after.gpus, outcome.plan, outcome.changed)
    return report.details(gpus, wish_of(outcome.before, asked))


def _shown(outcome: Outcome[Found], desired: Desired, planned: bool) -> str:
    found = outcome.after if planned else outcome.before
    gpus = json.dumps(report.diff_text(found.gpus), indent=2, sort_keys=True) + "\n"
    steps = outcome.plan.actions if planned else ()
    return gpus + boot_unit.text(outcome.before.unit, unit_of(desired), steps)


def _line(result: Mapping[str, Any]) -> str:
    if result.get("skipped_reason"):
        return "none: {0}".format(result["skipped_reason"])
    gpus = result.get("gpus") or []
    if not gpus:
        return "none answers"
    kinds = collections.Counter((gpu.get("name"), _clocks(gpu), gpu.get("persistence")) for gpu in gpus)
    return "; ".join(
        "{0} x {1}, {2}, persistence {3}".format(
            count, name, clocks, {True: "on", False: "off"}.get(persistence, "unknown")
        )
        for (name, clocks, persistence), count in kinds.items()
    )


def _clocks(gpu: Dict[str, Any]) -> str:
    clocks = gpu.get("clocks") or {}
    parts = [
        "{0} {1} MHz {2}".format(name, clocks[name + "_mhz"], clocks[name + "_way"])
        for name in ("graphics", "memory")
        if clocks.get(name + "_mhz") and clocks.get(name + "_way") in ("locked", "application")
    ]
    return ", ".join(parts) or "clocks are the driver's own"


def converge_declared(host: Host, check_mode: bool = False) -> Optional[Outcome[State]]:
    """What the boot unit runs: the GPUs alone."""
    section = declaration.read(host).get(SECTION)
    return None if section is None else set_gpus(host, Wish.from_section(section), check_mode)


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
    line=Line("GPUs", _line, foresees=True, always=True),
    at_boot=converge_declared,
)
