# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of the playbooks themselves, as options."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from ansible.errors import AnsibleFilterError

from ansible_collections.trainyard.gpu_node.plugins.filter.rolling import failures_most, rolling_batch
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import registry as resources
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import Option
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.per_host import flat
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.options import SHARED
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.declarations import DESCRIBED

_TEXT = Option(None, "", kind="str")
_TEXTS = Option(None, "", kind="list", elements="str")
_SWITCH = Option(None, "", kind="bool")
_NUMBER = Option(None, "", kind="int")
_FIGURE = Option(None, "", kind="float")
# A pattern or a list of them, and a number or a percentage.
_ANY = Option(None, "", kind="raw")

_KINDS = {
    "gpu_node_hosts": _ANY,
    **{"gpu_node_" + name: replaced(_TEXTS, choices=resources.group(name)) for name in resources.GROUPS},
    **{name: _SWITCH for name in map(resources.switch, resources.RESOURCES.values()) if name},
    "gpu_node_manage": _SWITCH,
    "gpu_node_declaration_folder": _TEXT,
    "gpu_node_reset": _SWITCH,
    "gpu_node_azure_az": _TEXT,
    "gpu_node_azure_owner": _TEXT,
    "gpu_node_azure_subscription": _TEXT,
    "gpu_node_health_level": replaced(_TEXT, choices=("quick", "passive", "active")),
    "gpu_node_health_only": _TEXTS,
    "gpu_node_health_without": _TEXTS,
    "gpu_node_health_seconds": _FIGURE,
    "gpu_node_health_fail_on": replaced(_TEXT, choices=("fail", "unknown", "warn", "never")),
    "gpu_node_kubernetes_from": _ANY,
    "gpu_node_kubernetes_look": _SWITCH,
    "gpu_node_rolling_batch": _ANY,
    "gpu_node_rolling_busy": replaced(_TEXT, choices=("leave", "drain", "evict")),
    "gpu_node_rolling_delete_emptydir_data": _SWITCH,
    "gpu_node_rolling_evict_minutes": _FIGURE,
    "gpu_node_rolling_evict_unmanaged": _SWITCH,
    "gpu_node_rolling_failures": _ANY,
    "gpu_node_rolling_not_done": _TEXT,
    "gpu_node_rolling_others": _SWITCH,
    "gpu_node_rolling_reason": _TEXT,
    "gpu_node_rolling_same_host": _SWITCH,
    "gpu_node_rolling_scheduler": replaced(_TEXT, choices=("slurm", "kubernetes")),
    "gpu_node_rolling_take_over": _SWITCH,
    "gpu_node_rolling_wait_minutes": _FIGURE,
    "gpu_node_sweep_host": _ANY,
    "gpu_node_sweep_percent": _FIGURE,
    "gpu_node_validate_busbw_min": _FIGURE,
    "gpu_node_validate_cancel": _TEXTS,
    "gpu_node_validate_command": _TEXTS,
    "gpu_node_validate_folder": _TEXT,
    "gpu_node_validate_from": _ANY,
    "gpu_node_validate_launcher": replaced(_TEXT, choices=("slurm", "mpirun", "command")),
    "gpu_node_validate_nodes": _TEXTS,
    "gpu_node_validate_pairwise": _SWITCH,
    "gpu_node_validate_parallel": _NUMBER,
    "gpu_node_validate_record": _TEXT,
    "gpu_node_validate_rounds_max": _NUMBER,
    "gpu_node_validate_runs": _NUMBER,
    "gpu_node_validate_script": _TEXT,
    "gpu_node_validate_seconds_per_test": _FIGURE,
}
# What the roles of a cluster take by default.
_SHARED = {
    one.of_role: replaced(one, of_role="")
    for name in resources.OF_CLUSTER
    for one in flat(DESCRIBED[name]).values()
    if one.of_role.startswith(SHARED)
}
OPTIONS = {name: replaced(one, name=name, field=name) for name, one in {**_KINDS, **_SHARED}.items()}
# Facts that roles and this collection's inventory plugin set; they look like variables of ours and are none.
FACTS = ("gpu_node_profile",)


def _batch(value: Any) -> None:
    rolling_batch(value, 1, 1)


def _failures(value: Any) -> None:
    failures_most(value, 1)


def _checks(value: Any) -> None:
    registry.known(value)


# What the plays would end with later, by what they themselves use.
_RULES: dict[str, Callable[[Any], None]] = {
    "gpu_node_rolling_batch": _batch,
    "gpu_node_rolling_failures": _failures,
    "gpu_node_health_only": _checks,
    "gpu_node_health_without": _checks,
}


def wrong(given: Mapping[str, Any]) -> list[str]:
    """A sentence for each of the values, which are of the kind that OPTIONS say, that cannot be."""
    found = []
    for variable, rule in _RULES.items():
        if variable in given:
            try:
                rule(given[variable])
            except AnsibleFilterError as error:
                found.append(str(error))
            except NodeError as error:
                found.append("{0}: {1}".format(variable, error))
    return found
