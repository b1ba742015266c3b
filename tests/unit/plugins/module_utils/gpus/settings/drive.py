# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring GPUs to settings in another process (the loader finds the simulator's library there), a folder as the node.

Standard input: {root, options, check, declared}; standard output: the result as JSON. ``options`` are those of a
section, where what is left out is left alone; the whole resource, with its options, is run by the tests of the module.
"""

from __future__ import annotations

import json
import sys

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, Unfinished
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings.options import Settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings.report import details, diff_text
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings.run import set_gpus
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import gpu_settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_settings.options import Desired


def settings_of(options):
    """As a converge gives them, where what is left out is left alone."""
    section = dict(options)
    own = {"declare": True, "require_gpus": False, "undo": False}
    own = {name: section.pop(name, default) for name, default in own.items()}
    found = of(Settings, section)
    values = {name: getattr(found, name) for name in found._names}
    return Desired(present=not own["undo"], declare=own["declare"], require_gpus=own["require_gpus"], **values)


def told(outcome, settings):
    actions = [action.to_dict() for action in outcome.plan.actions]
    result = {
        "changed": outcome.changed,
        "actions": [action["action"] for action in actions],
        "described": [action["description"] for action in actions],
        "notes": list(outcome.plan.notes),
        "skipped": outcome.plan.skipped,
        "before": diff_text(outcome.before),
        "after": diff_text(outcome.after),
    }
    result.update(details(outcome, settings))
    return result


def main():
    job = json.load(sys.stdin)
    host = Host(job["root"])
    settings = Desired(persistence=None, clocks=None)
    try:
        if job.get("declared"):
            outcome = gpu_settings.converge_declared(host, job["check"])
        else:
            settings = settings_of(job["options"])
            outcome = set_gpus(host, settings, job["check"])
        result = {"undeclared": True} if outcome is None else told(outcome, settings)
    except Unfinished as error:
        result = dict(told(error.outcome, settings), error=str(error), kind="Unfinished")
    except NodeError as error:
        result = {"error": str(error), "kind": type(error).__name__}
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
