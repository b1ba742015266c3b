# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The local NVMe scratch of a node: RAID0 of its local disks, a file system on it, mounted now and after each boot.

For front ends, beside the record of the resource:

- ``converge_declared(host, check_mode)`` makes the scratch that /etc/gpu_node/node.json declares; None: it has none.
- ``status(host)`` tells what there is, as a JSON-able dict.

The parts: ``observe`` looks, after ``waiting`` for disks that are late; ``plan`` is pure, and lists the files that a
request passes; ``apply`` acts, and ``writer`` does what writes to a device.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from ...core import declaration
from ...core.frozen import replaced
from ...core.host import Host
from ...core.options import described, of
from ...core.resource import Line, NodeError, Outcome, Resource
from ...core.run import run
from ...core.systemd import boot_unit
from ...core.units import size
from . import view
from .apply import STEPS
from .options import SECTION, Desired
from .plan import plan
from .tools import takes_away
from .types import Found, State
from .waiting import look, look_now

__all__ = ["RESOURCE", "Desired", "Found", "State", "converge_declared", "status", "view"]


_UNTOLD = "slurmctld does not answer and slurmd runs, so a job may be on this node"


def _look(host: Host, desired: Desired) -> Found:
    """Slurm is asked for the jobs here only if the scratch is to be taken away."""
    found = look(host, desired)
    if not takes_away(plan(found, desired, unit=False), desired):
        return found
    from ...slurm import on_node  # loaded only where it is wanted

    here = on_node.asked(host)
    jobs = tuple("job {0} is on this node".format(one) for one in sorted(here.names))
    return replaced(found, jobs=jobs or (() if here.told else (_UNTOLD,)))


def _facts(outcome: Outcome[Found], desired: Desired) -> Dict[str, Any]:
    return {"mount_points": list(desired.mount_points), "scratch": view.facts(outcome.after.scratch, desired)}


def _shown(outcome: Outcome[Found], desired: Desired, planned: bool) -> str:
    """Disks, arrays and mounts cannot be foreseen: in check mode the plan is told in their place."""
    found = outcome.after if planned else outcome.before
    foreseen = outcome.plan.actions if planned and outcome.after is outcome.before else ()
    scratch = view.text(found.scratch, desired, tuple(action.describe() for action in foreseen))
    return scratch + boot_unit.text(found.unit, desired.unit, foreseen)


def _line(result: Mapping[str, Any]) -> str:
    found = result.get("scratch") or {}
    if result.get("skipped_reason"):
        return "none: {0}".format(result["skipped_reason"])
    if not found.get("mounted"):
        return "not mounted"
    disks = found.get("disks") or []
    what = "{0} of {1} on {2}".format(
        found.get("filesystem"), size(found.get("size_bytes") or 0), found.get("mount_point")
    )
    if found.get("adopted"):
        return what + ", adopted as it was"
    return "{0}, {1} disk(s): {2}".format(what, len(disks), " ".join(disk["serial"] for disk in disks))


def _declared(host: Host) -> Optional[Desired]:
    section = declaration.read(host).get(SECTION)
    if section is None:
        return None
    for_one_run = {name for name, one in described(Desired).items() if one.once}
    given = {name: value for name, value in section.items() if name not in for_one_run}
    try:
        # A boot has no network for packages.
        return of(Desired, dict(given, manage_packages=False))
    except NodeError as error:
        raise NodeError(
            "{0}, section {1}".format(declaration.PATH, SECTION),
            "{0}: {1}".format(error.thing, error.reason),
            error.remedy,
        ) from error


def converge_declared(host: Host, check_mode: bool = False) -> Optional[Outcome[Found]]:
    """What the boot unit runs: the scratch alone."""
    desired = _declared(host)
    alone = replaced(RESOURCE, plan=lambda found, desired: plan(found, desired, unit=False))
    return None if desired is None else run(host, alone, desired, check_mode)


def _job_folders(host: Host) -> List[str]:
    """A mounted scratch is no failure where the folders of jobs cannot be made: the prolog reports them."""
    from ...slurm.prepare import prepare  # loaded only where it is wanted

    try:
        prepare(host)
    except NodeError as error:
        return [str(error)]
    return []


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=_look,
    plan=plan,
    steps=STEPS,
    facts=_facts,
    shown=_shown,
    title="NVMe scratch",
    # Another run may make an array and its file system.
    lock_seconds=600.0,
    needs_command=True,
    line=Line("scratch", _line, always=True),
    at_boot=converge_declared,
    after_boot=_job_folders,
)


def status(host: Host) -> Dict[str, Any]:
    """What stands, what is declared, and what a run would do or why it would refuse."""
    desired = _declared(host)
    if desired is None:
        return {
            "declared": False,
            "scratch": None,
            "in_order": None,
            "actions": [],
            "refusals": [],
            "notes": [],
            "skipped": None,
        }
    found = look_now(host, desired)
    planned = plan(found, desired, unit=False)
    return {
        "declared": True,
        "scratch": view.facts(found.scratch, desired),
        "in_order": not planned.actions and not planned.refusals and not planned.skipped,
        "actions": [action.describe() for action in planned.actions],
        "refusals": [str(refusal) for refusal in planned.refusals],
        "notes": list(planned.notes),
        "skipped": planned.skipped,
    }
