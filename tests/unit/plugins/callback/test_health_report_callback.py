# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback in a real run of ansible-playbook over some hosts, one of which is not there."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from xml.etree import ElementTree as xml

import pytest

import ansible_collections.trainyard.gpu_node as collection
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.health_report import results
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.plugin_utils.health_report.health_fleet import (
    LOST,
    verdict,
)

pytestmark = pytest.mark.usefixtures("kept_bytecode")

PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Whoever is there
      ansible.builtin.raw: "true"
    - name: One that fails before its verdict
      ansible.builtin.fail:
        msg: the disk is full
      when: inventory_hostname == "broken"
    - name: The verdict
      ansible.builtin.set_fact:
        health_check: "{{ lookup('file', folder ~ '/' ~ inventory_hostname ~ '.json') | from_json }}"
      when: inventory_hostname not in without
    - name: Nothing of ours
      ansible.builtin.debug:
        msg: done
"""
INVENTORY = """
all:
  vars: {{ansible_connection: local, ansible_python_interpreter: {python}}}
  hosts:
    gpu01:
    gpu02:
    broken:
    gone: {{ansible_connection: ssh, ansible_host: 127.0.0.1, ansible_port: 1}}
"""


@pytest.fixture
def play(tmp_path):
    chance = random.Random(1)
    for host, findings in (("gpu01", ()), ("gpu02", (LOST,))):
        (tmp_path / (host + ".json")).write_text(json.dumps(verdict(host, chance, findings)))
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "inventory.yml").write_text(INVENTORY.format(python=sys.executable))
    roots = [os.path.dirname(os.path.dirname(path)) for path in collection.__path__]

    def run(without=("gone",), limit="all", **environment):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        return subprocess.run(
            [sys.executable, "-m", "ansible.cli.playbook", "-i", str(tmp_path / "inventory.yml")]
            + ["--limit", limit, "-e", json.dumps({"folder": str(tmp_path), "without": list(without)})]
            + [str(tmp_path / "play.yml")],
            env=dict(
                clean,
                ANSIBLE_COLLECTIONS_PATH=os.pathsep.join(os.path.dirname(root) for root in roots),
                ANSIBLE_CALLBACKS_ENABLED="trainyard.gpu_node.health_report",
                ANSIBLE_NOCOLOR="1",
                ANSIBLE_LOCAL_TEMP=str(tmp_path / "tmp"),
                **environment,
            ),
            capture_output=True,
            timeout=300,
            text=True,
            check=False,
        )

    run.folder = tmp_path
    return run


def test_a_run_ends_with_the_table_and_its_files(play):
    files = {name: str(play.folder / "out" / ("report." + name)) for name in ("html", "json", "junit")}
    files["history"] = str(play.folder / "out" / "runs")
    done = play(without=(), **{"GPU_NODE_HEALTH_" + name.upper(): path for name, path in files.items()})
    (kept,) = (play.folder / "out" / "runs").iterdir()
    assert json.loads(kept.read_text())["counts"] == {"fail": 1, "none": 2, "pass": 1}
    assert "NODE HEALTH" in done.stdout, done.stdout + done.stderr
    told = done.stdout.partition("NODE HEALTH")[2]
    lines = [line.rstrip() for line in told.splitlines()]
    assert "4 nodes: 1 fail, 2 no verdict, 1 pass" in lines
    assert "fail       gpu02" in lines and "no verdict gone" in lines and "no verdict broken" in lines
    assert any("it has fallen off the bus (Xid 79); reboot the node" in line for line in lines)
    assert any("the run failed on it before its verdict (the disk is full)" in line for line in lines), told
    assert any("it was not reached (" in line for line in lines)
    assert "1 node is healthy" in lines
    assert lines.index("fail       gpu02") < lines.index("no verdict broken")
    content = json.loads((play.folder / "out" / "report.json").read_text())
    assert [one["host"] for one in content["nodes"]] == ["gpu02", "broken", "gone", "gpu01"]
    assert "gpu02" in (play.folder / "out" / "report.html").read_text()
    assert xml.parse(files["junit"]).getroot().get("failures") == "1"
    assert "warn" not in done.stderr.lower() or "health_report" not in done.stderr, done.stderr


def test_a_run_without_a_verdict_says_nothing_and_a_file_that_cannot_be_written_is_a_sentence(play):
    silent = play(without=("gpu01",), limit="gpu01")
    assert silent.returncode == 0 and "NODE HEALTH" not in silent.stdout
    blocked = play(limit="gpu01", GPU_NODE_HEALTH_JSON="/proc/none/report.json")
    told = " ".join(blocked.stderr.split())
    assert blocked.returncode == 0 and "1 node is healthy" in blocked.stdout
    # Only what was asked for is written: an empty option is no folder.
    assert blocked.stdout.count("could not be written") + blocked.stderr.count("could not be written") == 1
    assert "give another file in option json" in told and "Traceback" not in told


def test_the_verdict_of_a_converge_of_the_whole_node_counts():
    # As the module node returns it; see its RETURN.
    found = verdict("gpu01", random.Random(1), (LOST,))
    content = {"changed": False, "health": {"verdict": found, "outcome": "fail", "findings": []}}
    assert results.verdict(content) == found
    assert results.verdict({"health": {"outcome": "unknown"}}) is None and results.verdict({"health": "pass"}) is None
