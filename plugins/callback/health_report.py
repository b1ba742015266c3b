# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run of health checks over many nodes came to."""

# Ansible wants the documentation before the imports.
# ruff: noqa: E402

from __future__ import annotations

DOCUMENTATION = r"""
name: health_report
type: aggregate
short_description: End a run of health checks with the unhealthy nodes, why, and what to do
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
description:
  - Collects the verdicts of the module M(trainyard.gpu_node.health_check) in a run and ends it with a table for people.
  - The worst nodes come first, with a line for each reason and remedy; healthy nodes are counted. Nodes that were not
    reached are named, since nothing is known of them.
  - Compares the nodes of a type with each other, figure by figure, and names the odd ones out even when all are within
    their limits.
  - Names the parts that fail again by the journals of the nodes, also a GPU that failed on another node before.
  - Writes a self-contained HTML page, JSON and JUnit XML where it is told to.
  - A run without a verdict is not reported on, so it may be switched on for good.
requirements:
  - to be enabled, C(callbacks_enabled=trainyard.gpu_node.health_report) in ansible.cfg or by
    C(ANSIBLE_CALLBACKS_ENABLED)
options:
  html:
    description: File for the page; without it there is none. It loads nothing, so it can be sent and kept.
    type: path
    env:
      - name: GPU_NODE_HEALTH_HTML
    ini:
      - section: callback_gpu_node_health_report
        key: html
  json:
    description: File for the verdicts of all nodes, and what was compared.
    type: path
    env:
      - name: GPU_NODE_HEALTH_JSON
    ini:
      - section: callback_gpu_node_health_report
        key: json
  junit:
    description:
      - File for JUnit XML, with a suite for each node and a case for each check.
      - A check that fails is a failure, and one that could not be made is an error.
    type: path
    env:
      - name: GPU_NODE_HEALTH_JUNIT
    ini:
      - section: callback_gpu_node_health_report
        key: junit
  history:
    description:
      - Folder where each run leaves a small file, with how many nodes had which outcome and how many GPUs were in use.
      - With it the page shows the runs before. The last 1,000 are kept.
    type: path
    env:
      - name: GPU_NODE_HEALTH_HISTORY
    ini:
      - section: callback_gpu_node_health_report
        key: history
  title:
    description: Heading of the page.
    type: str
    default: GPU node health
    env:
      - name: GPU_NODE_HEALTH_TITLE
    ini:
      - section: callback_gpu_node_health_report
        key: title
  nodes_min:
    description: Nodes of a type from which on they are compared with each other. At least 3.
    type: int
    default: 5
    env:
      - name: GPU_NODE_HEALTH_NODES_MIN
    ini:
      - section: callback_gpu_node_health_report
        key: nodes_min
"""

import json
import os
import time

from ansible.plugins.callback import CallbackBase

from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.health_report import (
    history,
    junit,
    model,
    page,
    results,
)


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "trainyard.gpu_node.health_report"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self._verdicts = {}
        self._missing = {}
        self._checked = False

    def v2_playbook_on_task_start(self, task, is_conditional):
        self._checked = self._checked or task.action.rpartition(".")[2] == "health_check"

    def v2_runner_on_ok(self, result):
        self._take(result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        host, content = _parts(result)
        if not self._take(result):
            self._missing.setdefault(host, results.failed(content))

    def v2_runner_on_unreachable(self, result):
        host, content = _parts(result)
        self._missing[host] = results.unreached(content)

    def v2_playbook_on_stats(self, stats):
        if not self._verdicts and not (self._checked and self._missing):
            return
        nodes_min = max(3, self.get_option("nodes_min"))
        report = model.report(self._verdicts, self._missing, nodes_min, time.time())
        results.show(report)
        runs = self._history(report)
        self._write("html", lambda: page.page(report, self.get_option("title"), runs))
        self._write("json", lambda: json.dumps(report.to_dict(), indent=1, default=model.text) + "\n")
        self._write("junit", lambda: junit.junit(report))

    def _take(self, result):
        """Whether a verdict was in it."""
        host, content = _parts(result)
        verdict = results.verdict(content)
        if verdict is not None:
            self._verdicts[host] = verdict
        return verdict is not None

    def _history(self, report):
        """This run and those before it; nothing where no folder is given."""
        folder = self.get_option("history")
        if not folder:
            return ()
        try:
            history.keep(folder, history.of_report(report))
            return history.read(folder)
        except OSError as error:
            words = "health_report: {0}: {1}; give a folder that can be written to in option history."
            self._display.warning(words.format(folder, error.strerror))
            return ()

    def _write(self, option, render):
        path = self.get_option(option)
        if not path:
            return
        try:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            with open(path, "w", encoding="utf-8", errors="replace") as stream:
                stream.write(render())
        except OSError as error:
            self._display.warning(
                "health_report: {0}: it could not be written ({1}); give another file in option {2}.".format(
                    path, error.strerror, option
                )
            )
        else:
            self._display.display("{0}: {1}".format(option, path))


def _parts(result):
    """The name of the host and what the task said, with each version of ansible-core."""
    if hasattr(type(result), "result"):
        return result.host.get_name(), result.result
    return result._host.get_name(), result._result
