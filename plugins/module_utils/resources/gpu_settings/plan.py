# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings with what they need around them: the persistence daemon before them, the boot unit after them."""

from __future__ import annotations

from typing import Tuple

from ...core import declaration
from ...core.frozen import frozen
from ...core.host import Host
from ...core.resource import Action, Plan
from ...core.systemd import boot_unit
from ...core.systemd.boot_unit import BootUnit
from ...gpus.settings.observe import observe
from ...gpus.settings.options import AUTO, SECTION
from ...gpus.settings.plan import decide
from ...gpus.settings.types import State
from ...slurm import hooks_conf
from ...slurm.hooks_conf import Raising
from ...slurm.types import SECTION as HOOKS
from . import persistenced
from .options import Desired
from .persistenced import Daemon, StartPersistenced

_AHEAD = (
    "clocks auto: slurm.conf names {0} and no hooks are declared there, so the clocks are max; with the hooks of "
    "slurm_hooks they would be default between jobs"
).format(hooks_conf.PROLOG_FOLDER)


@frozen
class Found:
    """The node as this resource sees it."""

    gpus: State
    daemon: Daemon = Daemon()
    unit: boot_unit.BootUnitState = boot_unit.BootUnitState()
    raising: Raising = Raising()


def unit_of(desired: Desired) -> BootUnit:
    return BootUnit(
        SECTION,
        "Declared GPU settings of this node",
        after=(persistenced.UNIT, "nvidia-fabricmanager.service"),
        before=desired.before_units,
        timeout_seconds=desired.boot_timeout_seconds,
    )


def look(host: Host, desired: Desired) -> Found:
    asks = desired.present and desired.clocks == AUTO
    return Found(
        gpus=observe(host, desired.call_timeout_seconds, desired.declare),
        daemon=persistenced.look(host),
        unit=boot_unit.look(host, unit_of(desired)),
        raising=hooks_conf.raising(host, declaration.read(host).get(HOOKS)) if asks else Raising(),
    )


def settings_of(found: Found, desired: Desired) -> Desired:
    return desired.settings(found.raising.clocks)


def plan(found: Found, desired: Desired) -> Plan:
    """The unit goes before the settings are undone."""
    wanted = desired.present and desired.boot_unit
    unit = boot_unit.plan(found.unit, unit_of(desired), wanted)
    daemon, settings = _daemon(found), settings_of(found, desired)
    if not desired.wants_daemon:
        daemon = ()
    gpus = decide(found.gpus, settings).plan
    if wanted and gpus.skipped:
        return gpus  # nothing was declared that it could set again
    refusals, notes = gpus.refusals + unit.refusals, gpus.notes + unit.notes
    if refusals:
        return Plan(refusals=refusals, notes=notes)
    if gpus.skipped and unit.actions:
        return Plan(unit.actions, notes=(*notes, gpus.skipped))
    if not desired.present:
        return Plan(unit.actions + gpus.actions, notes=notes, skipped=gpus.skipped)
    if desired.clocks == AUTO and found.raising == Raising(None, True):
        notes += (_AHEAD,)
    return Plan(daemon + gpus.actions + unit.actions, notes=notes, skipped=gpus.skipped)


def _daemon(found: Found) -> Tuple[Action, ...]:
    daemon = found.daemon
    if found.gpus.absent or not daemon.installed or (daemon.enabled and daemon.active):
        return ()
    return (StartPersistenced(not daemon.enabled, not daemon.active),)
