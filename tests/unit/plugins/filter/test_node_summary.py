# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines at the end of a run."""

from __future__ import annotations

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
            "settings": did("GPU 0: switch persistence mode on", "GPU 1: switch persistence mode on", gpus=[]),
            "slurm": did("write gres.conf", gpus=[{}] * 8, reconfigure_pending=True, notes=["add Prolog=/etc/…"]),
            "units": [did("enable gpu-node-scratch.service"), {}],
            "failure": "GPU 3 is lost",
        },
        check_mode=True,
    )
    assert lines == [
        "scratch: none: no disk",
        "GPUs:    none answers",
        "Slurm:   hooks, node features and gres.conf of 8 GPU(s); Slurm has yet to read a changed file",
        "would be changed:",
        "  - install the node command",
        "  - create array gpu_node_scratch",
        "  - 2 GPUs: switch persistence mode on",
        "  - write gres.conf",
        "  - enable gpu-node-scratch.service",
        "needs attention:",
        "  - GPU 3 is lost",
        "  - a note",
        "  - add Prolog=/etc/…",
    ]


def test_a_node_without_slurm_says_nothing_of_it():
    slurm = {"skipped_reason": "slurmd is not installed", "notes": ["x"], "actions": []}
    assert node_summary({"slurm": slurm}) == ["changed: nothing", "needs attention: nothing"]
    assert node_summary({"settings": {"skipped": True}})[0] == "changed: nothing"
