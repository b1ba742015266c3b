# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of the module node_profile."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import site_profiles
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.nvml_action import NvmlAction


class ActionModule(NvmlAction):
    """The profiles of a site are read on the controller, so a node needs neither the files nor a reader of YAML."""

    def arguments(self) -> dict[str, Any]:
        found = super().arguments()
        try:
            found["profiles"] = site_profiles.read(found.get("profiles"))
        except NodeError as error:
            raise AnsibleActionFail(str(error)) from error
        return found
