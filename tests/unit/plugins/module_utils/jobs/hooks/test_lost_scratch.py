# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job that starts although the scratch is not mounted: too many nodes are drained already."""

from __future__ import annotations

import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.hooks import run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.hooks.hook import Hook
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.jobs import Running


@pytest.mark.skipif(os.geteuid() != 0, reason="it is about folders of root and of others")
@pytest.mark.parametrize("mounted", [True, False])
def test_nothing_is_made_where_the_scratch_is_to_be_mounted(tmp_path, mounted):
    """Seen: the directories of containers were made on the system disk, and no later converge mounted the scratch:
    "the folder is not empty, and a mount would hide its files"."""
    for folder in ("proc/self", "scratch", "var/lib/enroot"):
        (tmp_path / folder).mkdir(parents=True)
    scratch, system = "21 1 9:127 / /scratch rw - xfs /dev/md127 rw\n", "20 1 8:1 / / rw - ext4 x rw\n"
    (tmp_path / "proc/self/mountinfo").write_text(scratch if mounted else system)
    hook = Hook(Host(str(tmp_path)), lambda text: None)
    paths = ("/scratch/enroot/data/{uid}", "/var/lib/enroot/temp/{uid}")
    given = [{"path": path, "top": path.rsplit("/", 2)[0], "remove": True} for path in paths]
    hook.declared = {"enroot": {"user_folders": given}, "nvme_scratch": {"mount_point": "/scratch"}}
    run._user_folders(hook, Running(17, 1001), 1001, wanted=True)
    assert (tmp_path / "var/lib/enroot/temp/1001").is_dir()
    assert os.listdir(str(tmp_path / "scratch")) == (["enroot"] if mounted else [])
    told = [] if mounted else ["/scratch/enroot: nothing is made there, as /scratch is not mounted"]
    assert hook.report.notes == told
