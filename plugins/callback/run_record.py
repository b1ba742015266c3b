# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a run over many hosts is, what it did on each, and who is left."""

# Ansible wants the documentation before the imports.
# ruff: noqa: E402

from __future__ import annotations

DOCUMENTATION = r"""
name: run_record
type: aggregate
short_description: Record, show and resume a run over many hosts
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
description:
  - Shows a line every few seconds with how many hosts are ready, failed, not reached or running, who is slowest, and
    why the last one failed; ends with who is not done, by reason.
  - Writes a record of the run as JSON, and beside it a list of the hosts that are not done, which
    C(ansible-playbook --limit @FILE) takes.
  - Both are written during the run too, so one that is killed leaves them as they were a few seconds before, with the
    hosts in between as V(unfinished).
  - Nothing of a result is kept but the first sentence of why a task failed, without what an address may carry
    of passwords and tokens, and nothing at all of a task with C(no_log).
requirements:
  - to be enabled, C(callbacks_enabled=trainyard.gpu_node.run_record) in ansible.cfg or by C(ANSIBLE_CALLBACKS_ENABLED)
options:
  record:
    description:
      - File for the record; without it none is written. The list of hosts has the same name with C(.limit) at its end.
      - When all hosts are done there is no list, for C(--limit) takes an empty one as all hosts.
    type: path
    env:
      - name: GPU_NODE_RUN_RECORD
    ini:
      - section: callback_gpu_node_run_record
        key: record
  write_seconds:
    description: How often the files are written during the run, in seconds.
    type: float
    default: 10
    env:
      - name: GPU_NODE_RUN_WRITE_SECONDS
    ini:
      - section: callback_gpu_node_run_record
        key: write_seconds
  progress_seconds:
    description: At most every how many seconds a line of progress is shown; V(0) for never.
    type: float
    default: 5
    env:
      - name: GPU_NODE_RUN_PROGRESS_SECONDS
    ini:
      - section: callback_gpu_node_run_record
        key: progress_seconds
"""

import atexit
import os
import time
import uuid

from ansible import constants as C
from ansible import context
from ansible.playbook.block import Block
from ansible.playbook.task_include import TaskInclude
from ansible.plugins.callback import CallbackBase

from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.run_record import files, lines, record

_COLOURS = {
    "failed": C.COLOR_ERROR,
    "unreachable": C.COLOR_UNREACHABLE,
    "unfinished": C.COLOR_WARN,
    "ready": C.COLOR_OK,
}


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "trainyard.gpu_node.run_record"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self._run = None
        self._plays_left = 0
        self._play = None
        self._last_task = None
        self._in_last_play = set()
        self._process = os.getpid()
        self._began = self._shown = self._written = time.monotonic()
        self._refused = False

    def v2_playbook_on_start(self, playbook):
        self._plays_left = len(playbook.get_plays())
        self._run = record.Run(
            str(uuid.uuid4()),
            os.path.basename(playbook._file_name),
            bool(context.CLIARGS.get("check")),
            time.time(),
        )
        # A run that is interrupted never comes to its statistics.
        atexit.register(self._write)

    def v2_playbook_on_play_start(self, play):
        # With serial a play starts again for each batch.
        if self._play != play._uuid:
            self._plays_left -= 1
        self._play = play._uuid
        # Also those of the batches to come.
        inventory = play.get_variable_manager()._inventory
        names = [host.get_name() for host in inventory.get_hosts(play.hosts, ignore_restrictions=True)]
        self._run.expect(names)
        if self._plays_left == 0:
            last = _last_task(play)
            self._last_task = None if last is None else last._uuid
            self._in_last_play = set(names) if self._last_task else set()
        self._write()

    def v2_runner_on_start(self, host, task):
        self._run.begin(host.get_name(), task.get_name(), time.monotonic())

    def v2_runner_on_ok(self, result):
        host, task, content = _parts(result)
        self._run.end(host, time.monotonic(), changed=bool(content.get("changed")))
        self._after(host, task)

    def v2_runner_on_skipped(self, result):
        host, task, dummy = _parts(result)
        self._run.end(host, time.monotonic(), skipped=True)
        self._after(host, task)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        host, task, content = _parts(result)
        if ignore_errors:
            self._run.end(host, time.monotonic(), changed=bool(content.get("changed")))
        else:
            self._run.fail(host, time.monotonic(), "failed", record.why(content, task.get_name()))
        self._after(host, task)

    def v2_runner_on_unreachable(self, result):
        host, task, content = _parts(result)
        self._run.fail(host, time.monotonic(), "unreachable", record.why(content, task.get_name()))
        self._after(host, task)

    def v2_playbook_on_stats(self, stats):
        for name, host in self._run.hosts.items():
            told = stats.summarize(name)
            if host.status in ("failed", "unreachable") and not (told["failures"] or told["unreachable"]):
                self._run.rescued(name)
            # Who was not to come to a last task is done when the run is.
            if self._plays_left == 0 and name not in self._in_last_play and host.began is not None:
                self._run.went_through(name)
        self._run.ended = time.time()
        if not self._run.hosts:
            return
        self._display.banner("RUN")
        for status, line in lines.summary(self._run):
            self._display.display(line, color=_COLOURS.get(status))
        path = self.get_option("record")
        if not path or not self._write():
            return
        self._display.display("record: {0}".format(path))
        if self._run.not_done:
            self._display.display("those that are not done: --limit @{0}".format(files.limit_path(path)))
        else:
            self._display.display("Every host is done; there is nothing to resume.")

    def _after(self, host, task):
        if task._uuid == self._last_task:
            self._run.went_through(host)
        now = time.monotonic()
        if self.get_option("progress_seconds") and now - self._shown >= self.get_option("progress_seconds"):
            self._shown = now
            self._display.display(lines.progress(self._run, now, self._began))
        if now - self._written >= self.get_option("write_seconds"):
            self._write()

    def _write(self):
        """Whether the files are there. A file that cannot be written is told once and ends no run."""
        path = self.get_option("record")
        if not path or self._refused or not self._run.hosts or os.getpid() != self._process:
            return False
        self._written = time.monotonic()
        try:
            files.write(path, self._run)
        except OSError as error:
            self._refused = True
            text = "run_record: {0}: it could not be written ({1}); give another file in option record."
            self._display.warning(text.format(path, error.strerror))
            return False
        return True


def _last_task(play):
    """The task that ends a play for a host on which nothing fails, among those that the tags choose.

    None where that cannot be told before: it includes others, or runs on one host for all.
    """

    def last(parts):
        for part in reversed(parts):
            if isinstance(part, Block):
                found = last(part.always) or last(part.block)
                if found is not None:
                    return found
            elif not part.implicit and part.evaluate_tags(play.only_tags, play.skip_tags, {}):
                return part
        return None

    found = last([part for block in play.compile() for part in (block.always or block.block)])
    return None if found is None or isinstance(found, TaskInclude) or found.run_once else found


def _parts(result):
    """The name of the host, the task and what it said, with each version of ansible-core."""
    if hasattr(type(result), "result"):
        return result.host.get_name(), result.task, result.result
    return result._host.get_name(), result._task, result._result
