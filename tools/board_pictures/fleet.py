# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A synthetic fleet of which each dashboard has something to show, as OpenMetrics text with times. Pure.

Two clusters over three hours, with the labels that Prometheus adds to the targets:

- ``alpha`` with Slurm. Our own metrics: job 4711 on four nodes, of which gpu003 has errors of NVLink; 4712 is slow,
  since a GPU of gpu006 is hot; 4713 leaves eight GPUs idle; 4714 has two GPUs of gpu008; gpu009 lost a GPU; gpu011 has
  an unknown and gpu014 an old verdict; an InfiniBand port of gpu012 is down, and one of gpu005 has errors. DCGM's
  metrics: job 4715 on gpu010; MIG on gpu013, where 4718 leaves an instance idle.
- ``kube`` with Kubernetes and DCGM's metrics: pods of two namespaces, one of them idle.
"""

from __future__ import annotations

from typing import Dict, Iterator, NamedTuple, Optional, Tuple

from .exporters import Labels, Series, Value, Work, constant, counter, dcgm, infiniband, own, since, step, until, wave

MINUTES = 180
#: The last sample: 2026-03-02 12:00 UTC. A fixed time, so that pictures of two runs can be compared.
END = 1772452800
START = END - 60 * MINUTES
#: When the GPU of gpu009 is lost, and when that of gpu006 becomes hot.
LOST, HOT = 90, 60

GIB = 2.0**30


class Job(NamedTuple):
    """A job of Slurm, and what its GPUs do."""

    number: str
    user: str
    account: str
    busy: float
    tensor: float
    nodes: Tuple[str, ...]
    gpus: Tuple[int, ...] = tuple(range(8))


class Pod(NamedTuple):
    """A pod, and what its GPUs do."""

    namespace: str
    name: str
    busy: float
    tensor: float
    node: str
    gpus: Tuple[int, ...]


JOBS = (
    Job("4711", "alice", "nlp", 0.95, 0.55, ("gpu001", "gpu002", "gpu003", "gpu004")),
    Job("4712", "bob", "vision", 0.62, 0.3, ("gpu005", "gpu006")),
    Job("4713", "carol", "physics", 0.0, 0.0, ("gpu007",)),
    Job("4714", "alice", "nlp", 0.8, 0.35, ("gpu008",), (0, 1)),
    Job("4715", "erin", "vision", 0.9, 0.5, ("gpu010",)),
)
PODS = (
    Pod("team-a", "train-0", 0.92, 0.5, "k8s-gpu-01", (0, 1, 2, 3)),
    Pod("team-a", "train-1", 0.9, 0.5, "k8s-gpu-02", (0, 1)),
    Pod("team-b", "notebook-0", 0.0, 0.0, "k8s-gpu-02", (2,)),
)
SLURM_NODES = tuple("gpu{0:03}".format(number) for number in range(1, 15))
KUBERNETES_NODES = ("k8s-gpu-01", "k8s-gpu-02", "k8s-gpu-03")
DCGM_NODES = ("gpu010", "gpu013", *KUBERNETES_NODES)
#: The outcome of each node that does not pass, with (check, code, key, action) of its finding.
VERDICTS: Dict[str, Tuple[str, Tuple[str, str, str, str]]] = {
    "gpu006": ("warn", ("gpu_temperature", "hot", "GPU-006-3", "look")),
    "gpu009": ("fail", ("gpu_lost", "lost", "GPU-009-5", "reboot")),
    "gpu011": ("unknown", ("gpu_driver", "timeout", "", "look")),
    "gpu012": ("fail", ("ib_ports", "down", "mlx5_3/1", "look")),
}
#: (identifier, profile, share of its memory in use, activity, job) of the MIG instances of gpu013, by GPU.
INSTANCES: Dict[int, Tuple[Tuple[str, str, float, float, str], ...]] = {
    0: tuple((str(7 + i), "1g.10gb", 0.1 * i, 0.12 * i, "4716" if i in (5, 6) else "") for i in range(7)),
    1: (("1", "3g.40gb", 0.9, 0.85, "4717"), ("2", "3g.40gb", 0.02, 0.0, "4718")),
}
CHECKS = ("gpu_lost", "gpu_temperature", "gpu_driver", "gpu_ecc", "ib_ports", "nvme_smart")
OUTCOMES = ("pass", "warn", "unknown", "fail")


def target(node: str) -> Labels:
    """The labels of a scrape target."""
    if node in KUBERNETES_NODES:
        return {"cluster": "kube", "hostname": node, "profile": "h100-pcie"}
    profile = "nca100" if node == "gpu013" else "ndv5"
    rack = "r{0}".format(1 + SLURM_NODES.index(node) // 5)
    return {"cluster": "alpha", "hostname": node, "profile": profile, "partition": "gpu", "rack": rack}


def work(node: str, gpu: int, busy: float, tensor: float, has_job: bool) -> Work:
    seed = sum(map(ord, node)) + 3 * gpu
    power, temperature = 90 + 560 * busy + 40 * tensor, 34 + 30 * busy + gpu % 4
    clock = 1980e6 if has_job else 345e6
    hot: Optional[Work] = None
    if (node, gpu) == ("gpu006", 3):
        hot = Work(
            wave(0.99, 0.005, seed), wave(0.3, 0.1, seed), wave(380, 0.03, seed), wave(89, 0.01, seed),
            wave(870e6, 0.05, seed), 70 * GIB, 80 * GIB,
        )  # fmt: skip
    well = Work(
        wave(min(busy, 0.97), 0.03, seed),
        wave(tensor, 0.1, seed),
        wave(power, 0.04, seed),
        wave(temperature, 0.02, seed),
        wave(clock, 0.002, seed),
        (70 if busy else 4) * GIB if has_job else 0.0,
        80 * GIB,
    )
    return well if hot is None else _after(HOT, well, hot)


def _after(minute: int, before: Work, after: Work) -> Work:
    def chosen(one: Value, other: Value) -> Value:
        return lambda now: (one if now < minute else other)(now)

    return Work(
        chosen(before.busy, after.busy),
        chosen(before.tensor, after.tensor),
        chosen(before.power, after.power),
        chosen(before.temperature, after.temperature),
        chosen(before.clock, after.clock),
        after.memory,
        after.total,
    )


def gpus(node: str) -> Iterator[Series]:
    for gpu in range(4 if node in KUBERNETES_NODES else 8):
        identity = "GPU-{0}-{1}".format(node[-3:].strip("-"), gpu)
        labels = dict(target(node), gpu=str(gpu), UUID=identity, modelName="NVIDIA H100 80GB HBM3")
        job = next((one for one in JOBS if node in one.nodes and gpu in one.gpus), None)
        pod = next((one for one in PODS if node == one.node and gpu in one.gpus), None)
        user = job or pod
        made = work(node, gpu, user.busy if user else 0.0, user.tensor if user else 0.0, user is not None)
        if node == "gpu013" and gpu in INSTANCES:
            yield from _divided(labels, made, INSTANCES[gpu])
        elif node in DCGM_NODES:
            more = {"hpc_job": job.number} if job else {}
            if pod:
                more = {"namespace": pod.namespace, "pod": pod.name, "container": "main"}
            yield from dcgm(dict(labels, **more), made)
        else:
            yield from _by_own(node, gpu, labels, made, job)


def _by_own(node: str, gpu: int, labels: Labels, made: Work, job: Optional[Job]) -> Iterator[Series]:
    labels = dict(labels, pci_bus_id="0000000{0}:00:00.0".format(gpu + 1))
    lost = (node, gpu) == ("gpu009", 5)
    for one in own(labels, made, 3.0 if (node, gpu) == ("gpu003", 6) else 0.0):
        if not lost:
            yield one
        elif one.name == "gpu_node_gpu_up":
            yield one._replace(value=lambda minute: float(minute < LOST))
        else:
            yield one._replace(value=until(LOST, one.value))
    if job:
        yield Series("gpu_node_gpu_job", dict(labels, hpc_job=job.number), constant(1.0))
    if (node, gpu) == ("gpu006", 3):
        slowed = dict(labels, reason="hardware_thermal_slowdown")
        yield Series("gpu_node_gpu_slowed", slowed, since(HOT, constant(1.0)))
    if node == "gpu001":
        slowed = dict(labels, reason="software_power_cap")
        yield Series("gpu_node_gpu_slowed", slowed, lambda minute: 1.0 if minute % 60 < 8 else None)


def _divided(labels: Labels, gpu: Work, instances: Tuple[Tuple[str, str, float, float, str], ...]) -> Iterator[Series]:
    """dcgm-exporter has series of the instances alone, unless it is asked for the GPU too."""
    power = wave(90 + 400 * sum(one[3] for one in instances) / len(instances), 0.03, int(labels["gpu"]))
    for identifier, profile, memory, busy, job in instances:
        total = (20 if profile == "1g.10gb" else 40) * GIB / 2
        values = Work(
            wave(busy, 0.05, int(identifier)), wave(busy * 0.5, 0.1, int(identifier)), power, gpu.temperature,
            constant(1980e6), memory * total, total,
        )  # fmt: skip
        more = {"GPU_I_ID": identifier, "GPU_I_PROFILE": profile}
        if job:
            more["hpc_job"] = job
        yield from dcgm(dict(labels, **more), values, whole=False)


def health(node: str) -> Iterator[Series]:
    """What the gate writes."""
    labels = target(node)
    outcome, finding = VERDICTS.get(node, ("pass", ("", "", "", "")))
    begun = {"gpu006": HOT + 10, "gpu009": LOST}.get(node, 30)

    def of(wanted: str) -> Value:
        return lambda minute: float((outcome if minute >= begun else "pass") == wanted)

    for one in OUTCOMES:
        yield Series("gpu_node_health_outcome", dict(labels, outcome=one), of(one))
    for check in CHECKS:
        value = OUTCOMES.index(outcome) if check == finding[0] else 0
        yield Series("gpu_node_health", dict(labels, check=check), step(begun, 0.0, float(value)))
        cost = 0.4 if check == "gpu_ecc" else 0.02 * len(check)
        yield Series("gpu_node_health_check_duration_seconds", dict(labels, check=check), wave(cost, 0.2, len(check)))
    for one in OUTCOMES[1:]:
        yield Series("gpu_node_health_findings", dict(labels, outcome=one), of(one))
        yield Series("gpu_node_health_findings_observed", dict(labels, outcome=one), constant(0.0))
    if finding[0]:
        told = dict(
            zip(("check", "code", "key", "action"), finding), outcome=outcome, silenced="false", observed="false"
        )
        yield Series("gpu_node_health_finding", dict(labels, **told), since(begun, constant(1.0)))
    yield Series("gpu_node_health_info", dict(labels, level="passive"), constant(1.0))
    yield Series("gpu_node_health_duration_seconds", labels, wave(2.1, 0.1, 3))
    yield Series("gpu_node_health_interval_seconds", labels, constant(300.0))
    stale = 40 if node == "gpu014" else MINUTES
    yield Series(
        "gpu_node_health_timestamp_seconds", labels, lambda minute: float(START + 60 * (min(minute, stale) // 5 * 5))
    )


def _ports(node: str) -> Iterator[Series]:
    """Eight ports of InfiniBand; one of gpu012 is down, one of gpu005 has errors."""
    busy = next((one.busy for one in JOBS if node in one.nodes), 0.0)
    for number in range(8):
        labels = dict(target(node), device="mlx5_{0}".format(number), port="1")
        down, bad = (node, number) == ("gpu012", 3), (node, number) == ("gpu005", 2)
        yield from infiniband(labels, 0.0 if down else 1.2e12 * busy, down, bad)


def node_exporter(node: str) -> Iterator[Series]:
    labels = target(node)
    for job in ("node", "dcgm") if node in DCGM_NODES else ("node",):
        yield Series("up", dict(labels, job="gpu_node_" + job, instance=node), constant(1.0))
    for one in JOBS:
        if node in one.nodes:
            owner = {"hpc_job": one.number, "user": one.user, "account": one.account, "job_partition": "gpu"}
            yield Series("gpu_node_job_info", {**labels, **owner}, constant(1.0))
    if node == "gpu013":
        for number, user in (("4716", "frank"), ("4717", "grace"), ("4718", "grace")):
            owner = {"hpc_job": number, "user": user, "account": "bio", "job_partition": "gpu"}
            yield Series("gpu_node_job_info", {**labels, **owner}, constant(1.0))
    busy = next((one.busy for one in JOBS if node in one.nodes), 0.0)
    for disk in ("nvme0n1", "nvme1n1"):
        yield Series("node_disk_read_bytes_total", dict(labels, device=disk), counter(6e10 * busy))
        yield Series("node_disk_written_bytes_total", dict(labels, device=disk), counter(1e10 * busy))
        yield Series("node_disk_io_time_seconds_total", dict(labels, device=disk), counter(40 * busy))
    yield Series("node_pressure_io_waiting_seconds_total", labels, counter(6 * busy))
    yield Series("node_nfs_requests_total", dict(labels, method="Read", proto="4"), counter(3000 * busy))
    yield Series("node_nfs_rpc_retransmissions_total", labels, counter(0.0))
    yield Series("node_network_receive_bytes_total", dict(labels, device="eth0"), counter(3e9 * busy))
    yield Series("node_network_transmit_bytes_total", dict(labels, device="eth0"), counter(2e9 * busy))


def series() -> Iterator[Series]:
    for node in (*SLURM_NODES, *KUBERNETES_NODES):
        yield from gpus(node)
        yield from health(node)
        yield from node_exporter(node)
        if node not in KUBERNETES_NODES:
            yield from _ports(node)


def openmetrics() -> Iterator[str]:
    """The lines of the file."""
    for one in series():
        head = "{0}{{{1}}} ".format(one.name, ",".join('{0}="{1}"'.format(*pair) for pair in one.labels.items()))
        for minute in range(MINUTES + 1):
            value = one.value(minute)
            if value is not None:
                yield "{0}{1:.10g} {2}\n".format(head, value, START + 60 * minute)
    yield "# EOF\n"
