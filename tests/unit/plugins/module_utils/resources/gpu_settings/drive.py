# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run gpu_settings in a process of its own (the loader finds the simulator's library there), on a folder as the node.

Standard input: {root, options, check, declared, module}; standard output: the result as JSON.
"""

from __future__ import annotations

import json
import sys

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import gpu_settings


def told(outcome, desired):
    actions = [action.to_dict() for action in outcome.plan.actions]
    result = {
        "changed": outcome.changed,
        "actions": [action["action"] for action in actions],
        "described": [action["description"] for action in actions],
        "notes": list(outcome.plan.notes),
        "skipped": outcome.plan.skipped,
        "before": gpu_settings.diff_text(outcome.before),
        "after": gpu_settings.diff_text(outcome.after),
    }
    result.update(gpu_settings.details(outcome, desired))
    return result


def main():
    job = json.load(sys.stdin)
    host = Host(job["root"])
    desired = gpu_settings.Desired()
    try:
        if job.get("declared"):
            outcome = gpu_settings.converge_declared(host, job["check"])
        else:
            desired = gpu_settings.Desired.from_options(job["options"])
            outcome = gpu_settings.run(host, desired, job["check"])
        result = {"undeclared": True} if outcome is None else told(outcome, desired)
    except gpu_settings.Unfinished as error:
        result = dict(told(error.outcome, desired), error=str(error), kind="Unfinished")
    except NodeError as error:
        result = {"error": str(error), "kind": type(error).__name__}
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
