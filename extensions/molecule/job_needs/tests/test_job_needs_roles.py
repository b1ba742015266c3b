# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job and its user find: an environment by its module, a store of checkpoints, a clean-up and a lease."""

from __future__ import annotations

import json
import re

import pytest


def test_the_environment_is_loaded_as_a_module(host):
    shown = host.check_output(
        "bash -lc \"module load env/demo && python -c 'import example, sys; print(example.VERSION, sys.prefix)'\""
    )
    assert re.fullmatch(r"1\.0 /opt/envs/demo-[0-9a-f]{12}", shown), shown
    link = host.file("/opt/envs/demo")
    assert link.is_symlink and link.linked_to == shown.split()[1]


@pytest.mark.parametrize("name", ["cleanup", "node_lease"])
def test_the_timer_runs_and_what_it_starts_ends_well(host, name):
    timer = host.service("gpu-node-{0}.timer".format(name))
    assert timer.is_enabled and timer.is_running
    started = host.run("systemctl start gpu-node-{0}.service".format(name))
    assert started.rc == 0, host.run("journalctl -n 20 -u gpu-node-{0}.service".format(name)).stdout


def test_the_lease_is_known_and_ends_nothing(host):
    told = json.loads(host.check_output("gpunode lease --json"))
    assert told["stage"] == "runs" and told["reservation"] is None
    assert told["until"] == "2098-01-01 00:00 UTC"


def test_a_checkpoint_would_go_to_the_declared_store(host):
    told = host.check_output("gpunode checkpoint put step-1 /etc/hostname --dry-run")
    assert "https://example.blob.core.windows.net/checkpoints/step-1/" in told
    assert host.file("/etc/gpu_node/checkpoint.env").contains("AZCOPY_CONCURRENCY_VALUE=")


def test_the_image_was_looked_at(host):
    versions = json.loads(host.run("gpunode image --json").stdout)["versions"]
    assert versions["kernel"] == host.check_output("uname -r")
