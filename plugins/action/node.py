# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of the module node, and of all modules that are the work of the node command: the command is built
once in a run of Ansible, and sent only to a node that has another one."""

from __future__ import annotations

from typing import Any, Mapping

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import declarations, site_profiles, zipapp

_OURS = "_command"
_COLLECTION = "trainyard.gpu_node."


class ActionModule(ActionBase):
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        name = self._task.action.rpartition(".")[2]
        arguments = dict(self._task.args)
        if _OURS in arguments:
            raise AnsibleActionFail("option {0}: the controller sets it; leave it out.".format(_OURS))
        if name == "node":
            choice = declarations.chosen(task_vars.get("ansible_run_tags", ()), task_vars.get("ansible_skip_tags", ()))
            if choice is None:
                return dict(result, skipped=True, skip_reason="no tag of this run names a resource")
            arguments.setdefault("only", choice.only)
            arguments.setdefault("without", choice.without)
        try:
            if name == "node" and arguments.get("declaration") is None:
                arguments["declaration"] = self._declaration(arguments.get("resources"), task_vars)
            if name == "node_profile":
                # A node needs neither the files of a site's profiles nor a reader of YAML.
                arguments["profiles"] = site_profiles.read(arguments.get("profiles"))
            sections = arguments["declaration"] if name == "node" else {name: arguments}
            # The folder is that of this run; it ends with the run.
            local, sha256 = zipapp.built_once(constants.DEFAULT_LOCAL_TMP)
        except (NodeError, zipapp.BindingMissing) as error:
            raise AnsibleActionFail(str(error)) from error
        command = {"sha256": sha256, "source": None, "secrets": declarations.secrets(sections), "profile": None}
        if declarations.has_figures(name):
            command["profile"] = (task_vars["ansible_facts"].get("gpu_node_profile") or {}).get("data")
        arguments[_OURS] = command
        result = self._execute_module(module_name=_COLLECTION + name, module_args=arguments, task_vars=task_vars)
        if not result.pop("transfer_needed", False):
            return result
        command["source"] = self._send(local)
        return self._execute_module(module_name=_COLLECTION + name, module_args=arguments, task_vars=task_vars)

    def _declaration(self, names: Any, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        return declarations.of_variables(
            declarations.ALL if names is None else names,
            task_vars,
            # Of a mapping, what is left out goes.
            lambda name: self._templar.template({name: task_vars[name]}).get(name),
        )

    def _send(self, local: str) -> str:
        remote_folder = self._connection._shell.tmpdir or self._make_tmp_path()
        remote = self._connection._shell.join_path(remote_folder, "gpunode.pyz")
        self._transfer_file(local, remote)
        self._fixup_perms2((remote_folder, remote))
        return remote
