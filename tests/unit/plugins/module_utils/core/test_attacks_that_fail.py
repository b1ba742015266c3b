# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks of a user with an account on the node that must keep failing."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.checkpoints import launch, words, work
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import artefact, given_file, root_folders
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import kubelet
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import Job

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
USER = 65534


@pytest.fixture
def node(tmp_path):
    """Every user may pass, as on a node: the directories of pytest are closed."""
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch").chmod(0o1777)
    (tmp_path / "theirs").mkdir()
    os.chown(str(tmp_path / "theirs"), USER, USER)
    (tmp_path / "victim").write_text("victim")
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(folder.stat().st_mode | 0o011)
    return tmp_path


def as_user(folder, code):
    done = subprocess.run(
        [sys.executable, "-I", "-c", "import os; os.setgid({0}); os.setuid({0})\n{1}".format(USER, code)],
        cwd=str(folder),
        check=False,
        stderr=subprocess.PIPE,
    )
    assert done.returncode == 0, done.stderr


# Directories of jobs ------------------------------------------------------------------------------------

DEEP = "for _ in range(3000):\n    os.mkdir('d' * 60); os.chdir('d' * 60)"
ODD = (
    "for name in ('-rf', '--no-preserve-root', 'a\\nb', '\\x1b[31m'): os.mkdir(name)\n"
    "for name in ('-i', '*', b'\\xff\\xfe'): open(name, 'w').close()\n"
    "os.symlink('/', 'root'); os.symlink('../../../victim', 'link'); os.mkfifo('fifo'); os.chmod('-rf', 0)"
)


@pytest.mark.parametrize("code", [DEEP, ODD], ids=["deep", "odd"])
def test_what_a_user_puts_into_the_directory_of_a_job_is_removed_and_nothing_else(node, code):
    with root_folders.opened(Host("/"), str(node / "scratch"), ("jobs",), make=True) as jobs:
        root_folders.given(Host("/"), jobs, "42", USER, USER)
        as_user(node / "scratch/jobs/42", code)
        assert root_folders.discard(Host("/"), jobs, "42") and root_folders.empty_trash(jobs)
        end = time.monotonic() + 30
        while root_folders.has_trash(jobs) and time.monotonic() < end:
            time.sleep(0.05)
        assert not root_folders.has_trash(jobs)
    assert (node / "victim").read_text() == "victim" and not (node / "scratch/jobs/42").exists()


# Files that root writes where a user says so ------------------------------------------------------------


@pytest.mark.parametrize("code", ["os.symlink('../victim', 'x')", "os.mkfifo('x')", "os.mkdir('x')"])
def test_what_a_user_puts_in_place_of_a_given_file_is_not_written_to(node, code):
    as_user(node / "theirs", code)
    try:
        given_file.write(str(node / "theirs/x"), "secret", 0o600)
    except NodeError:
        pass
    else:
        assert (node / "theirs/x").is_file() and not (node / "theirs/x").is_symlink()
    assert (node / "victim").read_text() == "victim"


def test_an_artefact_comes_from_no_fifo_and_into_no_directory_of_a_user(node):
    content = b"g" * 10
    (node / "good").write_bytes(content)
    source = artefact.Source(str(node / "good"), hashlib.sha256(content).hexdigest())
    with pytest.raises(NodeError):
        artefact.fetch(Host("/"), source, str(node / "theirs"))
    as_user(node / "theirs", "os.mkfifo('source')")
    (node / "ours").mkdir()
    with pytest.raises(NodeError):
        artefact.fetch(Host("/"), artefact.Source(str(node / "theirs/source"), "a" * 64), str(node / "ours"))


@pytest.mark.parametrize("code", ["os.mkdir(NAME)", "os.symlink('theirs', NAME)"])
def test_a_work_directory_that_a_user_made_is_not_used(node, code):
    name = "gpu_node-checkpoint-0"
    as_user(node / "scratch", code.replace("NAME", repr(name)))
    with pytest.raises(NodeError):
        work.opened(Host("/"), str(node / "scratch"), 0)


def test_a_hidden_word_of_a_command_line_is_not_readable_by_other_users(node):
    running = launch.start("/bin/sleep", [words.Hidden("31", "2")], {"PATH": "/bin"})
    try:
        read = "print(open('/proc/{0}/cmdline', 'rb').read()); open('/proc/{0}/environ', 'rb').read()"
        done = subprocess.run(
            [sys.executable, "-I", "-c", "import os; os.setuid({0})\n".format(USER) + read.format(running.pid)],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert b"Permission denied" in done.stderr and b"GPU_NODE_WORD" not in done.stdout
    finally:
        running.kill()
        running.wait()


# Input that a user chooses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"SLURM_JOB_ID": "../../etc"},
        {"SLURM_JOB_ID": "-1"},
        {"SLURM_JOB_ID": "9999999999"},
        {"SLURM_JOB_UID": "4294967295"},
        {"SLURM_JOB_UID": "9999999999"},
        {"SLURM_JOB_UID": "0x3e9"},
        {"SLURM_JOB_ID": "43\n"},
    ],
    ids=str,
)
def test_a_job_without_a_proper_number_or_user_is_refused(given):
    with pytest.raises(NodeError):
        Job.from_environment(dict({"SLURM_JOB_ID": "42", "SLURM_JOB_UID": "1001"}, **given))


@pytest.mark.parametrize("gpus", ["0-9999,../../x,;id", "\udcff", "MIG-x,GPU-y", "0-99999999999"])
def test_hostile_names_of_gpus_name_no_file(gpus):
    job = Job.from_environment({"SLURM_JOB_ID": "42", "SLURM_JOB_UID": "1001", "SLURM_JOB_GPUS": gpus})
    assert len(job.gpus) <= 10003 and all(isinstance(one, str) for one in job.gpus)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100000,
        "null",
        '{"Data":{"PodDeviceEntries":[{"PodUID":5,"ResourceName":{}}]}}',
        '{"Data":{"PodDeviceEntries":[{"PodUID":"(.*)+$","ContainerName":"c","ResourceName":"nvidia.com/gpu",'
        '"DeviceIDs":{"0":["x"]}}]}}',
    ],
    ids=range(4),
)
def test_a_hostile_checkpoint_of_the_kubelet_is_data(tmp_path, text):
    path = tmp_path / "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    try:
        found = kubelet.read(Host(str(tmp_path)), "r")
        kubelet.pods(found[0], "r") if found else None
    except NodeError:
        pass
