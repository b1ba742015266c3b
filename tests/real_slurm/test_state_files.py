# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate on a node whose state cannot be written, or whose record is damaged or lost."""

from __future__ import annotations

import pytest
import slurm_root

STATE = "/var/lib/gpu_node"
RECORD = STATE + "/health/history.json"
# Each file system in the place of a directory has its files. /run/gpu_node has the locks and the notes of jobs.
_OTHER = """
cp -a {path} /root/kept
mount -t tmpfs -o {options} none {path}
cp -a /root/kept/. {path}/; rm -r /root/kept
"""
_FILL = "dd if=/dev/zero of={path}/filler bs=4096 2>/dev/null || [ -s {path}/filler ]\n"
_FILL_INODES = "for n in $(seq 100); do touch {path}/filler$n 2>/dev/null || break; done; [ ! -e {path}/filler100 ]\n"
FAULTS = {
    "full": _OTHER.replace("{options}", "mode=755,size=256k") + _FILL,
    "without inodes": _OTHER.replace("{options}", "mode=755,nr_inodes=40") + _FILL_INODES,
    "read-only": _OTHER.replace("{options}", "mode=755") + "mount -o remount,ro {path}\n",
}


def spoil(node, fault, *more):
    for path in (STATE, *more):
        node.run("set -e; mkdir -p {path}\n".replace("{path}", path) + FAULTS[fault].replace("{path}", path))


def faults(*quick):
    """A parametrization with all faults; those of ``quick`` run in each test run."""
    all_of_them = [(fault, more) for more in ((), ("/run/gpu_node",)) for fault in FAULTS]
    return pytest.mark.parametrize(
        "fault, more",
        [
            pytest.param(
                fault,
                more,
                id=fault + (" with /run" if more else ""),
                marks=[] if not more and fault in quick else pytest.mark.soak,
            )
            for fault, more in all_of_them
        ],
    )


@faults("full")
def test_a_sick_node_is_drained_before_a_job_although_its_state_cannot_be_written(node, fault, more):
    node.start()
    spoil(node, fault, *more)
    node.sick()
    number = node.sbatch("touch /tmp/ran")
    assert node.drained().startswith("gpu_node: health: reboot: GPU 2")
    node.wait("job that waits", lambda: node.job(number).startswith("PENDING"))
    node.run("[ ! -e /tmp/ran ]")


@faults()
def test_a_sick_node_is_drained_between_jobs_although_its_state_cannot_be_written(node, fault, more):
    node.start(conf=slurm_root.WATCHED)
    node.gate(drain_after=3)
    spoil(node, fault, *more)
    node.sick()
    told = node.look()
    assert node.reason().startswith("gpu_node: health: reboot: GPU 2"), told
    node.well()
    for _turn in range(4):  # what cannot be counted ends no drain
        told = node.look()
    assert "DRAIN" in node.state() and RECORD in told, told


@faults()
def test_a_healthy_node_runs_jobs_although_its_state_cannot_be_written(node, fault, more):
    node.start(conf=slurm_root.WATCHED)
    spoil(node, fault, *more)
    for _turn in range(2):
        assert node.srun().stdout == "ran\n"
        node.look()
    node.wait("end of the job", lambda: node.state() == "IDLE")
    assert node.reason() == ""


def full_var_tmp(node):
    """A fault that is read anew at each look, so that clean looks alone end its drain."""
    node.run("mount -t tmpfs -o size=1m none /var/tmp; dd if=/dev/zero of=/var/tmp/filler bs=4096 2>/dev/null; true")


DAMAGES = {
    "intact": ":",
    "truncated": "truncate -s 20 " + RECORD,
    "empty": ": >" + RECORD,
    "no JSON": "echo ruined >" + RECORD,
    "another user's": "chown trainee " + RECORD,
    "lost": "rm " + RECORD,
    "directory lost": "rm -r {0}/health".format(STATE),
}


@pytest.mark.soak
@pytest.mark.parametrize("damage", list(DAMAGES))
def test_a_drain_ends_without_the_record_only_after_a_validation(node, damage):
    node.start(conf=slurm_root.WATCHED)
    node.gate(proof=True)
    full_var_tmp(node)
    told = node.look()
    assert node.reason().startswith("gpu_node: health: "), told
    node.run("umount /var/tmp")
    node.run("{1}; cp {0} /root/damaged 2>/dev/null; true".format(RECORD, DAMAGES[damage]))
    looks = [node.look() for dummy in range(5)]
    if damage == "intact":
        assert node.state() == "IDLE" and node.srun().stdout == "ran\n", looks
        return
    assert "DRAIN" in node.state() and node.reason().startswith("gpu_node: health: "), looks
    assert "owes a passing" in looks[-1], looks
    if "lost" not in damage:
        node.run("cmp /root/damaged {0}.damaged".format(RECORD))
        assert RECORD + ".damaged" in looks[0]
    # A person who has looked at the node resumes it; it stays in service.
    node.run("scontrol update NodeName=gpu01 State=RESUME")
    assert node.srun().stdout == "ran\n"
    node.look()
    node.wait("end of the job", lambda: node.state() == "IDLE")


@pytest.mark.soak
@pytest.mark.parametrize("damage", [one for one in DAMAGES if one != "intact"])
def test_a_node_in_service_stays_so_without_its_record(node, damage):
    node.start(conf=slurm_root.WATCHED)
    node.look()
    node.run(DAMAGES[damage])
    assert node.srun().stdout == "ran\n"
    node.look()
    node.wait("end of the job", lambda: node.state() == "IDLE")
    assert node.reason() == ""
