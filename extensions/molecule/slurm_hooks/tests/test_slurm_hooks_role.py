# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's folders as slurmd will find them."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    "path, event",
    [
        ("/etc/slurm/prolog.d/00-gpu_node", "prolog"),
        ("/etc/slurm/prolog.d/zz-gpu_node", "prolog"),
        ("/etc/slurm/epilog.d/50-gpu_node", "epilog"),
    ],
)
def test_the_hooks_can_be_run_by_root_and_changed_by_nobody_else(host, path, event):
    script = host.file(path)
    assert script.user == "root" and script.mode == 0o755
    assert "\n/usr/local/bin/gpunode hook {0}\n".format(event) in script.content_string
    assert host.run("sh -n " + path).rc == 0


def test_gres_conf_has_a_line_for_each_gpu(host):
    lines = [line for line in host.file("/etc/slurm/gres.conf").content_string.splitlines() if line.startswith("Name")]
    assert len(lines) == 8
    # No slurm.conf tells the sockets of this node yet, so a Slurm that wants whole ones gets no Cores.
    assert lines[0].startswith("Name=gpu Type=a100 File=/dev/nvidia0")


def test_the_hooks_run_a_job_without_slurm(host):
    job = "env -u SLURM_JOB_GPUS SLURM_JOB_ID=7 SLURM_JOB_UID=0 SLURMD_NODENAME=x "
    assert host.run(job + "/etc/slurm/prolog.d/zz-gpu_node").rc == 0
    assert host.file("/run/gpu_node/jobs/7.json").exists
    assert host.run(job + "/etc/slurm/prolog.d/00-gpu_node").rc == 0
    assert host.run(job + "/etc/slurm/epilog.d/50-gpu_node").rc == 0
    assert not host.file("/run/gpu_node/jobs/7.json").exists
