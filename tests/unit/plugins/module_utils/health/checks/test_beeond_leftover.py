# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job left of its shared scratch."""

from __future__ import annotations

import json

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import beeond_leftover
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Outcome

DECLARED = {"beeond": {}, "nvme_scratch": {"mount_point": "/mnt/scratch", "adopt": False, "state": "present"}}
MOUNTS = "40 1 9:0 / /mnt/scratch rw - xfs /dev/md0 rw\n"
CLIENT = "50 1 0:50 / /beeond/{0} rw - beegfs beegfs_ondemand rw\n"


@pytest.fixture
def node(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(MOUNTS)
    (tmp_path / "mnt/scratch/beeond").mkdir(parents=True)
    (tmp_path / "run/gpu_node/jobs").mkdir(parents=True)
    return tmp_path


def told(root, declared=None):
    seen = beeond_leftover.look(Evidence(Host(str(root)), DECLARED if declared is None else declared, {}))
    return beeond_leftover.judge(seen, None)


def runs(root, job):
    (root / "run/gpu_node/jobs/{0}.json".format(job)).write_text(json.dumps({"uid": 1000}))


def test_a_node_without_it_is_silent(node):
    assert told(node, {}).not_applicable == "no shared scratch was declared"
    assert told(node).findings == ()


def test_what_a_running_job_has_is_nothing_that_is_left(node):
    (node / "proc/self/mountinfo").write_text(MOUNTS + CLIENT.format(7) + CLIENT.format(8))
    for job in (7, 8, 9):
        (node / "mnt/scratch/beeond" / str(job)).mkdir()
    (node / "mnt/scratch/beeond/.trash").mkdir()
    runs(node, 7)
    findings = told(node).findings
    assert [(one.thing, one.code, one.outcome) for one in findings] == [
        ("shared scratch of job 8", "left_over", Outcome.WARN),
        ("shared scratch of job 9", "left_over", Outcome.WARN),
    ]
    assert "a mount and a data folder" in findings[0].reason and "still a data folder" in findings[1].reason


def test_a_mount_of_somebody_else_is_none_of_a_job(node):
    other = "51 1 0:51 / /beeond/7 rw - nfs4 server:/x rw\n52 1 0:52 / /data/7 rw - beegfs beegfs_nodev rw\n"
    (node / "proc/self/mountinfo").write_text(MOUNTS + other)
    assert told(node).findings == ()


def test_a_daemon_that_stays_is_found_after_an_undo_too(node):
    (node / "run/gpu_node/beeond").mkdir()
    (node / "proc/77").mkdir()
    words = ["/opt/beegfs/sbin/beegfs-meta", "logStdFile=/var/log/gpu_node/beeond/8/beegfs-meta_1.log"]
    (node / "proc/77/cmdline").write_text("\0".join(words) + "\0")
    (finding,) = told(node, {}).findings
    assert "job 8" in finding.thing and "still daemons" in finding.reason


def test_a_connection_that_fell_back_is_a_warning(node):
    client = node / "proc/fs/beegfs/1A-2B"
    client.mkdir(parents=True)
    (client / "storage_nodes").write_text("gpu1 [ID: 1]\n   Connections: RDMA: 1 (10.0.0.1:9003); \n")
    assert told(node).findings == ()
    (client / "storage_nodes").write_text("gpu1 [ID: 1]\n   Connections: TCP: 1 (10.0.0.1:9003 [fallback route]); \n")
    (finding,) = told(node).findings
    assert (finding.code, finding.outcome) == ("fallback", Outcome.WARN)
