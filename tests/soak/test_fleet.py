# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run over 200 simulated nodes of which some are not there, some fail and some are slow; then the rest of it.

SOAK_NODES (200) is the number of nodes. Of each 20, two are unreachable, one fails and one is slow.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = str(ROOT / "tools" / "fleet" / "fleet")
NODES = int(os.environ.get("SOAK_NODES", "200"))
GROUPS = range(0, NODES, 20)
UNREACHABLE = sorted(first + number for first in GROUPS for number in (3, 13))
FAILING = sorted(first + 7 for first in GROUPS)
SLOW = sorted(first + 5 for first in GROUPS)
VARIABLES = {"node_profile_metadata": "never", "gpu_node_comm": []}
# The node command, the profile and the summary: two module runs a node.
SKIP = "nvme_scratch,gpu_settings,slurm_hooks,health_gate,health"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the fleet makes namespaces and mounts, which root may")


def names(numbers):
    return ["gpu{0:04d}".format(number) for number in numbers if number <= NODES]


def listed(numbers):
    return ",".join(str(number) for number in numbers if number <= NODES)


@pytest.fixture
def fleet():
    words = ["serve", str(NODES), "--delay", "8"]
    for kind, numbers in (("unreachable", UNREACHABLE), ("failing", FAILING), ("slow", SLOW)):
        words += ["--" + kind, listed(numbers)]
    process = subprocess.Popen(
        [TOOL, "--run", "soak", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(60)


def test_the_rest_finish_the_record_is_right_and_the_resumed_run_takes_the_unfinished(fleet, tmp_path):
    record, limit = tmp_path / "run.json", tmp_path / "run.limit"

    def converge(*more):
        environment = dict(
            os.environ,
            ANSIBLE_CALLBACKS_ENABLED="trainyard.gpu_node.run_record",
            ANSIBLE_DISPLAY_OK_HOSTS="false",
            ANSIBLE_DISPLAY_SKIPPED_HOSTS="false",
            ANSIBLE_SSH_CONTROL_PATH_DIR=str(tmp_path / "cp"),
            GPU_NODE_RUN_RECORD=str(record),
        )
        done = subprocess.run(
            [str(Path(sys.executable).parent / "ansible-playbook"), "-i", fleet, "playbooks/site.yml"]
            + ["--skip-tags", SKIP, "-e", json.dumps(VARIABLES), *more],
            env=environment,
            cwd=str(ROOT),
            capture_output=True,
            text=True,
            check=False,
        )
        content = json.loads(record.read_text())
        return done, content, {name: one["status"] for name, one in content["hosts"].items()}

    done, content, statuses = converge()
    print(done.stdout[-6000:])
    expected = {name: "ready" for name in names(range(1, NODES + 1))}
    expected.update({name: "unreachable" for name in names(UNREACHABLE)})
    expected.update({name: "failed" for name in names(FAILING)})
    assert statuses == expected, done.stdout[-4000:] + done.stderr[-4000:]
    hosts = content["hosts"]
    for name in names(FAILING):
        assert "/opt" in hosts[name]["reason"] and "ead-only" in hosts[name]["reason"], hosts[name]
    # Which of the two it is depends on who is quicker, ssh or ansible-core.
    refused = {"ssh: Connection refused", "Data could not be sent to the host."}
    assert {hosts[name]["reason"] for name in names(UNREACHABLE)} <= refused
    assert all(hosts[name]["changed"] for name, status in statuses.items() if status == "ready")
    left = sorted(names(UNREACHABLE) + names(FAILING))
    assert limit.read_text().split() == left
    assert "slowest gpu" in done.stdout and "{0} hosts: ".format(NODES) in done.stdout
    # A line for each change and each failure, and not one for each task of each node.
    assert len(done.stdout.splitlines()) < 20 * NODES

    for number in FAILING:
        if number <= NODES:
            subprocess.run([TOOL, "--run", "soak", "ssh", str(number), "umount /opt"], check=True)
    done, content, statuses = converge("--limit", "@{0}".format(limit))
    assert sorted(statuses) == left, "others were touched"
    assert {name for name, status in statuses.items() if status == "ready"} == set(names(FAILING)), done.stdout[-4000:]
    assert limit.read_text().split() == names(UNREACHABLE)
