# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback in real runs of ansible-playbook over some hosts: not there, failing, skipped, killed, in batches."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

import ansible_collections.trainyard.gpu_node as collection

pytestmark = pytest.mark.usefixtures("kept_bytecode")

PLAY = """
- hosts: all
  gather_facts: false
  serial: "{{ batch | default(0) | int }}"
  tasks:
    - name: Something that changes
      ansible.builtin.raw: "true"
      register: did
      changed_when: did.rc == 0
      when: inventory_hostname != "spare"
    - name: Converge
      when: inventory_hostname != "spare"
      block:
        - name: A disk
          ansible.builtin.fail:
            msg: >-
              The disk nvme3 is not blank; take https://me:hush1@mirror/x.tar?sig=hush2. And more of it.
          when: inventory_hostname in broken
        - name: A password
          ansible.builtin.raw: "echo hush3; false"
          no_log: true
          when: inventory_hostname == "secret" and inventory_hostname in hidden
        - name: A wait
          ansible.builtin.raw: "sleep {{ pause | default(0) }}"
          when: inventory_hostname == "gpu02"
      rescue:
        - name: All is well again
          ansible.builtin.debug:
            msg: well
          when: rescued | default(false)
        - name: It is not
          ansible.builtin.fail:
            msg: "{{ inventory_hostname }} is not ready"
          when: not rescued | default(false)
    - name: The end
      ansible.builtin.raw: "true"
      changed_when: false
      vars:
        token: hush4
      when: inventory_hostname != "spare"
"""
INVENTORY = """
all:
  vars: {{ansible_connection: local, ansible_python_interpreter: {python}, password: hush5}}
  hosts:
    gpu01:
    gpu02:
    broken:
    secret:
    spare:
    gone: {{ansible_connection: ssh, ansible_host: 127.0.0.1, ansible_port: 1}}
"""


@pytest.fixture
def play(tmp_path):
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "inventory.yml").write_text(INVENTORY.format(python=sys.executable))
    roots = [os.path.dirname(os.path.dirname(path)) for path in collection.__path__]

    def run(limit="all", environment=(), wait=True, **variables):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        variables = dict({"broken": ["broken"], "hidden": ["secret"]}, **variables)
        process = subprocess.Popen(
            [sys.executable, "-m", "ansible.cli.playbook", "-i", str(tmp_path / "inventory.yml")]
            + ["--limit", limit, "-e", json.dumps(variables), str(tmp_path / "play.yml")],
            env=dict(
                clean,
                ANSIBLE_COLLECTIONS_PATH=os.pathsep.join(os.path.dirname(root) for root in roots),
                ANSIBLE_CALLBACKS_ENABLED="trainyard.gpu_node.run_record",
                ANSIBLE_NOCOLOR="1",
                ANSIBLE_LOCAL_TEMP=str(tmp_path / "tmp"),
                **dict({"GPU_NODE_RUN_RECORD": str(tmp_path / "out" / "run.json")}, **dict(environment)),
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        if not wait:
            return process
        output, errors = process.communicate(timeout=300)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    run.record = tmp_path / "out" / "run.json"
    run.limit = tmp_path / "out" / "run.limit"
    run.read = lambda: json.loads(run.record.read_text())
    return run


def statuses(content):
    return {name: one["status"] for name, one in content["hosts"].items()}


def test_a_run_is_told_recorded_and_taken_up_again(play):
    done = play()
    content = play.read()
    assert statuses(content) == {
        "broken": "failed",
        "gone": "unreachable",
        "gpu01": "ready",
        "gpu02": "ready",
        "secret": "failed",
        "spare": "skipped",
    }, done.stdout + done.stderr
    assert content["schema"] == "trainyard.gpu_node/run/1" and content["playbook"] == "play.yml"
    assert content["counts"] == {"failed": 2, "unreachable": 1, "unfinished": 0, "ready": 2, "skipped": 1}
    assert content["started"] <= content["ended"] and content["ended"].endswith("Z") and not content["check_mode"]
    hosts = content["hosts"]
    assert hosts["broken"]["reason"] == "The disk nvme3 is not blank; take https://[hidden]@mirror/x.tar?[hidden]"
    assert hosts["secret"]["reason"] == "A password: it failed, and its result is hidden (no_log)"
    assert hosts["gpu01"] == dict(hosts["gpu01"], reason=None, changed=1, tasks=2)
    assert hosts["gpu02"]["tasks"] == 3 and hosts["spare"]["tasks"] == 0
    assert "hush" not in play.record.read_text() + play.limit.read_text()

    told = done.stdout.partition("RUN *")[2]
    assert "failed      broken: The disk nvme3 is not blank" in told and "unreachable gone: " in told
    assert "6 hosts: 2 failed, 1 unreachable, 2 ready, 1 skipped" in told
    assert "--limit @{0}".format(play.limit) in told
    assert play.limit.read_text().split() == ["broken", "gone", "secret"]

    again = play(limit="@{0}".format(play.limit), broken=[], hidden=[])
    content = play.read()
    assert statuses(content) == {"broken": "ready", "gone": "unreachable", "secret": "ready"}, again.stdout
    assert play.limit.read_text().split() == ["gone"]

    last = play(limit="broken,secret", broken=[], hidden=[])
    assert last.returncode == 0 and not play.limit.exists()
    assert "Every host is done; there is nothing to resume." in last.stdout


def test_what_was_rescued_is_ready(play):
    done = play(limit="broken,gpu01", rescued=True)
    assert done.returncode == 0 and statuses(play.read()) == {"broken": "ready", "gpu01": "ready"}
    assert play.read()["hosts"]["broken"]["reason"] is None


def test_batches_that_were_not_begun_are_unfinished(play):
    # The first batch fails as a whole, so ansible ends the run.
    done = play(limit="broken,gpu01,gpu02", batch=1, broken=["gpu01"])
    assert statuses(play.read()) == {"gpu01": "failed", "gpu02": "unfinished", "broken": "unfinished"}, done.stdout
    assert play.limit.read_text().split() == ["broken", "gpu01", "gpu02"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_ended_leaves_a_true_record(play, how):
    environment = {"GPU_NODE_RUN_WRITE_SECONDS": "0", "ANSIBLE_STRATEGY": "free"}
    process = play(limit="gpu01,gpu02,broken", wait=False, environment=environment, pause=60)
    try:
        until = time.monotonic() + 55
        while time.monotonic() < until:
            # The limit is written after the record, and has those that are not done and those that failed alike.
            left = play.limit.read_text().split() if play.limit.exists() else []
            if left == ["broken", "gpu02"] and statuses(play.read())["broken"] == "failed":
                break
            time.sleep(0.1)
        (process.kill if how == signal.SIGKILL else lambda: process.send_signal(how))()
        process.wait(150)  # a worker that sleeps may be waited for
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    content = play.read()
    assert statuses(content) == {"gpu01": "ready", "gpu02": "unfinished", "broken": "failed"}
    assert content["ended"] is None and play.limit.read_text().split() == ["broken", "gpu02"]
    assert sorted(path.name for path in play.record.parent.iterdir()) == ["run.json", "run.limit"]


def test_progress_names_who_fails_and_a_file_that_cannot_be_written_is_a_sentence(play):
    blocked = {"GPU_NODE_RUN_RECORD": "/proc/none/run.json", "GPU_NODE_RUN_PROGRESS_SECONDS": "0.001"}
    done = play(limit="gpu01,broken", environment=blocked)
    lines = [line for line in done.stdout.splitlines() if line.startswith("[0:")]
    assert any("2 hosts: 1 failed, 1 running; broken: The disk nvme3 is not blank" in line for line in lines), lines
    told = " ".join((done.stdout + done.stderr).split())
    assert told.count("could not be written") == 1 and "give another file in option record" in told
    assert "Traceback" not in told and "--limit" not in told
    silent = play(limit="gpu01", environment={"GPU_NODE_RUN_PROGRESS_SECONDS": "0"})
    assert "[0:" not in silent.stdout and "1 host: 1 ready" in silent.stdout
