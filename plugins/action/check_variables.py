# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the variables of all hosts of a play on the controller; nothing is sent to a node."""

from __future__ import annotations

from typing import Any, Hashable

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import registry
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import declarations, node_action
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.variables import check, names, playbooks

# So many names of hosts are told of each mistake.
_HOSTS_MOST = 3
_ROLES = (*registry.NAMES, *registry.OF_CLUSTER)
_GATE = "health_gate_"
_COLLECTION = "trainyard.gpu_node"


class ActionModule(ActionBase):
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        dummy, given = self.validate_argument_spec(
            {
                "roles": {
                    "type": "list",
                    "elements": "str",
                    "choices": _ROLES,
                    "default": list(_ROLES),
                },
                "hosts": {"type": "list", "elements": "str"},
                "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            }
        )
        tags = [*task_vars.get("ansible_run_tags", ()), *task_vars.get("ansible_skip_tags", ())]
        misspelt_tags, others = declarations.unknown_tags(tags)
        if misspelt_tags:
            return dict(result, failed=True, msg=" ".join(["Nothing was changed.", *misspelt_tags]))
        for text in others:
            Display().warning(text)
        chosen = given["roles"]
        # By a variable that nobody reads it would drain what a site wants to be observed.
        strict = "health_gate" in chosen and given["state"] == "present"
        known = {name for role in (None, *_ROLES) for name in check.specification(role)}
        prefixes = [*_ROLES, "gpu_node"]
        hosts = task_vars["ansible_play_hosts_all"] if given["hosts"] is None else list(dict.fromkeys(given["hosts"]))
        wrong: dict[str, list[str]] = {}
        unread: dict[str, list[str]] = {}
        looked_at: set[str] = set()
        misspelt: dict[str, str] = {}
        # Hosts of a group mostly have the same values.
        judged: dict[Hashable, list[str]] = {}
        for host in hosts:
            variables = task_vars["hostvars"].raw_get(host)
            for name in node_action.refused(variables):
                wrong.setdefault(node_action.REFUSED.format(name, "this host"), []).append(host)
            if not chosen:
                continue
            new = set(variables) - looked_at
            looked_at |= new
            misspelt.update(names.misspelt(new, known | set(playbooks.FACTS), prefixes))
            for name in sorted(set(misspelt) & set(variables)):
                near = misspelt[name]
                told = wrong if strict and near.startswith(_GATE) and near not in variables else unread
                told.setdefault(_unread(name, near), []).append(host)
            for text in check.wrong_values(chosen, variables, self._template, given["state"], judged):
                wrong.setdefault(text, []).append(host)
        for text, where in unread.items():
            Display().warning(_with_hosts(text, where, hosts))
        if wrong:
            lines = [_with_hosts(text, where, hosts) for text, where in wrong.items()]
            return dict(result, failed=True, msg="\n".join(["Nothing was changed, as variables are wrong:", *lines]))
        return dict(result, changed=False, unread=sorted(unread))

    def _template(self, value: Any, variables: dict[str, Any]) -> Any:
        return self._templar.copy_with_new_env(available_variables=variables).template(value)


def _unread(name: str, near: str) -> str:
    if near:
        return "{0}: nothing reads this variable; did you mean {1}?".format(name, near)
    role = next((one for one in _ROLES if name.startswith(one + "_")), None)
    remedy = "leave it out"
    if role is not None:
        remedy += ", or choose among those that 'ansible-doc -t role {0}.{1}' lists".format(_COLLECTION, role)
    return "{0}: nothing reads this variable, and none has a name like it; {1}.".format(name, remedy)


def _with_hosts(text: str, where: list[str], hosts: list[str]) -> str:
    if len(where) == len(hosts) > 1:
        told = "all {0} nodes".format(len(hosts))
    else:
        more = len(where) - _HOSTS_MOST
        told = ", ".join(where[:_HOSTS_MOST]) + (" and {0} more".format(more) if more > 0 else "")
    return "{0} [{1}]".format(text, told)
