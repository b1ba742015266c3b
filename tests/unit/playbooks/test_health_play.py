# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""health.yml over this machine, which no profile describes, and over nodes that are not there: what a person reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ansible_collections.trainyard.gpu_node as collection

(SOURCE,) = {Path(path) for path in collection.__path__ if (Path(path) / "playbooks").is_dir()}
ROOTS = os.pathsep.join(sorted({str(Path(path).parents[2]) for path in collection.__path__}))


@pytest.fixture
def play(tmp_path):
    here = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
    hosts = {
        "gone": {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1},
        "broken": dict(here, ansible_python_interpreter="/no/python"),
        "gpu01": here,
        "gpu02": here,
    }
    (tmp_path / "inventory.json").write_text(json.dumps({"gpu_nodes": {"hosts": hosts}}))

    def run(*arguments, environment=(), **variables):
        clean = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
        given = dict({"gpu_node_health_level": "passive"}, **variables)
        done = subprocess.run(
            [sys.executable, "-m", "ansible.cli.playbook", "-i", str(tmp_path / "inventory.json"), *arguments]
            + ["-e", json.dumps(given), str(SOURCE / "playbooks" / "health.yml")],
            env=dict(
                clean,
                ANSIBLE_COLLECTIONS_PATH=ROOTS,
                ANSIBLE_NOCOLOR="1",
                ANSIBLE_LOCAL_TEMP=str(tmp_path / "tmp"),
                **dict(environment),
            ),
            cwd=str(tmp_path),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
        return done

    run.folder = tmp_path
    return run


def test_sick_nodes_are_a_table_at_the_end_and_no_json(play):
    done = play()
    told = done.stdout + done.stderr
    assert done.returncode == 4 and '"verdict"' not in told and '"results"' not in told
    # A sentence for each node that is not well, and what Ansible says around it.
    assert len(told) < 12000, told
    table = done.stdout.partition("NODE HEALTH *")[2]
    lines = [line.rstrip() for line in table.splitlines()]
    assert {"4 nodes: 2 no verdict, 2 unknown", "4 nodes: 2 fail, 2 no verdict"} & set(lines), table
    assert any("the run failed on it before its verdict (The module interpreter" in line for line in lines)
    assert any("it was not reached (Failed to connect to the host via ssh: " in line for line in lines), table
    assert "TASK" not in table and "PLAY RECAP" in table
    failed = {line.split()[0]: "failed=1" in line for line in lines if "unreachable=" in line}
    assert failed == {"gone": False, "broken": True, "gpu01": True, "gpu02": True}


def test_a_node_that_may_pass_passes_and_files_are_written_on_request(play):
    report = play.folder / "out" / "report.json"
    environment = {
        "ANSIBLE_CALLBACKS_ENABLED": "trainyard.gpu_node.health_report",
        "GPU_NODE_HEALTH_JSON": str(report),
    }
    done = play("--limit", "gpu01", environment=environment, gpu_node_health_fail_on="never")
    assert done.returncode == 0, done.stdout + done.stderr
    # Not by the play and by the callback.
    assert done.stdout.count("NODE HEALTH *") == 1
    assert done.stdout.index("PLAY RECAP") < done.stdout.index("NODE HEALTH *")
    assert [one["host"] for one in json.loads(report.read_text())["nodes"]] == ["gpu01"]


def test_the_budget_of_the_active_checks_reaches_the_module(play):
    """A number below what any run takes: refused by the module of the node itself, which has no GPU to load."""
    done = play(
        "--limit", "gpu01", gpu_node_health_level="active", gpu_node_health_only=["gpu_*"], gpu_node_health_seconds=-1
    )
    assert "-1 seconds for the active checks: it is out of range" in " ".join(done.stdout.split()), done.stdout
