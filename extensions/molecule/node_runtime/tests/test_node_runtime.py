# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node command works on the node, with nothing but the system's Python."""

from __future__ import annotations

import json


def test_the_command_is_root_owned_and_writable_by_nobody_else(host):
    zipapp = host.file("/opt/gpu_node/gpunode.pyz")
    assert (zipapp.user, zipapp.group, zipapp.mode) == ("root", "root", 0o755)
    assert host.file("/opt/gpu_node").mode == 0o755
    assert host.file("/usr/local/bin/gpunode").linked_to == "/opt/gpu_node/gpunode.pyz"


def test_it_reads_the_gpus_through_nvidias_binding(host):
    assert not host.run("python3 -c 'import pynvml'").succeeded, "the binding must come from the node command"
    found = json.loads(host.check_output("gpunode info --json"))
    assert found["status"] == "ok"
    assert [gpu["name"] for gpu in found["gpus"]] == ["NVIDIA A100-SXM4-40GB"] * 8


def test_it_shows_the_numa_nodes(host):
    found = json.loads(host.check_output("gpunode topo --json"))
    assert found["gpu_numa"] == [1, 1, 0, 0, 3, 3, 2, 2] or sorted(found["gpu_numa"]) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert len(found["nvme"]) == 8


def test_wrong_usage_is_status_2_and_no_traceback(host):
    done = host.run("gpunode aply")
    assert done.rc == 2
    assert "Traceback" not in done.stderr
