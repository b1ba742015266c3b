# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a run: one restart of slurmd for all resources of which it has yet to read something."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from ..core import registry
from ..core.host import Host
from ..core.resource import NodeError
from ..slurm import slurmd

#: The part of a report, which is no resource.
SLURMD = "slurmd"


def settle(
    host: Host, parts: Dict[str, Dict[str, Any]], desired: Mapping[str, Any], check_mode: bool, may: bool = True
) -> Dict[str, Any]:
    """What was done, or what the node ``waits`` for; empty where slurmd has read everything. ``parts``, the results of
    the resources, are brought up to date. ``may``: False where slurmd waits for this run."""
    unread: Dict[str, str] = {}
    for name, part in parts.items():
        record = registry.resource(name).unread if name in registry.NAMES and not part.get("failed") else None
        what = record.what(part) if record is not None else ""
        if what:
            unread[name] = what
    if not unread:
        return {}
    wished = may and any(desired[name].restart for name in unread)
    try:
        planned = _planned(parts) if check_mode else {}
        withheld = slurmd.settle(host, tuple(unread.values()), wished, check_mode, planned)
    except NodeError as error:
        return {"failed": True, "msg": str(error)}
    if withheld is not None:
        return {"changed": False, "actions": [], "notes": [withheld], "waits": withheld}
    for name in unread:
        record = registry.resource(name).unread
        parts[name].update(record.read(parts[name]) if record is not None else {})
    return {"changed": True, "actions": [slurmd.RestartSlurmd().to_dict()], "notes": [], "waits": ""}


def _planned(parts: Mapping[str, Mapping[str, Any]]) -> Dict[str, Optional[str]]:
    """Texts of files as check mode foresees them; None: the file will be gone."""
    steps = [step for part in parts.values() for step in part.get("actions") or []]
    return {step["path"]: step.get("text") for step in steps if step.get("action") in ("write_file", "remove_file")}
