# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the table of a run of health checks, once for all hosts of a play; nothing is sent to a node."""

from __future__ import annotations

import time
from typing import Any

from ansible import constants as C
from ansible.plugins.action import ActionBase

from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.health_report import model, results, table

_CALLBACK = "trainyard.gpu_node.health_report"


class ActionModule(ActionBase):
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        dummy, given = self.validate_argument_spec({"registered": {"type": "str", "required": True}})
        verdicts: dict[str, Any] = {}
        missing: dict[str, str] = {}
        for host in task_vars["ansible_play_hosts_all"]:
            content = task_vars["hostvars"].raw_get(host).get(given["registered"]) or {}
            verdict = results.verdict(content)
            if verdict is not None:
                verdicts[host] = verdict
            else:
                missing[host] = (results.unreached if content.get("unreachable") else results.failed)(content)
        report = model.report(verdicts, missing, now=time.time())
        # The callback shows the same, after everything else.
        if _CALLBACK not in C.CALLBACKS_ENABLED:
            results.show(report)
        return dict(result, changed=False, lines=[line for dummy, line in table.rows(report)])
