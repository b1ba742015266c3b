# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that run once for all hosts of a play: what each host has is an entry of a list, and what is of the cluster
must be the same for all."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import Option, argument_spec_of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.per_host import flat, gathered
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, together
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.converted import converted
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.declarations import DESCRIBED

Fill = Callable[[Any, Mapping[str, Any]], Any]


def of_hosts(name: str, given: Mapping[str, Any], task_vars: Mapping[str, Any], fill: Fill) -> dict[str, Any]:
    """The lists that the task does not give, from the variables of all hosts of the play; ``fill`` does templates.

    :raises NodeError: hosts differ in what is of the cluster.
    """
    known = DESCRIBED[name]
    lists = [option for option, one in known.items() if one.per_host]
    if all(given.get(option) is not None for option in lists):
        return {}
    each = {"{0}_{1}".format(name, option): one for option, one in flat(known).items()}
    specs = argument_spec_of(each)
    defaults = {variable: specs[variable].get("default", one.default) for variable, one in each.items()}
    of_play = _of_play({**dict.fromkeys(one.of_role for one in each.values()), **defaults}, task_vars)
    hosts = task_vars["ansible_play_hosts_all"]
    of_each = {host: dict(task_vars["hostvars"].raw_get(host), **of_play) for host in hosts}
    _same({variable: one for variable, one in each.items() if one.name in known}, defaults, of_each, fill)
    found: dict[str, list[Any]] = {option: [] for option in lists if given.get(option) is None}
    for host, variables in of_each.items():
        own = {
            one.name: variables[chosen] for variable, one in each.items() if (chosen := _set(variable, one, variables))
        }
        values = {option: value for option, value in fill(own, variables).items() if value is not None}
        for option, entries in found.items():
            entries += gathered(known, converted(flat(known), values), host)[option]
    return found


def _set(variable: str, one: Option, variables: Mapping[str, Any]) -> str | None:
    """The variable that says it, which may be the one of all roles."""
    return next((name for name in (variable, one.of_role) if name in variables), None)


def _of_play(defaults: Mapping[str, Any], task_vars: Mapping[str, Any]) -> dict[str, Any]:
    """Variables that the play, the role or the task has: they hold for all hosts. A default of the role is none."""
    own = task_vars["hostvars"].raw_get(task_vars["inventory_hostname"])
    found = {}
    for one, default in defaults.items():
        if one in task_vars and task_vars[one] != own.get(one, default):
            found[one] = task_vars[one]
    return found


def _same(
    options: Mapping[str, Option], defaults: Mapping[str, Any], of_each: Mapping[str, Mapping[str, Any]], fill: Fill
) -> None:
    """:raises NodeError: about each variable that is not the same for all; one that is not set has its default."""
    wrong = []
    for variable, one in options.items():
        first: tuple[str, Any, str | None] | None = None
        for host, variables in of_each.items():
            chosen = _set(variable, one, variables)
            given = {} if chosen is None else fill({variable: variables[chosen]}, variables)
            value = given.get(variable, defaults[variable])
            first = first or (host, value, chosen)
            if value != first[1]:
                reason = "{0} has another value than {1}, and a cluster has one".format(host, first[0])
                remedy = "set it for all of them, or run it for each cluster with --limit"
                wrong.append(NodeError(chosen or first[2] or variable, reason, remedy))
                break
    if wrong:
        raise together(wrong)
