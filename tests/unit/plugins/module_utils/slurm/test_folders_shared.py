# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Directories of containers on a file system that other nodes have, too (enroot_scratch, enroot_fallback)."""

from __future__ import annotations

import os
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.leftovers import places
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import folder_work, user_folders

USER = 1001


@pytest.mark.parametrize("filesystem, stays", [("lustre", True), ("nfs4", True), ("xfs", False)])
@pytest.mark.parametrize("way", ["epilog", "boot", "cleanup"])
def test_no_node_removes_what_a_job_of_the_user_has_on_another_node(tmp_path, filesystem, stays, way):
    (tmp_path / "proc/self").mkdir(parents=True)
    line = "1 0 8:1 / / rw - ext4 x rw\n2 1 0:50 / /shared rw - {0} y rw\n".format(filesystem)
    (tmp_path / "proc/self/mountinfo").write_text(line)
    (tmp_path / "shared").mkdir()
    host = Host(str(tmp_path))
    section = {"user_folders": [{"path": "/shared/enroot/data/{uid}", "top": "/shared/enroot", "remove": True}]}
    folders = user_folders.of_user(section, os.geteuid() or USER)
    folder_work.make(host, folders, os.geteuid(), -1)
    if way == "epilog":
        folder_work.remove(host, folders)
    elif way == "boot":
        folder_work.sweep(host, user_folders.templates(section), time.time() + 60, frozenset())
    else:
        found, told = places._containers(host, {"enroot": section})
        assert (not found) == stays and any("other nodes" in one for one in told) == stays
        return
    assert os.path.isdir(host.path(folders[0].path)) == stays
