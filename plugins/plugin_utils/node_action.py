# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The only way by which an action plugin of this collection runs a module on a node: its answer is data."""

from __future__ import annotations

import time
from typing import Any, Mapping

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from . import node_answer, verdicts


class NodeAction(ActionBase):
    def _ask(
        self,
        module: str,
        arguments: Mapping[str, Any],
        task_vars: dict[str, Any],
        with_profile: bool = False,
        sent: bool = False,
    ) -> dict[str, Any]:
        """The cleaned answer of a module. ``with_profile``: it may set the fact ``gpu_node_profile``. ``sent``: the
        node command goes with it."""
        refuse_facts(task_vars)
        name = module.rpartition(".")[2]
        try:
            # Its output is cleaned while Ansible parses it.
            answer = self._execute_module(module_name=module, module_args=dict(arguments), task_vars=task_vars)
            told = node_answer.cleaned(answer, with_profile)
            if sent and told.get(node_answer.TRANSFER_NEEDED):
                raise node_answer.Untrusted("it asks for the node command, which was sent with this module")
            verdicts.of_answer(name, told, arguments, time.time())
        except node_answer.Untrusted as reason:
            raise AnsibleActionFail(_UNTRUSTED.format(name, reason)) from None
        # Ansible asks a node once which Python it has.
        if self._discovered_interpreter_key:
            told.setdefault("ansible_facts", {})[self._discovered_interpreter_key] = self._discovered_interpreter
        return told

    def _parse_returned_data(self, res: Any, profile: str) -> Any:
        """Ansible prints parts of the output of a module while it reads it, and makes an error of the rest."""
        texts = {"stdout": node_answer.output(res["stdout"]), "stderr": node_answer.shortened(res["stderr"])}
        return super()._parse_returned_data(dict(res, **texts), profile)


_UNTRUSTED = (
    "The answer of this node to {0} is not used: {1}. Look for what changes the output of Python on the node; the node "
    "may be compromised."
)
REFUSED = (
    "{0}: it is a fact of {1}, and only the inventory may set what happens on the controller; delete it from the "
    "fact cache, set inject_facts_as_vars=False in ansible.cfg, and find out which task has set it."
)


def refuse_facts(task_vars: Mapping[str, Any]) -> None:
    """:raises AnsibleActionFail: a fact of this host would say what happens on the controller."""
    names = refused(task_vars)
    if names:
        raise AnsibleActionFail(REFUSED.format(", ".join(names), "this host"))


def refuse_facts_of_play(task_vars: Mapping[str, Any]) -> None:
    """For a task that runs once and uses variables of all hosts of the play.

    :raises AnsibleActionFail: a fact of one of them would say what happens on the controller.
    """
    for host in task_vars["ansible_play_hosts_all"]:
        names = refused(task_vars["hostvars"].raw_get(host))
        if names:
            raise AnsibleActionFail(REFUSED.format(", ".join(names), host))


def refused(variables: Mapping[str, Any]) -> list[str]:
    """Facts of a host that Ansible uses as variables of this collection; none if it does not turn facts into
    variables."""
    if not constants.config.get_config_value("INJECT_FACTS_AS_VARS"):
        return []
    return node_answer.foreign(variables.get("ansible_facts"))
