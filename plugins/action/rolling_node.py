# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take a node out of service and put it back, by the module of its scheduler.
Also run slurm_node, kubernetes_node and slurm_sweep, each by its own name."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.node_action import NodeAction

_COLLECTION = "trainyard.gpu_node."
# By the scheduler, whose name is that of the option with what the module alone takes.
_MODULES = {"slurm": "trainyard.gpu_node.slurm_node", "kubernetes": "trainyard.gpu_node.kubernetes_node"}


class ActionModule(NodeAction):
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        arguments = dict(self._task.args)
        name = self._task.action.rpartition(".")[2]
        if name != "rolling_node":
            return dict(result, **self._ask(_COLLECTION + name, arguments, task_vars))
        scheduler = arguments.pop("scheduler", "slurm")
        own = {name: arguments.pop(name, None) or {} for name in _MODULES}
        if scheduler not in _MODULES:
            known = " or ".join(_MODULES)
            raise AnsibleActionFail("scheduler: {0!r} is none; give {1}.".format(str(scheduler), known))
        if not isinstance(own[scheduler], dict):
            raise AnsibleActionFail(
                "{0}: it is not a mapping; give options of {1}.".format(scheduler, _MODULES[scheduler])
            )
        arguments.update(own[scheduler])
        return dict(result, **self._ask(_MODULES[scheduler], arguments, task_vars))
