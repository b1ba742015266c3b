# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which CPUs may be used: from files, and on the machine of this test."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement import observe

CHILD = """
import json, os, sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement import observe
os.sched_setaffinity(0, {int(sys.argv[1])})
print(json.dumps(observe.allowed(Host()).cpus))
"""


def write(root, files):
    for path, text in files.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return Host(str(root))


STATUS = "Name:\tpython3\nCpus_allowed:\tffffff\nCpus_allowed_list:\t0-23\nMems_allowed_list:\t0-1\n"


@pytest.mark.parametrize(
    "files, cpus, memory",
    [
        ({}, None, None),
        ({"/proc/self/status": STATUS}, tuple(range(24)), (0, 1)),
        (  # the unified layout
            {
                "/proc/self/status": STATUS,
                "/proc/self/cgroup": "0::/system.slice/job\n",
                "/sys/fs/cgroup/system.slice/job/cpuset.cpus.effective": "4-7,30\n",
                "/sys/fs/cgroup/system.slice/job/cpuset.mems.effective": "1\n",
            },
            (4, 5, 6, 7),
            (1,),
        ),
        (  # cpuset is not delegated so deep: the group above has it
            {
                "/proc/self/cgroup": "0::/a/b/c\n",
                "/sys/fs/cgroup/a/cpuset.cpus.effective": "2-3\n",
                "/sys/fs/cgroup/a/b/cpuset.cpus.effective": "\n",
            },
            (2, 3),
            None,
        ),
        (  # the older layout beside the unified one
            {
                "/proc/self/status": STATUS,
                "/proc/self/cgroup": "12:cpuset:/slurm/uid_0/job_1\n1:name=systemd:/x\n0::/x\n",
                "/sys/fs/cgroup/cpuset/slurm/uid_0/job_1/cpuset.effective_cpus": "8-11\n",
                "/sys/fs/cgroup/cpuset/cpuset.effective_mems": "0\n",
            },
            (8, 9, 10, 11),
            (0,),
        ),
        ({"/proc/self/status": "nonsense", "/proc/self/cgroup": "\x00\nmore nonsense:\n"}, None, None),
    ],
)
def test_both_affinity_and_cpuset_count(tmp_path, files, cpus, memory):
    found = observe.allowed(write(tmp_path, files))
    assert (found.cpus, found.memory_nodes) == (cpus, memory)


def test_the_affinity_of_this_process_is_found():
    assert set(observe.allowed(Host()).cpus) == os.sched_getaffinity(0)


def test_a_process_that_was_put_on_one_cpu_knows_it():
    one = sorted(os.sched_getaffinity(0))[-1]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(one)], env=environment, capture_output=True, text=True, check=False
    )
    assert json.loads(done.stdout) == [one], done.stderr
