# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of the modules that talk to NVML: lend the node NVIDIA's binding where it has none yet.

A blank node has no node command, and check mode may not put it there. Its modules must see the GPUs all the same, so
the module says that it wants the binding and is run again with the controller's copy, which stays in its memory.
"""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from . import zipapp


class NvmlAction(ActionBase):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        name = self._task.resolved_action or self._task.action
        arguments = self.arguments()
        if "_binding" in arguments:
            raise AnsibleActionFail("option _binding: the controller sets it; leave it out.")
        result = self._execute_module(module_name=name, module_args=arguments, task_vars=task_vars)
        if not result.pop("binding_wanted", False):
            return result
        try:
            arguments["_binding"] = zipapp.binding_text()
        except zipapp.BindingMissing:
            arguments["_binding"] = ""  # the module then says what is missing, in its own words
        return self._execute_module(module_name=name, module_args=arguments, task_vars=task_vars)

    def arguments(self) -> dict[str, Any]:
        """What the module is given."""
        return dict(self._task.args)
