# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of the module health_check."""

from __future__ import annotations

from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.nvml_action import NvmlAction


class ActionModule(NvmlAction):
    pass
