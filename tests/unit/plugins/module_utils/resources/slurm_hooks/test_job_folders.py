# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SCRATCH/jobs is made with the hooks, before a user takes the name."""

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks import Desired, job_folders
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.apply import STEPS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.types import State
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.hooks_conf import Hooks

SCRATCH = {"mount_point": "/scratch", "adopt": False, "state": "present"}


@pytest.fixture
def node(tmp_path):
    for name in ("etc/gpu_node", "proc", "scratch"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "scratch").chmod(0o1777)
    declared = {"nvme_scratch": SCRATCH, "slurm_hooks": {"clocks": True}}
    (tmp_path / "etc/gpu_node/node.json").write_text(json.dumps(declared))
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("21 1 9:127 / /scratch rw - xfs /dev/md127 rw\n")
    return tmp_path


def test_it_is_the_last_step_and_made_once(node):
    host = Host(str(node))
    state = State(slurm_conf="/etc/slurm/slurm.conf", configured=Hooks(), job_folders=job_folders.missing(host))
    step = plan(state, Desired()).actions[-1]
    assert step.describe() == "make /scratch/jobs, the folder of the jobs, root's"
    STEPS[type(step)](host, step, None)
    found = (node / "scratch/jobs").lstat()
    assert (found.st_uid, found.st_mode & 0o7777) == (os.geteuid(), 0o711)
    assert job_folders.missing(host) is None


@pytest.mark.parametrize("kind", ["link", "file", "mode", "owner"])
def test_what_somebody_else_made_is_seen(node, kind):
    place = node / "scratch/jobs"
    if kind == "link":
        place.symlink_to("/tmp")
    elif kind == "file":
        place.write_text("x")
    else:
        place.mkdir()
        place.chmod(0o777 if kind == "mode" else 0o711)
        if kind == "owner":
            if os.geteuid() != 0:
                pytest.skip("only root can give a folder away")
            os.chown(str(place), 65534, 65534)
    assert job_folders.missing(Host(str(node))) == "/scratch/jobs"


def test_where_no_scratch_is_mounted_nothing_is_made(node):
    (node / "proc/self/mountinfo").write_text("")
    assert job_folders.missing(Host(str(node))) is None
    assert not any(isinstance(one, job_folders.MakeJobFolders) for one in plan(State(), Desired()).actions)
