# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that run once for all hosts of a play: what each host has is an entry of a list, and what is of the cluster
must be the same for all."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import argument_spec_of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.per_host import flat, gathered
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, together
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.converted import converted
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.declarations import DESCRIBED

# Of rolling.yml, and of all roles that work on a cluster.
_NAME = "kubernetes_node_name"
Fill = Callable[[Any, Mapping[str, Any]], Any]


def of_hosts(name: str, given: Mapping[str, Any], task_vars: Mapping[str, Any], fill: Fill) -> dict[str, Any]:
    """The lists that the task does not give, from the variables of all hosts of the play; ``fill`` does templates.

    :raises NodeError: hosts differ in what is of the cluster.
    """
    known = DESCRIBED[name]
    lists = [option for option, one in known.items() if one.per_host]
    if all(given.get(option) is not None for option in lists):
        return {}
    names = {"{0}_{1}".format(name, option): option for option in flat(known)}
    specs = argument_spec_of(flat(known))
    defaults = {variable: specs[option].get("default") for variable, option in names.items()}
    of_play = _of_play(defaults, task_vars)
    hosts = task_vars["ansible_play_hosts_all"]
    of_each = {host: dict(task_vars["hostvars"].raw_get(host), **of_play) for host in hosts}
    _same([variable for variable, option in names.items() if option in known], defaults, of_each, fill)
    found: dict[str, list[Any]] = {option: [] for option in lists if given.get(option) is None}
    for host, variables in of_each.items():
        own = {variable: variables[variable] for variable in names if variable in variables}
        values = {names[variable]: value for variable, value in fill(own, variables).items() if value is not None}
        for option, entries in found.items():
            entries += gathered(known, converted(flat(known), values), name_of(host, variables, fill))[option]
    return found


def name_of(host: str, variables: Mapping[str, Any], fill: Fill) -> str:
    """What a host is called in Kubernetes, unless a role has another name for it; ``fill`` does templates."""
    given = fill({_NAME: variables[_NAME]}, variables).get(_NAME) if _NAME in variables else None
    return str(given or host)


def _of_play(defaults: Mapping[str, Any], task_vars: Mapping[str, Any]) -> dict[str, Any]:
    """Variables that the play, the role or the task has: they hold for all hosts. A default of the role is none."""
    own = task_vars["hostvars"].raw_get(task_vars["inventory_hostname"])
    found = {}
    for one, default in defaults.items():
        if one in task_vars and task_vars[one] != own.get(one, default):
            found[one] = task_vars[one]
    return found


def _same(
    options: list[str], defaults: Mapping[str, Any], of_each: Mapping[str, Mapping[str, Any]], fill: Fill
) -> None:
    """:raises NodeError: about each variable that is not the same for all; one that is not set has its default."""
    wrong = []
    for variable in options:
        first: tuple[str, Any] | None = None
        for host, variables in of_each.items():
            given = fill({variable: variables[variable]}, variables) if variable in variables else {}
            value = given.get(variable, defaults[variable])
            first = first or (host, value)
            if value != first[1]:
                reason = "{0} has another value than {1}, and a cluster has one".format(host, first[0])
                wrong.append(
                    NodeError(variable, reason, "set it for all of them, or run it for each cluster with --limit")
                )
                break
    if wrong:
        raise together(wrong)
