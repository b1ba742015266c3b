# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What counts as the scratch of this node: nothing that other nodes have, too."""

from __future__ import annotations

import os
import time
import types

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import root_folders
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import scratch_mounted
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import scratch

DECLARED = {"mount_point": "/mnt/resource_nvme"}


@pytest.mark.parametrize(
    "filesystem, local",
    [("nfs4", False), ("lustre", False), ("wekafs", False), ("fuse.sshfs", False), ("xfs", True), ("ext4", True)],
)
def test_a_shared_file_system_at_an_adopted_place_is_no_scratch(tmp_path, filesystem, local):
    """Seen: with its disks lost, a node took the /nvme of the whole cluster for its scratch, passed its health check,
    and removed the directories of jobs on other nodes there at its next boot."""
    (tmp_path / "proc/self").mkdir(parents=True)
    lines = "1 0 8:1 / / rw - ext4 x rw\n2 1 0:50 / /nvme rw - {0} y rw\n".format(filesystem)
    (tmp_path / "proc/self/mountinfo").write_text(lines)
    (tmp_path / "nvme").mkdir()
    host = Host(str(tmp_path))
    with root_folders.opened(host, "/nvme", (scratch.JOBS,), make=True) as jobs:
        root_folders.given(host, jobs, "17", os.geteuid(), -1)
    evidence = types.SimpleNamespace(host=host, declared={"nvme_scratch": DECLARED})
    codes = [one.code for one in scratch_mounted.judge(scratch_mounted.look(evidence), evidence).findings]
    if local:
        assert scratch.usable(host, DECLARED) == "/nvme" and codes == []
        return
    assert codes == ["not_mounted"]
    for act in (
        lambda: scratch.usable(host, DECLARED),
        lambda: scratch.sweep(host, DECLARED, time.time() + 60, frozenset()),
    ):
        with pytest.raises(NodeError, match="scratch /mnt/resource_nvme: it is not mounted"):
            act()
    scratch.discard(host, "/nvme/jobs/17", 17)
    assert (tmp_path / "nvme/jobs/17").is_dir()
