# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring GPUs to layouts in a process of its own (the loader finds the simulator's library there), a folder as the node.

Standard input: {root, options, check, declared}, or a list of such; standard output: the result, or results, as JSON.
"""

from __future__ import annotations

import json
import sys

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import options
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, Unfinished
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.run import run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import mig_layout


def told(outcome, desired):
    actions = [action.to_dict() for action in outcome.plan.actions]
    return dict(
        mig_layout.RESOURCE.facts(outcome, desired),
        changed=outcome.changed,
        actions=[action["action"] for action in actions],
        described=[action["description"] for action in actions],
        notes=list(outcome.plan.notes),
        skipped=outcome.plan.skipped,
    )


def done(job):
    host = Host(job["root"])
    try:
        desired = options.of(mig_layout.Desired, job["options"])
        if job.get("declared"):
            outcome = mig_layout.converge_declared(host, job["check"])
        else:
            outcome = run(host, mig_layout.RESOURCE, desired, job["check"])
        result = {"undeclared": True} if outcome is None else told(outcome, desired)
    except Unfinished as error:
        result = dict(told(error.outcome, desired), error=str(error))
    except NodeError as error:
        result = {"error": str(error)}
    return result


def main():
    asked = json.load(sys.stdin)
    json.dump([done(job) for job in asked] if isinstance(asked, list) else done(asked), sys.stdout)


if __name__ == "__main__":
    main()
