# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a play over this node ended, for the program that started it."""

# Ansible wants the documentation before the imports.
# ruff: noqa: E402

from __future__ import annotations

DOCUMENTATION = r"""
name: converge_outcome
type: notification
short_description: Write into a file why a converge failed, or what the verdict on the node is
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
description:
  - For a node that converges itself; C(converge) of the offline bundle switches it on and reads the file.
  - The file has C(failure), the message of the last task that failed, and C(outcome) of the last
    M(trainyard.gpu_node.health_check). What C(no_log) hides is not in it.
  - Without O(path) nothing is written.
requirements:
  - to be enabled, C(callbacks_enabled=trainyard.gpu_node.converge_outcome)
options:
  path:
    description: The file.
    type: path
    env:
      - name: GPU_NODE_CONVERGE_OUTCOME
"""

import json

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "trainyard.gpu_node.converge_outcome"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, str | None] = {"failure": None, "outcome": None}

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self.v2_runner_on_ok(result)
        if not ignore_errors:
            message = str(result._result.get("msg") or "a task failed, its output tells why")
            # The last task of site.yml tells which node it is about, which goes without saying here.
            self._told["failure"] = message.removeprefix("localhost is not ready: ").strip()

    def v2_runner_on_unreachable(self, result):
        self.v2_runner_on_failed(result)

    def v2_runner_on_ok(self, result):
        verdict = result._result.get("verdict")
        if isinstance(verdict, dict) and "results" in verdict:
            self._told["outcome"] = str(verdict.get("outcome"))

    def v2_playbook_on_stats(self, stats):
        path = self.get_option("path")
        if path:
            with open(path, "w", encoding="utf-8") as stream:
                json.dump(self._told, stream)
