# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of the module node, and of all modules that are the work of the node command: the command is built
once in a run of Ansible, and sent only to a node that has another one."""

from __future__ import annotations

import os
from typing import Any, Mapping

from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleUndefinedVariable

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.secrets import hide
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import wish
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import (
    cluster,
    declarations,
    node_answer,
    site_profiles,
    zipapp,
)
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.converted import from_yaml
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.node_action import (
    NodeAction,
    refuse_facts,
    refuse_facts_of_play,
)

_OURS = "_command"
_DECLARATION = "option declaration"
_COLLECTION = "trainyard.gpu_node."
_PROFILE = node_answer.PROFILE
# Below Ansible's own folder of this user.
_KEPT = "trainyard.gpu_node"


class ActionModule(NodeAction):
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        name = self._task.action.rpartition(".")[2]
        arguments = dict(self._task.args)
        if _OURS in arguments:
            raise AnsibleActionFail("option {0}: the controller sets it; leave it out.".format(_OURS))
        refuse_facts(task_vars)
        try:
            if name == "node":
                return dict(result, **self._node(arguments, task_vars))
            if name == "node_profile":
                # A node needs neither the files of a site's profiles nor a reader of YAML.
                arguments["profiles"] = site_profiles.read(arguments.get("profiles"))
            if name in registry.OF_CLUSTER or self._task.run_once:
                refuse_facts_of_play(task_vars)
            if name in registry.OF_CLUSTER:
                arguments.update(cluster.of_hosts(name, arguments, task_vars, self._filled))
            declarations.check(name, arguments, _figures(task_vars))
            return dict(result, **self._command(name, arguments, {name: arguments}, task_vars))
        except (NodeError, zipapp.BindingMissing) as error:
            told = hide(from_yaml(str(error)), declarations.secrets({name: arguments}))
            raise AnsibleActionFail(told) from None

    def _filled(self, value: Any, variables: Mapping[str, Any]) -> Any:
        return self._templar.copy_with_new_env(available_variables=variables).template(value)

    def _node(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        if arguments.get("write_to"):
            return self._write(arguments, task_vars)
        tags = [task_vars.get(one, ()) for one in ("ansible_run_tags", "ansible_skip_tags")]
        choice = declarations.chosen(*tags, arguments.get("only") or ())
        if choice is None:
            return {"skipped": True, "skip_reason": "no tag of this run names a resource"}
        arguments["only"] = choice.only
        arguments["without"] = [*(arguments.get("without") or ()), *choice.without]
        of_user = arguments["declaration"] = _of_user(arguments)
        if of_user is None:
            arguments["declaration"] = self._declaration(arguments, task_vars)
        result = self._command("node", arguments, arguments["declaration"], task_vars)
        return result if of_user is not None else _with_variables(result)

    def _write(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Nothing is sent to the node, unless a variable takes its profile: then it is looked at."""
        check_mode, self._task.check_mode = self._task.check_mode, True
        of_user = _of_user(arguments)
        sections = self._declaration(arguments, task_vars) if of_user is None else of_user
        try:
            wish.desired(sections, {})
        except NodeError as error:
            raise AnsibleActionFail(declarations.with_variables(str(error))) from None
        path, text = os.path.abspath(os.path.expanduser(arguments["write_to"])), wish.text(sections)
        try:
            changed = declarations.write(path, text, check_mode)
        except OSError as error:
            reason = "{0}: it cannot be written ({1}); name a file that can be.".format(path, error.strerror)
            raise AnsibleActionFail(reason) from None
        return {"changed": changed, "path": path}

    def _declaration(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Made of variables. One that takes the profile of the machine, which is not known yet, costs a look at it."""
        known = _profile(task_vars)
        if known is not None:
            task_vars = _with_profile(task_vars, known)
        try:
            return self._of_variables(arguments, task_vars)
        except AnsibleUndefinedVariable:
            if _PROFILE in task_vars:
                raise
        sections = self._of_variables(dict(arguments, resources=["node_profile"]), task_vars)
        look = {"declaration": sections, "only": ["node_profile"], "without": []}
        told = self._command("node", look, sections, task_vars)
        if not told.get("profile"):
            raise AnsibleActionFail(told.get("msg") or " ".join(told.get("failures", ())))
        return self._of_variables(arguments, _with_profile(task_vars, told["profile"]))

    def _of_variables(self, arguments: Mapping[str, Any], task_vars: Mapping[str, Any]) -> dict[str, Any]:
        templar = self._templar.copy_with_new_env(available_variables=task_vars)

        def value(name: str) -> Any:
            # Of a mapping, what is left out goes.
            return templar.template({name: task_vars[name]}).get(name)

        names = arguments.get("resources")
        if names is None:
            return declarations.of_playbooks(task_vars, value, arguments.get("state") == "absent")
        return declarations.of_variables(names, task_vars, value)

    def _command(
        self, name: str, arguments: dict[str, Any], sections: Mapping[str, Any], task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        """Run the module of this name; ``sections`` may have access keys."""
        # The folder is that of this run; it ends with the run.
        local, sha256 = zipapp.built_once(
            constants.DEFAULT_LOCAL_TMP, os.path.join(constants.config.get_config_value("ANSIBLE_HOME"), _KEPT)
        )
        command = {"sha256": sha256, "source": None, "secrets": declarations.secrets(sections), "profile": None}
        if declarations.has_figures(name):
            command["profile"] = _figures(task_vars)
        arguments = dict(arguments, **{_OURS: command})
        with_profile = name in ("node", "node_profile")
        result = self._ask(_COLLECTION + name, arguments, task_vars, with_profile)
        if result.pop(node_answer.TRANSFER_NEEDED, False):
            command["source"] = self._send(local)
            result = self._ask(_COLLECTION + name, arguments, task_vars, with_profile, sent=True)
        return result

    def _send(self, local: str) -> str:
        remote_folder = self._connection._shell.tmpdir or self._make_tmp_path()
        remote = self._connection._shell.join_path(remote_folder, "gpunode.pyz")
        self._transfer_file(local, remote)
        self._fixup_perms2((remote_folder, remote))
        return remote


def _figures(task_vars: Mapping[str, Any]) -> Any:
    """Those of the machine's profile, where a task before has found them out."""
    return (_profile(task_vars) or {}).get("data")


def _profile(task_vars: Mapping[str, Any]) -> dict[str, Any] | None:
    """The result of an earlier task; a fact cache may contain it from a run of another release."""
    fact = (task_vars.get("ansible_facts") or {}).get(_PROFILE)
    if not fact:
        return None
    try:
        return node_answer.profile(fact)
    except node_answer.Untrusted as error:
        remedy = "Check what the node returns, and delete the fact from the fact cache."
        raise AnsibleActionFail("{0}: it is not used: {1}. {2}".format(_PROFILE, error, remedy)) from None


def _with_profile(task_vars: dict[str, Any], profile: Mapping[str, Any]) -> dict[str, Any]:
    """As a variable too, since not every controller makes variables of facts."""
    facts = dict(task_vars.get("ansible_facts") or {}, **{_PROFILE: profile})
    return dict(task_vars, **{_PROFILE: profile, "ansible_facts": facts})


def _of_user(arguments: Mapping[str, Any]) -> wish.Sections | None:
    """The declaration that a task gives, as a mapping or as the text of a file.

    :raises NodeError: it is none; or its sections are told twice.
    """
    content = arguments.get("declaration")
    if content is None:
        return None
    if arguments.get("resources") is not None:
        remedy = "leave one of them out; only and without choose among the sections of a declaration"
        raise NodeError("options declaration and resources", "each tells the sections", remedy)
    return wish.parse(content, _DECLARATION) if isinstance(content, str) else wish.checked(content, _DECLARATION)


def _with_variables(result: dict[str, Any]) -> dict[str, Any]:
    """Errors in the words of who set variables."""
    for key in ("failures", "summary"):
        result[key] = [declarations.with_variables(text) for text in result.get(key, ())]
    if result.get("failed"):
        result["msg"] = declarations.with_variables(result.get("msg", ""))
    return result
