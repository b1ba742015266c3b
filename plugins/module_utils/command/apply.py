# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode apply``: bring the node to its declaration, one resource after the other."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Dict, List

from ..core import registry
from ..core.host import Host
from ..core.options import described
from ..core.registry import AT_BOOT
from ..core.resource import NodeError
from .exit_status import DONE, NOT_DONE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Put the scratch and the GPUs' settings in force again, as the boot units do."
    parser.add_argument("what", nargs="?", choices=["all", *AT_BOOT], default="all")
    parser.add_argument("--check", action="store_true", help="tell what would be done; change nothing")


def run(host: Host, arguments: argparse.Namespace) -> int:
    """A failure of one resource does not keep the others from being applied."""
    names = list(AT_BOOT) if arguments.what == "all" else [arguments.what]
    results = [_one(host, name, arguments.check) for name in names]
    if arguments.json:
        print(json.dumps({"check": arguments.check, "resources": results}, indent=2, sort_keys=True))
    else:
        for result in results:
            _print(result, arguments.check)
    return NOT_DONE if any(result["status"] == "failed" for result in results) else DONE


def _one(host: Host, name: str, check_mode: bool) -> Dict[str, Any]:
    resource = registry.resource(name)
    try:
        outcome = resource.at_boot(host, check_mode) if resource.at_boot is not None else None
    except NodeError as error:
        return {"resource": name, "status": "failed", "message": str(error), "actions": [], "notes": []}
    if outcome is None:
        return {"resource": name, "status": "undeclared", "message": None, "actions": [], "notes": []}
    notes = list(outcome.plan.notes)
    if not check_mode:
        if resource.after_boot is not None and outcome.plan.skipped is None:
            notes += resource.after_boot(host)
        for other in registry.RESOURCES[name].then:
            notes += _converged(host, other)
    status = "skipped" if outcome.plan.skipped else "changed" if outcome.changed else "ok"
    return {
        "resource": name,
        "status": status,
        "message": outcome.plan.skipped,
        "actions": [action.to_dict() for action in outcome.plan.actions],
        "notes": notes,
    }


def _converged(host: Host, name: str) -> List[str]:
    """The notes of the declared resource ``name``, which is converged after another one. slurmd starts later and reads
    its files then. A failure is a note: what was applied before is in place."""
    from ..node import converge, wish

    try:
        given = (wish.read(host) or {}).get(name)
        if given is None:
            return []
        known = described(registry.resource(name).options)
        later = {option: False for option in ("reconfigure", "restart") if option in known}
        part = converge.single(host, name, dict(given, **later), False, None, None)
    except NodeError as error:
        return [str(error)]
    if part.get("failed"):
        return ["{0}: {1}".format(name, part["msg"])]
    return ["{0}: {1}".format(name, action["description"]) for action in part["actions"]]


def _print(result: Dict[str, Any], check_mode: bool) -> None:
    name = result["resource"]
    if result["status"] == "failed":
        print("{0}: FAILED: {1}".format(name, result["message"]), file=sys.stderr)
        return
    headline = {
        "ok": "as declared, nothing to do",
        "undeclared": "nothing was declared for it",
        "skipped": "skipped: {0}".format(result["message"]),
        "changed": "would be changed" if check_mode else "brought to its declaration",
    }[result["status"]]
    print("{0}: {1}".format(name, headline))
    for action in result["actions"]:
        print("  - {0}".format(action["description"]))
    for note in result["notes"]:
        print("  note: {0}".format(note))
