# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines at the end of a run."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.converge import Report
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.summary import lines


def told(check_mode=False, health=None, profile=None, **parts):
    if profile is not None:
        fact = {"ansible_facts": {"gpu_node_profile": profile}}
        parts = {"node_profile": dict(parts.pop("node_profile", {}), **fact), **parts}
    return lines(Report(parts, health or {}, check_mode))


def did(*steps, **more):
    return dict({"actions": [{"description": step} for step in steps]}, **more)


def test_nothing_at_all_is_two_lines():
    assert told() == ["changed: nothing", "needs attention: nothing"]


def test_what_each_role_did_and_what_needs_attention_is_told_once():
    found = told(
        node_runtime=did("install the node command"),
        nvme_scratch=did("create array gpu_node_scratch", skipped_reason="no disk", notes=["a note", "a note"]),
        gpu_settings=did("GPU 0: switch persistence mode on", "GPU 1: switch persistence mode on", gpus=[]),
        slurm_hooks=did("write gres.conf", gpus=[{}] * 8, reconfigure_pending=True, notes=["add Prolog=/etc/…"]),
        pyxis={"failed": True, "msg": "slurmd: it hangs; restart it."},
        check_mode=True,
    )
    assert found == [
        "scratch: none: no disk (before the changes below)",
        "GPUs:    none answers (after the changes below)",
        "Slurm:   hooks, node features and gres.conf of 8 GPU(s); Slurm has yet to read a changed file"
        " (after the changes below)",
        "pyxis:   unknown: it failed, see below",
        "would be changed:",
        "  - install the node command",
        "  - create array gpu_node_scratch",
        "  - 2 GPUs: switch persistence mode on",
        "  - write gres.conf",
        "needs attention:",
        "  - pyxis: slurmd: it hangs; restart it.",
        "  - a note",
        "  - add Prolog=/etc/…",
    ]


def test_a_long_label_has_a_blank_behind_it():
    found = told(checkpoint={"failed": True, "msg": "x"}, node_lease={"failed": True, "msg": "x"})
    assert found[:2] == ["checkpoints: unknown: it failed, see below", "lease:   unknown: it failed, see below"]


def test_a_machine_that_is_left_alone_says_why_and_one_that_lost_its_gpus_needs_attention():
    profile = {"name": "unknown", "reason": "No profile.", "left": "it has no GPU, so nothing is set.", "lost": None}
    assert told(profile=profile)[1:] == [
        "machine: it has no GPU, so nothing is set.",
        "changed: nothing",
        "needs attention: nothing",
    ]
    lost = dict(profile, left=None, lost="no NVIDIA GPU is on the PCI bus")
    assert told(profile=lost)[1:] == ["changed: nothing", "needs attention:", "  - no NVIDIA GPU is on the PCI bus"]


def test_a_node_without_slurm_says_nothing_of_it():
    slurm = {"skipped_reason": "slurmd is not installed", "notes": ["x"], "actions": []}
    assert told(slurm_hooks=slurm) == ["changed: nothing", "needs attention: nothing"]


def test_the_communication_stack_is_a_line_a_role_and_what_is_not_there_is_not_told():
    port = {"state": "ACTIVE", "link_layer": "InfiniBand", "rate_gigabits_per_second": 200.0}
    found = told(
        **{
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
    assert found == [
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
    assert told(**nothing) == ["changed: nothing", "needs attention: nothing"]


def test_a_gate_that_was_taken_away_keeps_nothing_off():
    assert told(health_gate={"active": False, "notes": []})[0] == "gate:    off"


def test_a_gate_on_whose_verdicts_nothing_acts_does_not_claim_to_protect():
    gate = {"active": True, "enforced": False, "program_reached": None, "notes": []}
    assert told(health_gate=gate)[0] == "gate:    verdicts are recorded; nothing on this node keeps jobs away by them"


def test_the_verdict_is_a_line_and_its_findings_need_attention():
    verdict = {"outcome": "fail", "level": "passive", "results": [{}, {}]}
    found = told(
        health={"verdict": verdict, "findings": ["GPU 3: it is lost; reboot the node."]},
        health_gate={"active": True, "program_reached": True, "notes": []},
    )
    assert found == [
        "gate:    what is sick takes no job; slurmd looks between jobs",
        "health:  fail, by 2 checks of level passive",
        "changed: nothing",
        "needs attention:",
        "  - GPU 3: it is lost; reboot the node.",
    ]


def test_steps_of_what_is_skipped_are_changes_too():
    found = told(
        node_profile=did("declare section profile in /etc/gpu_node/node.json"),
        gpu_settings=did("GPU 0: switch persistence mode on", skipped_reason="no GPU"),
    )
    assert found[1:4] == [
        "changed:",
        "  - declare section profile in /etc/gpu_node/node.json",
        "  - GPU 0: switch persistence mode on",
    ]


@pytest.mark.parametrize(
    "name", ["nvme_scratch", "gpu_settings", "slurm_hooks", "rdma", "hpcx", "nccl", "enroot", "pyxis", "job_templates"]
)
def test_a_resource_that_failed_before_it_looked_tells_nothing_of_the_node(name):
    failed = {"failed": True, "changed": False, "msg": "option clocks: 'fast' is unknown; give max"}
    found = told(**{name: failed})
    assert found[0].split(None, 1)[1] == "unknown: it failed, see below"
    assert found[1:] == ["changed: nothing", "needs attention:", "  - {0}: {1}".format(name, failed["msg"])]


def test_gpus_that_were_set_before_another_failed_are_told():
    gpu = {"name": "NVIDIA A100", "persistence": True, "clocks": {}}
    failed = did("x", failed=True, msg="GPU 1 is lost", gpus=[gpu], failed_gpus=[{"message": "GPU 1 is lost"}])
    assert told(gpu_settings=failed)[0] == "GPUs:    1 x NVIDIA A100, clocks are the driver's own, persistence on"


def test_check_mode_says_which_lines_tell_the_node_before_and_which_after():
    verdict = {"outcome": "warn", "level": "passive", "results": [{}]}
    gpu = {"name": "NVIDIA A100", "persistence": True, "clocks": {}}
    results = {
        "profile": {"name": "virtual", "compared": True},
        "nvme_scratch": did("create array gpu_node_scratch", scratch={"mounted": False}),
        "gpu_settings": did("GPU 0: switch persistence mode on", gpus=[gpu]),
        "health": {"verdict": verdict},
    }
    assert told(check_mode=True, **results)[:5] == [
        "profile: virtual; the machine is like it",
        "scratch: not mounted (before the changes below)",
        "GPUs:    1 x NVIDIA A100, clocks are the driver's own, persistence on (after the changes below)",
        "health:  warn, by 1 checks of level passive (before the changes below)",
        "would be changed:",
    ]
    assert not [line for line in told(**results) if "changes below" in line]
    assert told(check_mode=True)[0] == "would be changed: nothing"


def test_a_reset_has_a_line_only_for_what_it_changed_or_could_not_change():
    gate = {"active": False, "notes": ["a record is kept"]}
    parts = {"health_gate": gate, "nvme_scratch": did("stop the array"), "pyxis": {"failed": True, "msg": "x: y; z."}}
    shown = lines(Report(parts, {}, False), changed_only=True)
    assert [line.partition(":")[0] for line in shown[:4]] == ["scratch", "pyxis", "changed", "  - stop the array"]
    assert shown[4:] == ["needs attention:", "  - pyxis: x: y; z.", "  - a record is kept"], shown
    untouched = {"health_gate": {"active": False, "notes": []}, "nvme_scratch": {"actions": []}}
    assert lines(Report(untouched, {}, False), changed_only=True) == ["changed: nothing", "needs attention: nothing"]
