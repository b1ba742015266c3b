# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The containers of a user whose other job could not be noted."""

from __future__ import annotations

import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.hooks import run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.hooks.hook import Hook
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.jobs import Running


@pytest.mark.skipif(os.geteuid() != 0, reason="it is about folders of root and of others")
@pytest.mark.parametrize("other, stays", [("4242", True), ("", False), (None, False)])
@pytest.mark.parametrize("sluid", [None, "sB0HV3SXXR4R00"])
def test_the_containers_of_a_job_without_a_note_outlive_the_users_other_job(tmp_path, other, stays, sluid):
    """Seen: /run had no inode left when job 18 began. Its prolog went on without a note, and the epilog of job 17 of
    the same user removed the root file systems of its containers."""
    host = Host(str(tmp_path))
    for name, processes in (("job_17", "4241"), ("job_18", other)):
        folder = tmp_path / "sys/fs/cgroup/system.slice/slurmstepd.scope" / name
        if processes is not None:
            folder.mkdir(parents=True)
            (folder / "cgroup.procs").write_text(processes + "\n")
    hook = Hook(host, lambda text: None)
    template = {"path": "/scratch/enroot/data/{uid}", "top": "/scratch/enroot", "remove": True}
    (tmp_path / "scratch").mkdir()
    hook.declared = {"enroot": {"user_folders": [template]}}
    note = Running(17, 1001, sluid=sluid)
    run._user_folders(hook, note, 1001, wanted=True)
    assert (tmp_path / "scratch/enroot/data/1001").is_dir()
    run._user_folders(hook, note, None, wanted=False)
    assert (tmp_path / "scratch/enroot/data/1001").exists() == stays and not hook.report.notes
