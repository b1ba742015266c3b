# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recording rules over GPUs with MIG instances, jobs that share a GPU, and pods; by promtool."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from tools.monitoring import rules

#: Minutes after which each result is read, with the samples that the input needs for it.
MINUTES, SAMPLES = 35, 40
CLUSTER = 'cluster="a",'
DCGM = {
    "SM_CLOCK": "DCGM_FI_DEV_SM_CLOCK",
    "POWER": "DCGM_FI_DEV_POWER_USAGE",
    "ENERGY": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "TEMPERATURE": "DCGM_FI_DEV_GPU_TEMP",
    "USED": "DCGM_FI_DEV_FB_USED",
    "ACTIVE": "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
}


def evaluated(folder, given, expected):
    """``given``: series and value. ``expected``: expression and its samples, by their labels."""
    (folder / "rules.yml").write_text(rules.text())
    content = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "group_eval_order": [name for name, _seconds, _rules in rules.groups()],
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": value if isinstance(value, str) else "{0}x{1}".format(value, SAMPLES)}
                    for name, value in given
                ],
                "promql_expr_test": [
                    {
                        "expr": expr,
                        "eval_time": "{0}m".format(MINUTES),
                        "exp_samples": [{"labels": labels, "value": value} for labels, value in samples.items()],
                    }
                    for expr, samples in expected.items()
                ],
            }
        ],
    }
    (folder / "test.yml").write_text(yaml.safe_dump(content))
    done = subprocess.run(
        ["promtool", "test", "rules", "test.yml"], cwd=str(folder), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def place(gpu, instance=None, node="n1", more=""):
    labels = CLUSTER + 'hostname="{0}",gpu="{1}",UUID="GPU-{0}-{1}",modelName="H100"'.format(node, gpu)
    if instance is not None:
        labels += ',GPU_I_ID="{0}",GPU_I_PROFILE="1g.10gb"'.format(instance)
    return labels + more


def dcgm(labels, power=600, active=0.0):
    """One GPU or instance of dcgm-exporter: what belongs to the GPU is repeated for each instance."""
    values = {"SM_CLOCK": 1980, "POWER": power, "ENERGY": 5e6, "TEMPERATURE": 60, "USED": 100, "ACTIVE": active}
    return [("{0}{{{1}}}".format(DCGM[name], labels), value) for name, value in values.items()]


def ours(gpu, instances, power=600, jobs=(), active=()):
    """One divided GPU of our own file: the GPU as a whole, and the memory and activity of its instances."""
    whole = place(gpu, more=',pci_bus_id="00000000:0{0}:00.0"'.format(gpu))
    found = [
        ("gpu_node_gpu_up{%s}" % whole, 1),
        ("gpu_node_gpu_power_watts{%s}" % whole, power),
        ("gpu_node_gpu_energy_joules_total{%s}" % whole, 5000),
        ("gpu_node_gpu_temperature_celsius{%s}" % whole, 60),
        ("gpu_node_gpu_memory_used_bytes{%s}" % whole, 2e9),
    ]
    for number, instance in enumerate(instances):
        part = place(gpu, instance)
        found.append(("gpu_node_gpu_memory_used_bytes{%s}" % part, 1e8))
        found.append(("gpu_node_gpu_sm_active_ratio{%s}" % part, active[number] if active else 0))
        if number < len(jobs) and jobs[number]:
            found.append(('gpu_node_gpu_job{%s,hpc_job="%s"}' % (part, jobs[number]), 1))
    return found


def held(number):
    return ',hpc_job="{0}"'.format(number)


INSTANCES = range(7, 14)
#: Seven idle instances of job 77, and one GPU that nobody has.
ALL_OF_ONE_JOB = {
    "dcgm": [one for instance in INSTANCES for one in dcgm(place(0, instance, more=held(77)))] + dcgm(place(1)),
    "ours": ours(0, INSTANCES, jobs=[77] * 7)
    + [
        ("gpu_node_gpu_up{%s}" % place(1), 1),
        ("gpu_node_gpu_power_watts{%s}" % place(1), 600),
        ("gpu_node_gpu_busy_ratio{%s}" % place(1), 0),
    ],
}


@pytest.mark.parametrize("source", sorted(ALL_OF_ONE_JOB))
def test_values_of_a_divided_gpu_count_once(source, tmp_path):
    job = '{cluster="a",hpc_job="77"}'
    expected = {
        "gpu_node:job_power:watts": {"gpu_node:job_power:watts" + job: 600},
        "gpu_node:job_gpus": {"gpu_node:job_gpus" + job: 1},
        "gpu_node:node_gpus": {'gpu_node:node_gpus{cluster="a",hostname="n1"}': 2},
        'sum(gpu_node:gpu_up{GPU_I_ID=""})': {"{}": 2},
        "sum(gpu_node:gpu_power:watts)": {"{}": 1200},
        "count(gpu_node:gpu_temperature:celsius) - count(gpu_node:gpu_power:watts)": {
            "{}": 0 if source == "dcgm" else -1
        },
        'gpu_node:gpu_energy:joules_total{gpu="0"}': {"gpu_node:gpu_energy:joules_total{%s}" % place(0): 5000},
        "sum by (state) (gpu_node:fleet_gpus)": {'{state="wasted"}': 1, '{state="unallocated"}': 1},
        'gpu_node:fleet_busy_gpus:bucket{le="0.05"}': {'gpu_node:fleet_busy_gpus:bucket{cluster="a",le="0.05"}': 2},
    }
    evaluated(tmp_path, ALL_OF_ONE_JOB[source], expected)


#: Four instances: jobs 1 and 2 have two and one of them, and one is free. Job 1 works on one of its two.
SHARED = {
    "dcgm": dcgm(place(0, 1, more=held(1)), active=0.8)
    + dcgm(place(0, 2, more=held(1)))
    + dcgm(place(0, 3, more=held(2)), active=0.5)
    + dcgm(place(0, 4)),
    "ours": ours(0, (1, 2, 3, 4), jobs=(1, 1, 2), active=(0.8, 0, 0.5, 0)),
}


@pytest.mark.parametrize("source", sorted(SHARED))
def test_jobs_share_the_power_of_a_divided_gpu_and_the_states_its_instances(source, tmp_path):
    job = '{cluster="a",hpc_job="%s"}'
    expected = {
        name: {name + job % number: value for number, value in values.items()}
        for name, values in {
            # All of the GPU's power is theirs.
            "gpu_node:job_power:watts": {1: 400, 2: 200},
            "gpu_node:job_gpus": {1: 0.5, 2: 0.25},
            "gpu_node:job_busy_median:ratio": {1: 0.4, 2: 0.5},
            "gpu_node:job_busy_least:ratio": {1: 0, 2: 0.5},
        }.items()
    }
    states = {"busy": 0.5, "wasted": 0.25, "unallocated": 0.25}
    expected["sum by (state) (gpu_node:fleet_gpus)"] = {'{state="%s"}' % one: value for one, value in states.items()}
    expected["gpu_node:whole_gpu_busy:ratio"] = {"gpu_node:whole_gpu_busy:ratio{%s}" % place(0): 0.8}
    evaluated(tmp_path, SHARED[source], expected)


def test_two_jobs_on_one_undivided_gpu_share_its_power(tmp_path):
    given = dcgm(place(0, more=held(1)), active=0.9) + dcgm(place(0, more=held(2)), active=0.9)
    expected = {
        name: {name + '{cluster="a",hpc_job="%s"}' % number: value for number in (1, 2)}
        for name, value in {"gpu_node:job_power:watts": 300, "gpu_node:job_gpus": 0.5}.items()
    }
    expected["sum by (state) (gpu_node:fleet_gpus)"] = {'{state="busy"}': 1}
    evaluated(tmp_path, given, expected)


def test_a_gpu_of_a_job_without_a_value_of_its_activity_is_unknown_and_not_busy(tmp_path):
    given = [one for one in dcgm(place(0, more=held(1))) if "ACTIVE" not in one[0]]
    evaluated(tmp_path, given, {"sum by (state) (gpu_node:fleet_gpus)": {'{state="unknown"}': 1}})


def test_bands_of_the_heat_map_are_cumulative_counts(tmp_path):
    given = [one for gpu, active in enumerate((0, 0.12, 0.55, 0.97)) for one in dcgm(place(gpu), active=active)]
    name = "gpu_node:fleet_busy_gpus:bucket"
    counts = dict(zip(rules.BANDS, (1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4)))
    evaluated(tmp_path, given, {name: {name + '{cluster="a",le="%s"}' % band: n for band, n in counts.items()}})


def test_slowed_gpus_nodes_and_owners_of_jobs(tmp_path):
    slow = 'gpu_node_gpu_slowed{%s,reason="%s"}'
    thermal, brake = "hardware_thermal_slowdown", "hardware_power_brake_slowdown"
    given = [
        *(('gpu_node_gpu_job{%s,hpc_job="7"}' % place(gpu, node=node), 1) for node in ("n1", "n2") for gpu in (0, 1)),
        # Two reasons at one GPU, and one that two jobs have.
        ('gpu_node_gpu_job{%s,hpc_job="8"}' % place(0), 1),
        (slow % (place(0), thermal), 1),
        (slow % (place(0), brake), 1),
        (slow % (place(1, node="n2"), thermal), 1),
        (slow % (place(1), "gpu_idle"), 1),
        ('gpu_node_gpu_job{%s,hpc_job="team/p1"}' % place(2), 1),
        *(
            (
                'gpu_node_job_info{cluster="a",hostname="%s",hpc_job="7",user="ann",account="physics",job_partition="gpu"}'
                % n,
                1,
            )
            for n in ("n1", "n2")
        ),
    ]
    name = "gpu_node:job_slowed_gpus"
    slowed = name + '{cluster="a",hpc_job="%s",reason="%s"}'
    owner = "gpu_node:job_owner"
    node = "gpu_node:job_node"
    expected = {
        # Each GPU counts once.
        name: {slowed % (7, thermal): 2, slowed % (8, thermal): 1},
        owner: {
            owner + '{cluster="a",hpc_job="7",user="ann",account="physics"}': 1,
            owner + '{cluster="a",hpc_job="team/p1",namespace="team"}': 1,
        },
        node + '{hpc_job="7"}': {node + '{cluster="a",hpc_job="7",hostname="%s"}' % n: 1 for n in ("n1", "n2")},
    }
    evaluated(tmp_path, given, expected)


def test_a_job_has_one_owner_where_nodes_report_two(tmp_path):
    """A node that was converged during the job, or cannot resolve the user, reports the UID. Queries join the owner,
    and Prometheus refuses a join with two."""
    info = 'gpu_node_job_info{cluster="a",hostname="%s",hpc_job="7",user="%s",account="%s",job_partition="gpu"}'
    names = (("n1", "2000", ""), ("n2", "ann", "physics"), ("n3", "ann", "physics"))
    given = [(info % one, 1) for one in names]
    given += [('gpu_node_gpu_job{%s,hpc_job="7"}' % place(0, node=one[0]), 1) for one in names]
    owner = "gpu_node:job_owner"
    joined = "sum by (user) (gpu_node:gpu_job * on (cluster, hpc_job) group_left (user) {0})".format(owner)
    expected = {
        owner: {owner + '{cluster="a",hpc_job="7",user="ann",account="physics"}': 1},
        joined: {'{user="ann"}': 3},
    }
    evaluated(tmp_path, given, expected)


# Without our ServiceMonitor ---------------------------------------------------------------------------


def exported(labels, active):
    """As a ServiceMonitor of the site scrapes it, without the labels cluster and hostname of the target."""
    return [
        (name.replace(CLUSTER, "").replace('hostname="n', 'HOST="n'), value)
        for name, value in dcgm(labels, active=active)
    ]


@pytest.mark.parametrize("host", ["Hostname", "hostname"])
@pytest.mark.parametrize("prefix", ["", "exported_"])
def test_pods_and_nodes_are_known_without_relabeling(host, prefix, tmp_path):
    """``prefix``: without honorLabels. The pod label of the target is then the exporter's own pod."""
    own = ',namespace="gpu-operator",pod="nvidia-dcgm-exporter-x",container="nvidia-dcgm-exporter"'
    given = []
    for node in ("n1", "n2"):
        has = ',{0}namespace="team",{0}pod="p-{1}",{0}container="main"'.format(prefix, node)
        given += exported(place(0, node=node, more=has + (own if prefix else "")), 0.9)
        given += exported(place(1, node=node, more=own), 0)
    given = [(name.replace("HOST=", host + "="), value) for name, value in given]
    nodes, pods = ("n1", "n2"), ("team/p-n1", "team/p-n2")
    expected = {
        "gpu_node:node_gpus": {'gpu_node:node_gpus{hostname="%s"}' % node: 2 for node in nodes},
        "gpu_node:job_gpus": {'gpu_node:job_gpus{hpc_job="%s"}' % pod: 1 for pod in pods},
        "gpu_node:job_power:watts": {'gpu_node:job_power:watts{hpc_job="%s"}' % pod: 600 for pod in pods},
        "sum by (state) (gpu_node:fleet_gpus)": {'{state="busy"}': 2, '{state="unallocated"}': 2},
        "count(gpu_node:gpu_power:watts)": {"{}": 4},
    }
    evaluated(tmp_path, given, expected)


@pytest.mark.parametrize("instances", [(), ("7", "8")])
def test_a_changed_label_of_one_node_costs_no_other_node_its_rules(tmp_path, instances):
    """For a minute two series of one GPU differ in a label of the node; a join would end with many-to-many matching."""
    given = []
    for node, profiles in (("n1", ("a", "b")), ("n2", ("a",))):
        for profile in profiles:
            for instance in instances or (None,):
                labels = place(0, instance, node, ',profile="{0}",hpc_job="{1}"'.format(profile, node[1:]))
                given += dcgm(labels, active=0.5)
                given.append(('DCGM_EXP_CLOCK_EVENTS_COUNT{%s,clock_event="hw_thermal"}' % labels, 1))
    expected = {}
    for name, value in (
        ("job_gpus", 1), ("job_busy:ratio", 0.5), ("job_busy_least:ratio", 0.5), ("job_busy_median:ratio", 0.5),
        ("job_power:watts", 600), ("job_memory_used:bytes", 104857600 * max(1, len(instances))),
    ):  # fmt: skip
        name = "gpu_node:" + name
        expected[name] = {'%s{cluster="a",hpc_job="%d"}' % (name, job): value for job in (1, 2)}
    slowed = 'gpu_node:job_slowed_gpus{cluster="a",hpc_job="%d",reason="hardware_thermal_slowdown"}'
    expected["gpu_node:job_slowed_gpus"] = {slowed % job: 1 for job in (1, 2)}
    evaluated(tmp_path, given, expected)


def test_a_count_that_a_reset_clears_is_recorded_with_each_scrape():
    """A reset of the GPU sets it to 0; within two minutes it often follows the error."""
    (seconds,) = [
        seconds
        for _name, seconds, made in rules.groups()
        if "gpu_node:gpu_uncorrected_errors_total" in [one.record for one in made]
    ]
    assert seconds == rules.STEP


@pytest.mark.parametrize(("pod", "jobs"), [("my-dcgm-exporter-train", 1), ("nvidia-dcgm-exporter-x7k2p", 0)])
def test_only_the_pod_of_the_exporter_is_no_job(tmp_path, pod, jobs):
    labels = place(0, more=',namespace="team",pod="{0}"'.format(pod))
    samples = {'{cluster="a"}': jobs} if jobs else {}
    evaluated(tmp_path, dcgm(labels), {"count by (cluster) (gpu_node:gpu_job)": samples})
