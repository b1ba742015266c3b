# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which resource groups of Azure are over, by their tags. Pure."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ansible.errors import AnsibleFilterError

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import lease
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, printable

DELETE_AFTER = "gpu_node_delete_after"
OWNER = "gpu_node_owner"


def azure_expired(groups: Sequence[Mapping[str, Any]], now: float, owner: str = "") -> list[dict[str, Any]]:
    if isinstance(groups, (str, Mapping)) or not isinstance(groups, Sequence):
        raise AnsibleFilterError("azure_expired: it takes the list that 'az group list --output json' prints.")
    found = []
    for group in groups:
        tags = group.get("tags") or {}
        if DELETE_AFTER in tags and (not owner or tags.get(OWNER) == owner):
            found.append(
                _judged(str(group.get("name")), str(tags[DELETE_AFTER]), str(tags.get(OWNER) or ""), float(now))
            )
    return sorted(found, key=lambda one: one["name"])


def _judged(name: str, after: str, owner: str, now: float) -> dict[str, Any]:
    told = {"name": name, "owner": owner, "delete_after": after, "over": False}
    try:
        end = lease.seconds(after)
    except NodeError:
        why = "its tag {0} is no time with a zone ({1!r}), so it stays".format(DELETE_AFTER, after)
    else:
        told["over"] = end <= now
        why = "{0} {1}".format("over since" if told["over"] else "until", lease.utc(end))
    return dict(told, line=printable("{0} (of {1}): {2}".format(name, owner or "nobody", why)))


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"azure_expired": azure_expired}
