# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of the module node_runtime: build the zipapp, send it only when the node lacks it."""

from __future__ import annotations

from typing import Any

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import zipapp

MODULE = "trainyard.gpu_node.node_runtime"


class ActionModule(ActionBase):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        if "sha256" in arguments or "source" in arguments:
            raise AnsibleActionFail("node_runtime: sha256 and source are filled in by the controller; leave them out.")
        if arguments.get("state", "present") != "present":
            return self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars)
        try:
            # The folder is that of this run; it ends with the run.
            local, arguments["sha256"] = zipapp.built_once(constants.DEFAULT_LOCAL_TMP)
        except zipapp.BindingMissing as error:
            raise AnsibleActionFail(str(error)) from error
        result = self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars)
        if result.get("failed") or not result.pop("transfer_needed", False):
            return result
        arguments["source"] = self._send(local)
        result = self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars)
        result.pop("transfer_needed", None)
        return result

    def _send(self, local: str) -> str:
        remote_folder = self._connection._shell.tmpdir or self._make_tmp_path()
        remote = self._connection._shell.join_path(remote_folder, "gpunode.pyz")
        self._transfer_file(local, remote)
        self._fixup_perms2((remote_folder, remote))
        return remote
