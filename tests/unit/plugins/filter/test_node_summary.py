# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines at the end of a run."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.filter.node_summary import node_summary


def did(*steps, **more):
    return dict({"actions": [{"description": step} for step in steps]}, **more)


def test_nothing_at_all_is_two_lines():
    assert node_summary({}) == ["changed: nothing", "needs attention: nothing"]


def test_what_each_role_did_and_what_needs_attention_is_told_once():
    lines = node_summary(
        {
            "runtime": did("install the node command"),
            "scratch": did("create array gpu_node_scratch", skipped_reason="no disk", notes=["a note", "a note"]),
            "settings": did(
                "GPU 0: switch persistence mode on", "GPU 1: switch persistence mode on", "enable the unit", gpus=[]
            ),
            "slurm": did("write gres.conf", gpus=[{}] * 8, reconfigure_pending=True, notes=["add Prolog=/etc/…"]),
            "failure": "GPU 3 is lost",
        },
        check_mode=True,
    )
    assert lines == [
        "scratch: none: no disk (before the changes below)",
        "GPUs:    none answers (after the changes below)",
        "Slurm:   hooks, node features and gres.conf of 8 GPU(s); Slurm has yet to read a changed file"
        " (after the changes below)",
        "would be changed:",
        "  - install the node command",
        "  - create array gpu_node_scratch",
        "  - 2 GPUs: switch persistence mode on",
        "  - enable the unit",
        "  - write gres.conf",
        "needs attention:",
        "  - GPU 3 is lost",
        "  - a note",
        "  - add Prolog=/etc/…",
    ]


def test_a_machine_that_is_left_alone_says_why_and_one_that_lost_its_gpus_needs_attention():
    profile = {"name": "unknown", "reason": "No profile.", "left": "it has no GPU, so nothing is set.", "lost": None}
    skipped = {"skipped": True, "changed": False}
    lines = node_summary({"profile": profile, "runtime": skipped, "scratch": skipped})
    assert lines[1:] == [
        "machine: it has no GPU, so nothing is set.",
        "changed: nothing",
        "needs attention: nothing",
    ]
    lines = node_summary({"profile": dict(profile, left=None, lost="no NVIDIA GPU is on the PCI bus")})
    assert lines[1:] == ["changed: nothing", "needs attention:", "  - no NVIDIA GPU is on the PCI bus"]


def test_a_node_without_slurm_says_nothing_of_it():
    slurm = {"skipped_reason": "slurmd is not installed", "notes": ["x"], "actions": []}
    assert node_summary({"slurm": slurm}) == ["changed: nothing", "needs attention: nothing"]
    assert node_summary({"settings": {"skipped": True}})[0] == "changed: nothing"


def test_the_communication_stack_is_a_line_a_role_and_what_is_not_there_is_not_told():
    port = {"state": "ACTIVE", "link_layer": "InfiniBand", "rate_gigabits_per_second": 200.0}
    lines = node_summary(
        {
            "rdma": {
                "devices": [{"ports": [port]}, {"ports": [port]}, {"ports": [dict(port, state="DOWN")]}],
                "notes": ["b is down"],
            },
            "hpcx": {"version": "2.24.1", "home": "/opt/hpcx-2.24.1", "adopted": True},
            "nccl": {
                "libraries": [{"version": "2.28.9"}, {"version": None}],
                "topology_file": "/etc/gpu_node/nccl_topology.xml",
            },
            "enroot": {
                "version": "4.1.2-1",
                "user_folders": [{"purpose": "temp", "path": "/mnt/resource_nvme/enroot/temp/{uid}"}],
            },
            "pyxis": {"built_for": "25.11.5", "restart_pending": True, "actions": [{"description": "build pyxis"}]},
            "job_templates": {"files": ["a.sh", "b.sh"], "folder": "/shared/jobs"},
        }
    )
    assert lines == [
        "RDMA:    2 x InfiniBand, 200 Gb/s; 1 port(s) not active",
        "HPC-X:   2.24.1 in /opt/hpcx-2.24.1, adopted as it was",
        "NCCL:    libnccl 2.28.9; topology file /etc/gpu_node/nccl_topology.xml",
        "enroot:  enroot 4.1.2-1, folders in /mnt/resource_nvme/enroot/temp/{uid}",
        "pyxis:   for Slurm 25.11.5; slurmd has yet to be restarted",
        "jobs:    2 scripts in /shared/jobs",
        "changed:",
        "  - build pyxis",
        "needs attention:",
        "  - b is down",
    ]
    nothing = {name: {"skipped_reason": "none here", "notes": ["x"]} for name in ("rdma", "hpcx", "enroot", "pyxis")}
    assert node_summary(nothing) == ["changed: nothing", "needs attention: nothing"]


def test_the_verdict_is_a_line_and_its_findings_need_attention():
    verdict = {"outcome": "fail", "level": "passive", "results": [{}, {}]}
    lines = node_summary(
        {
            "health": {"verdict": verdict, "findings": ["GPU 3: it is lost; reboot the node."]},
            "health_gate": {"program_reached": True, "notes": []},
        }
    )
    assert lines == [
        "gate:    what is sick takes no job; slurmd looks between jobs",
        "health:  fail, by 2 checks of level passive",
        "changed: nothing",
        "needs attention:",
        "  - GPU 3: it is lost; reboot the node.",
    ]


def test_the_declared_profile_is_a_change():
    lines = node_summary(
        {
            "declared": did("declare section profile in /etc/gpu_node/node.json"),
            "settings": did("GPU 0: switch persistence mode on", skipped_reason="no GPU"),
        }
    )
    assert lines[1:4] == [
        "changed:",
        "  - declare section profile in /etc/gpu_node/node.json",
        "  - GPU 0: switch persistence mode on",
    ]


@pytest.mark.parametrize(
    "name", ["scratch", "settings", "slurm", "rdma", "hpcx", "nccl", "enroot", "pyxis", "job_templates"]
)
def test_a_task_that_failed_before_it_looked_tells_nothing_of_the_node(name):
    failed = {"failed": True, "changed": False, "msg": "option clocks: 'fast' is unknown; give max"}
    lines = node_summary({name: failed, "failure": failed["msg"]})
    assert lines[0].split(None, 1)[1] == "unknown: the task failed, see below"
    assert lines[1:] == ["changed: nothing", "needs attention:", "  - " + failed["msg"]]


def test_gpus_that_were_set_before_another_failed_are_told():
    gpu = {"name": "NVIDIA A100", "persistence": True, "clocks": {}}
    lines = node_summary(
        {"settings": did("x", failed=True, gpus=[gpu], failed_gpus=[{"message": "GPU 1 is lost"}]), "failure": "y"}
    )
    assert lines[0] == "GPUs:    1 x NVIDIA A100, clocks are the driver's own, persistence on"


def test_check_mode_says_which_lines_tell_the_node_before_and_which_after():
    verdict = {"outcome": "warn", "level": "passive", "results": [{}]}
    gpu = {"name": "NVIDIA A100", "persistence": True, "clocks": {}}
    results = {
        "profile": {"name": "virtual", "compared": True},
        "scratch": did("create array gpu_node_scratch", scratch={"mounted": False}),
        "settings": did("GPU 0: switch persistence mode on", gpus=[gpu]),
        "health": {"verdict": verdict},
    }
    assert node_summary(results, check_mode=True)[:5] == [
        "profile: virtual; the machine is like it",
        "scratch: not mounted (before the changes below)",
        "GPUs:    1 x NVIDIA A100, clocks are the driver's own, persistence on (after the changes below)",
        "health:  warn, by 1 checks of level passive (before the changes below)",
        "would be changed:",
    ]
    assert not [line for line in node_summary(results) if "changes below" in line]
    assert node_summary({}, check_mode=True)[0] == "would be changed: nothing"
