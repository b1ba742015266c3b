# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No healthy node is turned away: machines of all profiles at random moments of a healthy life, and no finding.

HEALTHY_RUNS (5) is how many of each kind; ``make soak`` makes a hundred.
"""

from __future__ import annotations

import json
import os
import random

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Origin
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks import healthy_machines
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks.healthy_machines import TREES

pytest.importorskip("pynvml", reason="needs nvidia-ml-py")

RUNS = int(os.environ.get("HEALTHY_RUNS", "5"))
# What none of these machines can have, or nobody declared for it. The small machine below has them all.
ELSEWHERE = {
    "beeond_leftover",
    "clock_synchronised",  # a captured machine tells no clock
    "converge",  # no boot converges it
    "cpu_governor",  # of bare metal
    "cpu_load",
    "drift_files",
    "env_deepspeed",
    "gpu_mig_instances",
    "gpu_mig_layout",
    "gpu_settings",
    "ib_errors",
    "ib_flaps",
    "ib_gpu_direct",
    "ib_partition_keys",
    "image_communication",  # no such software is on a captured machine
    "image_containers",
    "image_cuda",
    "image_software",
    "ipmi_events",
    "kubernetes_capacity",
    "lease",
    "limit_slurmd",
    "memory_errors",
    "network_flaps",
    "pcie_acs",
    "remedies",
    "scratch_array",
    "scratch_mounted",
    "scratch_space",
    "slurm_gres",
}
# What a generation lacks: pages are retired before Ampere and rows remapped from there on, MIG came with Ampere, and a
# state in the fabric with Hopper. The other profile of a generation is as its first.
LACKS = {
    "nd40rs_v2": {
        "fabric_manager_version",
        "gpu_fabric",
        "gpu_mig_mode",
        "gpu_recovery_action",
        "gpu_repair",
        "gpu_row_remap",
        "nvme_count",
        "nvme_smart",
        "nvme_state",
    },
    "nd96asr_v4": {"fabric_manager_version", "gpu_fabric", "gpu_retired_pages"},
    "nd96isr_h100_v5": {"gpu_retired_pages"},
}
LACKS["nd96amsr_a100_v4"], LACKS["nd96isr_h200_v5"] = LACKS["nd96asr_v4"], LACKS["nd96isr_h100_v5"]


@pytest.mark.parametrize("machine", sorted(TREES))
def test_a_healthy_machine_has_no_finding_at_any_moment(node, machine, nvml_simulator):
    simulator = nvml_simulator(machine)
    healthy = healthy_machines.HealthyMachine(node, simulator, machine)
    code = "import runpy; runpy.run_path({0!r}, run_name='__main__')".format(healthy_machines.__file__)
    with simulator.start(code, healthy.root, str(node.root)) as process:
        for seed in range(sorted(TREES).index(machine), RUNS, len(TREES)):
            healthy.live(random.Random(seed))
            process.stdin.write("\n")
            process.stdin.flush()
            verdict = json.loads(process.stdout.readline() or process.stderr.read())
            findings = [(one["id"], found) for one in verdict["results"] for found in one["findings"]]
            assert (verdict["outcome"], findings) == ("pass", []), "seed {0}".format(seed)
            # An SXid that is not in the log of the moment says nothing of the switches.
            assert set(verdict["not_applicable"]) - {"nvswitch_sxid"} == ELSEWHERE | LACKS[machine]
        process.stdin.close()


@pytest.mark.parametrize("seed", range(RUNS))
def test_a_node_with_scratch_and_fabric_has_no_finding_at_any_moment(node, seed):
    healthy_machines.live(node, random.Random(seed))
    first = node.verdict()
    # The counters have stood there for a while, whatever they had come to.
    node.origins = {(one.name, one.key): (Origin(one.value, 20.0),) for one in first.measured if one.counter}
    for found in (first, node.verdict()):
        assert (found.outcome.value, found.findings) == ("pass", ()), "seed {0}".format(seed)
