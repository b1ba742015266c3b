# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that no epilog could end keeps its node out of service, for as long as it is there."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.hooks import hook, run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import jobs, running

PID, START = 4711, 98765


@pytest.fixture
def host(tmp_path):
    """Job 42 is over, and its process waits for a disk for ever."""
    stat = tmp_path / "proc" / str(PID) / "stat"
    stat.parent.mkdir(parents=True)
    stat.write_text("{0} (python) D {1} {2} 0\n".format(PID, " ".join(["1"] * 18), START))
    made = Host(str(tmp_path))
    jobs.stay(made, jobs.Running(42, 1000), ((PID, START),))
    return made


def test_the_node_is_told_to_be_sick_until_the_process_is_gone(host, tmp_path):
    assert run.finding(host) == "process 4711 of job 42: it could not be ended and is still there"
    (tmp_path / "proc/4711/stat").write_text("4711 (other) S {0} {1} 0\n".format(" ".join(["1"] * 18), START + 1))
    assert run.finding(host) is None  # the number belongs to another process by now
    (tmp_path / "proc/4711/stat").unlink()
    assert run.finding(host) is None


def test_the_epilog_of_another_job_leaves_it_as_it_is(host, tmp_path, monkeypatch):
    """It would take the note for one of an epilog that was killed, and forget it."""
    asked = []
    monkeypatch.setattr(running, "find_ended", lambda host, node, known: [asked.append(known)] and [])
    other = jobs.Running(43, 1000)
    assert run._left_over(hook.Hook(host, lambda text: None), other) == []
    assert asked == [(other,)]
    (tmp_path / "proc/4711/stat").unlink()
    assert [one.id for one in run._left_over(hook.Hook(host, lambda text: None), other)] == [42]
