# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ten nodes of one real slurmctld: what the gate does when one of them is sick, and when most of them are."""

from __future__ import annotations

import concurrent.futures

import pytest
import slurm_guest
from slurm_fleet import NODES, Fleet

pytestmark = pytest.mark.soak

PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - trainyard.gpu_node.node_runtime:
    - trainyard.gpu_node.gpu_settings:
        persistence: true
        persistenced: false
        clocks: default
        boot_unit: false
    - trainyard.gpu_node.slurm_hooks:
        clocks: false
        job_folder: false
    - trainyard.gpu_node.health_gate:
        drained_percent: 20
        without: [profile, clock_synchronised]
        timer: false
        proof: false  # it is not what this file tests
"""
# What nccl-tests print for the nodes of a job: one of them is slow, with whomever it works.
NCCL = """#!/bin/sh
rate=180.00
case ",$(scontrol show hostnames | tr '\\n' ',')" in *,{bad},*) rate=60.00 ;; esac
rank=0
for host in $(scontrol show hostnames); do
    echo "#  Rank  $rank Group  0 Pid   4242 on  $host device  0 [0x07] NVIDIA A100-SXM4-80GB"
    rank=$((rank + 1))
done
cat <<END
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
  1073741824     268435456     float     sum      -1    11000   97.61  $rate      0    11000   97.61  $rate      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : $rate
#
END
"""


@pytest.fixture(scope="module")
def fleet(node_factory, tmp_path_factory):
    node = node_factory("fleet", cpus=8, nvme_count=2)
    node.ssh(slurm_guest.PREPARE + slurm_guest.DEVICES)
    play = tmp_path_factory.mktemp("fleet") / "play.yml"
    play.write_text(PLAY)
    found = Fleet(node)
    found.configure()
    node.ansible(play)
    found.begin()
    yield found
    node.node.down()


@pytest.fixture(autouse=True)
def as_new(fleet):
    """No job, no fault, no history, every node in service."""
    yield
    fleet.as_new()


def test_the_job_runs_elsewhere_and_the_repaired_node_returns(fleet):
    fleet.on("gpu01", "nvml-simulator fault gpu 2 lost")
    job = fleet.submit("--gres=gpu:1 --output=/tmp/out --wrap 'echo $SLURMD_NODENAME'")
    fleet.wait(lambda: fleet.drained() == ["gpu01"])
    reason = fleet.states()["gpu01"][1]
    assert reason.startswith("gpu_node: health: reboot: GPU 2"), reason
    assert fleet.ssh("cat /tmp/out", check=False).stdout == ""
    # Slurm lets a job that it requeued wait for two minutes, and it takes a moment until it has.
    fleet.wait(lambda: fleet.ssh("scontrol update JobId={0} StartTime=now".format(job), check=False).returncode == 0)
    fleet.wait(lambda: fleet.ssh("cat /tmp/out", check=False).stdout.strip() in NODES[1:])
    assert fleet.drained() == ["gpu01"]

    assert fleet.look("gpu01")["decision"]["decision"]["action"] == "leave"
    fleet.on("gpu01", "nvml-simulator clear gpu 2")
    actions = [fleet.look("gpu01")["decision"]["decision"]["action"] for dummy in range(3)]
    assert actions == ["leave", "leave", "resume"]
    assert fleet.drained() == []


def test_when_most_turn_sick_at_once_a_person_is_asked(fleet):
    """Six of ten, where a fifth may be drained: two are, the four others stay and say so."""
    sick = NODES[2:8]
    for name in sick:
        fleet.on(name, "nvml-simulator fault gpu 5 lost")
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        looks = dict(zip(sick, pool.map(fleet.look, sick)))
    told = {name: (look["decision"] or {}).get("decision") for name, look in looks.items()}
    drained = fleet.drained()
    assert len(drained) == 2 and set(drained) <= set(sick), (drained, told)
    for name in sick:
        assert looks[name]["outcome"] == "fail", looks[name]
        if name in drained:
            assert told[name]["action"] == "drain"
        else:
            assert told[name]["person"] and "a person must decide" in told[name]["why"], told[name]
    # Another look changes nothing: the breaker holds.
    again = fleet.look(next(name for name in sick if name not in drained))
    assert again["decision"]["decision"]["person"] and fleet.drained() == drained
    # A person drains one more; it is not ours, whatever becomes of it.
    by_hand = next(name for name in sick if name not in drained)
    fleet.ssh("scontrol update NodeName={0} State=DRAIN Reason='anna: on my bench'".format(by_hand))
    for name in sick:
        fleet.on(name, "nvml-simulator clear gpu 5")
    for name in [*drained, by_hand]:
        for _time in range(3):
            fleet.look(name)
    assert fleet.drained() == [by_hand]
    assert fleet.states()[by_hand][1] == "anna: on my bench"
    fleet.ssh("scontrol update NodeName={0} State=RESUME".format(by_hand))


def test_the_slow_node_is_named_through_real_jobs(fleet):
    """sbatch for each set of nodes; one of eight makes every set slow that it is in."""
    fleet.ssh("mkdir -p /srv/shared")
    fleet.node.write("/srv/shared/nccl.sh", NCCL.format(bad="gpu07"), "0755")
    fleet.ssh(
        "mv /etc/slurm/prolog.d /etc/slurm/kept; mkdir /etc/slurm/prolog.d; ln -s /bin/true /etc/slurm/prolog.d/none"
    )
    try:
        result = fleet.node.module(
            "validate_nodes", nodes=NODES[:8], script="/srv/shared/nccl.sh", folder="/srv/shared", seconds_per_test=300
        )
    finally:
        fleet.ssh("rm -r /etc/slurm/prolog.d; mv /etc/slurm/kept /etc/slurm/prolog.d")
    assert result["outcome"] == "fail", result
    assert result["lines"][0].startswith("gpu07: it falls short with different partners"), result["lines"]
    assert result["lines"][1].startswith("gpu01, gpu02, gpu03, gpu04 and 3 more do well"), result["lines"]
    jobs = int(fleet.ssh("scontrol show config | sed -n 's/^NEXT_JOB_ID *= //p'").stdout)
    assert jobs > 5  # they were real
