# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of the GPUs of a node: persistence mode, clocks, power limit, ECC, compute mode.

For front ends, beside the record of the resource:

- ``set_gpus(host, wish, check_mode)`` brings the GPUs to a :class:`Wish` and does nothing else.
- ``converge_declared(host, check_mode)`` does so with the declared section; None when there is none.

The parts: ``options`` make a ``wish`` once the node was seen, and ``plan`` decides, GPU by GPU (``rules``, ``clocks``,
``select``, ``undo``); ``whole`` adds the persistence daemon and the boot unit. ``apply`` sets all GPUs in one session;
one that does not answer fails the run only after the others were set (``told``).

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
import os
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from ...core import boot_unit, declaration
from ...core.frozen import replaced
from ...core.host import Host
from ...core.resource import Action, Line, NodeError, Outcome, Plan, Resource, Together
from ...core.run import run
from . import persistenced, told
from .apply import set_gpus as _set_gpus
from .observe import observe
from .options import Desired
from .persistenced import StartPersistenced
from .predict import predict
from .types import Forget, GpuAction, Remember, State
from .whole import Found, look, plan, plan_of_gpus, unit_of, wish_of
from .wish import SECTION, Wish

__all__ = ["RESOURCE", "Desired", "Found", "State", "Wish", "converge_declared", "set_gpus"]
Asked = Union[Desired, Wish]


def _together(host: Host, actions: Tuple[Action, ...], asked: Asked) -> Optional[NodeError]:
    return _set_gpus(host, actions, asked.call_timeout_seconds)


def _predicted(found: Found, actions: Tuple[Action, ...], dummy: Asked) -> Found:
    return replaced(found, gpus=predict(found.gpus, actions))


def _ending(found: Found, rest: Plan, asked: Asked, failed: Optional[NodeError]) -> str:
    return told.ending(found.gpus, rest, wish_of(found, asked), failed)


def _facts(outcome: Outcome[Found], asked: Asked) -> Dict[str, Any]:
    gpus = Outcome(outcome.before.gpus, outcome.after.gpus, outcome.plan, outcome.changed)
    return told.details(gpus, wish_of(outcome.before, asked))


def _shown(outcome: Outcome[Found], desired: Desired, planned: bool) -> str:
    found = outcome.after if planned else outcome.before
    gpus = json.dumps(told.diff_text(found.gpus), indent=2, sort_keys=True) + "\n"
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


def set_gpus(host: Host, wish: Wish, check_mode: bool = False) -> Outcome[Found]:
    """:raises NodeError: as a run of the resource. The GPUs are the machine's own, in whatever tree the files lie."""
    if os.geteuid() != 0 and not check_mode:
        raise NodeError("GPU settings", "only root may change them", "run it as root (in a play: become: true)")

    def found(host: Host, wish: Wish) -> Found:
        return Found(observe(host, wish.call_timeout_seconds, wish.declare))

    return run(host, replaced(RESOURCE, observe=found, plan=plan_of_gpus), wish, check_mode)


def converge_declared(host: Host, check_mode: bool = False) -> Optional[Outcome[Found]]:
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
