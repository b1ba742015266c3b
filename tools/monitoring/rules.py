# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recording rules: one name for each thing, whoever tells of it, DCGM's exporter or our own file.

A rule gives one series for a GPU, or for a MIG instance: jobs are in a metric of their own. Where both tell of a GPU,
DCGM's value stays.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any, Dict, List, Mapping, Match, NamedTuple, Sequence, Tuple

#: What a scrape target is, and then what a GPU is.
TARGET = ("cluster", "hostname", "profile", "partition", "rack")
GPU = ("gpu", "UUID", "modelName")
INSTANCE = ("GPU_I_ID", "GPU_I_PROFILE")
#: One GPU of the fleet, and one GPU or instance.
WHOLE = "cluster, hostname, gpu"
PLACE = WHOLE + ", GPU_I_ID"
#: Seconds between two evaluations, by the group; what is summed up over time is multiplied by them. What no alert and
#: no total needs at once is evaluated less often: a rule costs the same for each evaluation, whatever it reads.
STEP, NODE_STEP, RARE_STEP, SLOW_STEP = 30, 60, 120, 300


class Rule(NamedTuple):
    record: str
    expr: str
    labels: Mapping[str, str] = {}


def _labels(*more: str) -> str:
    return ", ".join((*TARGET, *GPU, *more))


def by_host_name(expr: str) -> str:
    """The series of targets without the label hostname, which have it from the exporter as Hostname."""
    own = re.sub(r"(DCGM_\w+)(?:\{([^}]*)\})?", _unnamed, expr)
    return 'label_replace({0}, "hostname", "$1", "Hostname", "(.+)")'.format(own)


def _unnamed(match: Match[str]) -> str:
    # The first matcher is empty and ends the search where no exporter is that old.
    return "{0}{{{1}}}".format(match[1], ",".join(['Hostname!="",hostname=""', *filter(None, [match[2]])]))


def _either(dcgm: Sequence[str], ours: Sequence[str], more: Tuple[str, ...] = INSTANCE) -> str:
    """The first that has it, by GPU (and ``more``), the better ones first."""
    by = _labels(*more)
    parts = []
    for one in dcgm:
        # vector(1) has no labels, so this leaves out what has no hostname: nodes would become one.
        parts.append("max by ({0}) ({1}) unless on (hostname) vector(1)".format(by, one))
        parts.append("max by ({0}) ({1})".format(by, by_host_name(one)))
    parts += ["max by ({0}) ({1})".format(by, one) for one in ours]
    on = ", ".join([WHOLE, *(one for one in more if one != "GPU_I_PROFILE")])
    return " or on ({0}) ".format(on).join(parts)


#: Name, what DCGM has for it, what our file has for it: the first that is there. Of each GPU, and of each instance.
PARTS: Tuple[Tuple[str, Tuple[str, ...], Tuple[str, ...]], ...] = (
    (
        "gpu_busy:ratio",
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL / 100"),
        # NVML has no utilisation of a GPU that is divided.
        ("gpu_node_gpu_busy_ratio", 'gpu_node_gpu_sm_active_ratio{GPU_I_ID!=""}'),
    ),
    ("gpu_sm_active:ratio", ("DCGM_FI_PROF_SM_ACTIVE",), ("gpu_node_gpu_sm_active_ratio",)),
    ("gpu_sm_occupancy:ratio", ("DCGM_FI_PROF_SM_OCCUPANCY",), ("gpu_node_gpu_sm_occupancy_ratio",)),
    ("gpu_tensor_active:ratio", ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",), ("gpu_node_gpu_tensor_active_ratio",)),
    ("gpu_dram_active:ratio", ("DCGM_FI_PROF_DRAM_ACTIVE",), ("gpu_node_gpu_dram_active_ratio",)),
    ("gpu_fp64_active:ratio", ("DCGM_FI_PROF_PIPE_FP64_ACTIVE",), ("gpu_node_gpu_fp64_active_ratio",)),
    ("gpu_fp32_active:ratio", ("DCGM_FI_PROF_PIPE_FP32_ACTIVE",), ("gpu_node_gpu_fp32_active_ratio",)),
    ("gpu_fp16_active:ratio", ("DCGM_FI_PROF_PIPE_FP16_ACTIVE",), ("gpu_node_gpu_fp16_active_ratio",)),
    ("gpu_memory_used:bytes", ("DCGM_FI_DEV_FB_USED * 1048576",), ("gpu_node_gpu_memory_used_bytes",)),
    (
        "gpu_memory_total:bytes",
        (
            "(DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE + DCGM_FI_DEV_FB_RESERVED) * 1048576",
            "(DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) * 1048576",
        ),
        ("gpu_node_gpu_memory_total_bytes",),
    ),
)
#: The same of what a GPU has as a whole. DCGM reports it again for each instance, with the value of the GPU.
WHOLES: Tuple[Tuple[str, Tuple[str, ...], Tuple[str, ...]], ...] = (
    ("gpu_temperature:celsius", ("DCGM_FI_DEV_GPU_TEMP",), ("gpu_node_gpu_temperature_celsius",)),
    ("gpu_memory_temperature:celsius", ("DCGM_FI_DEV_MEMORY_TEMP",), ("gpu_node_gpu_memory_temperature_celsius",)),
    ("gpu_power:watts", ("DCGM_FI_DEV_POWER_USAGE",), ("gpu_node_gpu_power_watts",)),
    ("gpu_power_limit:watts", ("DCGM_FI_DEV_POWER_MGMT_LIMIT",), ("gpu_node_gpu_power_limit_watts",)),
    (
        "gpu_energy:joules_total",
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION / 1000",),
        ("gpu_node_gpu_energy_joules_total",),
    ),
    ("gpu_sm_clock:hertz", ("DCGM_FI_DEV_SM_CLOCK * 1000000",), ("gpu_node_gpu_sm_clock_hertz",)),
    (
        "gpu_pcie_sent:bytes_per_second",
        ("DCGM_FI_PROF_PCIE_TX_BYTES",),
        ("gpu_node_gpu_pcie_sent_bytes_per_second",),
    ),
    (
        "gpu_pcie_received:bytes_per_second",
        ("DCGM_FI_PROF_PCIE_RX_BYTES",),
        ("gpu_node_gpu_pcie_received_bytes_per_second",),
    ),
    (
        "gpu_nvlink_sent:bytes_per_second",
        ("DCGM_FI_PROF_NVLINK_TX_BYTES",),
        ("gpu_node_gpu_nvlink_sent_bytes_per_second",),
    ),
    (
        "gpu_nvlink_received:bytes_per_second",
        ("DCGM_FI_PROF_NVLINK_RX_BYTES",),
        ("gpu_node_gpu_nvlink_received_bytes_per_second",),
    ),
    ("gpu_up", ("DCGM_FI_DEV_SM_CLOCK * 0 + 1",), ("gpu_node_gpu_up",)),
    ("gpu_row_remap_failed", ("DCGM_FI_DEV_ROW_REMAP_FAILURE",), ("gpu_node_gpu_row_remap_failed",)),
    ("gpu_row_remap_pending", ("DCGM_FI_DEV_ROW_REMAP_PENDING",), ("gpu_node_gpu_row_remap_pending",)),
    (
        "gpu_uncorrected_errors_total",
        ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",),
        ('sum without (memory) (gpu_node_gpu_ecc_errors_total{corrected="false"})',),
    ),
    ("gpu_pcie_replays_total", ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER",), ("gpu_node_gpu_pcie_replays_total",)),
)
#: dcgm-exporter's word for a slow-down, and NVML's.
_SLOWED: Dict[str, str] = {
    "hw_slowdown": "hardware_slowdown",
    "hw_thermal": "hardware_thermal_slowdown",
    "hw_power_brake": "hardware_power_brake_slowdown",
    "sw_thermal": "software_thermal_slowdown",
    "power_cap": "software_power_cap",
}


_EVENT = 'label_replace(DCGM_EXP_CLOCK_EVENTS_COUNT{{clock_event="{0}"}} > 0, "reason", "{1}", "", "") * 0 + 1'
#: Reasons for which a GPU of a job is slower than it could be, the ones that explain most first; idle is not one.
SLOWED = (
    *("hardware_thermal_slowdown", "hardware_power_brake_slowdown", "hardware_slowdown"),
    *("software_thermal_slowdown", "software_power_cap", "sync_boost", "application_clocks_setting"),
)


def _slowed() -> str:
    parts = [_EVENT.format(theirs, ours) for theirs, ours in _SLOWED.items()]
    return _either(parts, ["gpu_node_gpu_slowed"], ("reason",))


def _jobs() -> str:
    """Which job has which GPU or instance. A pod is a job with the name NAMESPACE/POD."""
    # Memory is a value of each GPU and of each instance. Without honorLabels the labels of the pod that has the GPU
    # are exported_*, and with it the labels of the exporter's own pod remain at a GPU that no pod has.
    pod = 'label_join(DCGM_FI_DEV_FB_USED{{{0}pod!="",hpc_job=""{1}}}, "hpc_job", "/", "{0}namespace", "{0}pod")'
    dcgm = [
        'DCGM_FI_DEV_FB_USED{hpc_job!=""} * 0 + 1',
        pod.format("exported_", "") + " * 0 + 1",
        pod.format("", ',pod!~"(nvidia-)?dcgm-exporter-[a-z0-9]+",exported_pod=""') + " * 0 + 1",
    ]
    return _either(dcgm, ["gpu_node_gpu_job"], (*INSTANCE, "hpc_job"))


_INSTANCES = 'gpu_node:gpu_memory_used:bytes{GPU_I_ID!=""}'
#: The share of its GPU: 1, or that of an instance. All instances of a GPU count alike.
_SHARES = (
    "({0} * 0 + 1) / on ({1}) group_left () count by ({1}) (group by ({2}) ({0})) "
    "or (gpu_node:gpu_up == 1 unless on ({1}) {0})".format(_INSTANCES, WHOLE, PLACE)
)
#: Of each job, GPU and instance: which share of the GPU it has, divided between those that share it.
_HELD = (
    # A job keeps a GPU that is lost, which has no share of the fleet.
    "gpu_node:gpu_job * on ({0}) group_left () "
    "max by ({0}) (gpu_node:gpu_share:ratio or on ({1}) gpu_node:gpu_up * 0 + 1) "
    "/ on ({0}) group_left () count by ({0}) (gpu_node:gpu_job)".format(PLACE, WHOLE)
)


#: Kinds of NVLink errors, in the names of DCGM's fields.
NVLINK_ERRORS = ("CRC_FLIT", "CRC_DATA", "REPLAY", "RECOVERY")


def _nvlink_errors() -> str:
    """DCGM counts each kind of error in a field of its own; the gate counts them by the PCI address of the GPU."""
    fields = "{{__name__=~'DCGM_FI_DEV_NVLINK_({0})_ERROR_COUNT_TOTAL'}}".format("|".join(NVLINK_ERRORS))
    dcgm = "sum by ({0}) (max by (__name__, {0}) ({1}))".format(_labels(), fields)
    counted = "{__name__=~'gpu_node_health_figure_gpu_nvlink_(crc|replay|recovery|packet)_errors_total'}"
    address = "cluster, hostname, pci_bus_id"
    ours = "sum by ({0}) ({1}) * on ({0}) group_right () (gpu_node_gpu_up * 0 + 1)".format(address, counted)
    return "{0} or on ({1}) max by ({2}) ({3})".format(dcgm, WHOLE, _labels(), ours)


#: What node exporter counts as errors of a port.
_PORT_ERRORS = (
    "symbol_error|link_error_recovery|link_downed|port_errors_received|local_link_integrity_errors"
    "|excessive_buffer_overrun_errors"
)
_PORT = "cluster, hostname, device, port"


def _ports() -> List[Rule]:
    """InfiniBand and RoCE ports, from node exporter. State 4 is ACTIVE."""
    moved = "sum by ({0}) (rate(node_infiniband_port_data_{1}_bytes_total[5m]))"
    errors = "sum by ({0}) ({{__name__=~'node_infiniband_({1})_total'}})"
    return [
        Rule("gpu_node:ib_port_up", "max by ({0}) (node_infiniband_state_id == bool 4)".format(_PORT)),
        Rule("gpu_node:ib_port_errors_total", errors.format(_PORT, _PORT_ERRORS)),
        Rule("gpu_node:ib_port_sent:bytes_per_second", moved.format(_PORT, "transmitted")),
        Rule("gpu_node:ib_port_received:bytes_per_second", moved.format(_PORT, "received")),
    ]


#: A verdict or a reading of GPUs is stale after this many of its intervals, and not before this many seconds.
STALE_INTERVALS, VERDICT_STALE_SECONDS = 3, 1800
#: Clocks of nodes and of the server may differ by this much.
CLOCK_SECONDS = 300


def older(timestamp: str, interval: str, intervals: Any, seconds: Any, by: str) -> str:
    """The age of a file, where it is stale. Nodes with an older version of the collection report no interval."""
    written = "max by ({0}) ({1})".format(by, timestamp)
    limit = "clamp_min(max by ({0}) ({1}) * {2}, {3})".format(by, interval, intervals, seconds)
    age = "time() - " + written
    # A time in the future is that of a clock that was set back since, and would never be old.
    return "({0} > ({1} or {2} * 0 + {3}) or {0} < -{4})".format(age, limit, written, seconds, CLOCK_SECONDS)


def _node_outcome() -> str:
    """0 pass, 1 warn, 2 unknown, 3 fail. A stale verdict is unknown."""
    by = ", ".join(TARGET)
    outcome = "gpu_node_health_outcome{{outcome='{0}'}} * {1}"
    known = " or ".join(outcome.format(name, place) for place, name in enumerate(("pass", "warn", "unknown", "fail")))
    stale = older(
        "gpu_node_health_timestamp_seconds",
        "gpu_node_health_interval_seconds",
        STALE_INTERVALS,
        VERDICT_STALE_SECONDS,
        by,
    )
    return "({0}) * 0 + 2 or max by ({1}) ({2})".format(stale, by, known)


def _job(name: str, how: str, of: str) -> Rule:
    """Two series of one GPU, as after a change of a label of its node, must not end the rule for all clusters."""
    gpus = "group by (hpc_job, {0}) (gpu_node:gpu_job)".format(PLACE)
    expr = "{0} by (cluster, hpc_job) ({1}{2} * on ({3}) group_left () max by ({3}) (gpu_node:{4}))"
    words = how.split(" ")
    return Rule(
        "gpu_node:job_" + name, expr.format(words[0], "".join(one + ", " for one in words[1:]), gpus, PLACE, of)
    )


def _job_slowed() -> Rule:
    """Each GPU counts once, for the first of its reasons. Two jobs may share a GPU, so it may have only one here."""
    one = 'max by ({0}, reason) (gpu_node:gpu_slowed{{reason="{1}"}})'
    first = " or on ({0}) ".format(WHOLE).join(one.format(WHOLE, reason) for reason in SLOWED)
    jobs = "group by (hpc_job, {0}) (gpu_node:gpu_job)".format(WHOLE)
    return Rule(
        "gpu_node:job_slowed_gpus",
        "count by (cluster, hpc_job, reason) ({0} * on ({1}) group_left (reason) ({2}))".format(jobs, WHOLE, first),
    )


_IDLE = 0.05


def _fleet() -> List[Rule]:
    """Each share of a GPU has one state: no job has it, or a job has it and it is busy, idle, idle for half an hour
    (wasted), or unknown, where nothing reports its activity."""
    parts, job = "gpu_node:gpu_share:ratio", "gpu_node:gpu_job"
    active = "gpu_node:gpu_active_of_job:ratio"
    on = "on ({0})".format(PLACE)
    idle = "{0} < {1}".format(active, _IDLE)
    wasted = "gpu_node:gpu_wasted_by_job:ratio"
    states = (
        ("unallocated", "{0} unless {1} {2}".format(parts, on, job)),
        ("busy", "{0} and {1} ({2} >= {3})".format(parts, on, active, _IDLE)),
        ("idle", "{0} and {1} ({2}) unless {1} {3}".format(parts, on, idle, wasted)),
        ("wasted", "{0} and {1} {2}".format(parts, on, wasted)),
        ("unknown", "{0} and {1} {2} unless {1} {3}".format(parts, on, job, active)),
    )
    counted = 'label_replace(round(sum by (cluster, profile) ({0}), 0.001), "state", "{1}", "", "")'
    return [
        Rule(active, "gpu_node:gpu_busy:ratio and {0} {1}".format(on, job)),
        Rule(
            wasted,
            "max_over_time({0}[30m]) < {1} and {2} {0} offset 30m and {2} ({3})".format(active, _IDLE, on, idle),
        ),
        Rule("gpu_node:fleet_gpus", " or ".join(counted.format(expr, name) for name, expr in states)),
    ]


#: Upper bounds of the bands of the heat map; what is below the first is idle.
BANDS = ("0.05", *("{0:.1f}".format(tenth / 10) for tenth in range(1, 10)), "1")


#: What alerts and totals need at once, and counters and settings that seldom change. The others are in between.
# A reset of a GPU sets its count of uncorrected errors to 0.
_NOW = ("busy", "sm_active", "tensor_active", "memory_used", "power", "up", "uncorrected_errors_total")
_RARELY = (
    *("memory_total", "power_limit", "energy", "row_remap_failed", "row_remap_pending"),
    *("pcie_replays_total", "nvlink_errors_total"),
)


def _step(record: str) -> int:
    name = record.split(":")[1].replace("gpu_", "", 1)
    return STEP if name in _NOW else RARE_STEP if name in _RARELY else NODE_STEP


def groups() -> List[Tuple[str, int, List[Rule]]]:
    """Name, seconds between two evaluations, rules. A group reads what the ones before it wrote."""
    gpus = [Rule("gpu_node:" + name, _either(dcgm, ours)) for name, dcgm, ours in PARTS]
    gpus += [Rule("gpu_node:" + name, _either(dcgm, ours, ())) for name, dcgm, ours in WHOLES]
    gpus.append(Rule("gpu_node:gpu_nvlink_errors_total", _nvlink_errors()))
    by_step = {step: [one for one in gpus if _step(one.record) == step] for step in (STEP, NODE_STEP, RARE_STEP)}
    by_step[STEP] += [
        Rule("gpu_node:gpu_slowed", _slowed()),
        Rule("gpu_node:gpu_job", _jobs()),
        Rule("gpu_node:gpu_share:ratio", _SHARES),
    ]
    # The busiest of its instances, where it has these.
    whole = Rule("gpu_node:whole_gpu_busy:ratio", "max by ({0}) (gpu_node:gpu_busy:ratio)".format(_labels()))
    bands = [
        Rule(
            "gpu_node:fleet_busy_gpus:bucket",
            "sum by (cluster, profile) (gpu_node:whole_gpu_busy:ratio <= bool {0})".format(band),
            {"le": band},
        )
        for band in BANDS
    ]
    of_jobs = [
        Rule("gpu_node:gpu_job_share:ratio", _HELD),
        Rule("gpu_node:job_gpus", "round(sum by (cluster, hpc_job) (gpu_node:gpu_job_share:ratio), 0.001)"),
        _job("busy:ratio", "avg", "gpu_busy:ratio"),
        # All power of a GPU is that of the jobs that have it or its instances.
        Rule(
            "gpu_node:job_power:watts",
            "sum by (cluster, hpc_job) (gpu_node:gpu_job_share:ratio / on ({0}) group_left () "
            "sum by ({0}) (gpu_node:gpu_job_share:ratio) "
            "* on ({0}) group_left () max by ({0}) (gpu_node:gpu_power:watts))".format(WHOLE),
        ),
        *_fleet(),
    ]
    more_of_jobs = [
        _job("sm_active:ratio", "avg", "gpu_sm_active:ratio"),
        _job("tensor_active:ratio", "avg", "gpu_tensor_active:ratio"),
        _job("memory_used:bytes", "sum", "gpu_memory_used:bytes"),
        # The least busy of its GPUs: one that waits for the others, or that nobody uses.
        _job("busy_least:ratio", "min", "gpu_busy:ratio"),
        _job("busy_median:ratio", "quantile 0.5", "gpu_busy:ratio"),
        _job_slowed(),
        Rule("gpu_node:job_node", "group by (cluster, hpc_job, hostname) (gpu_node:gpu_job)"),
        Rule(
            "gpu_node:job_owner",
            # The owner that most nodes of the job report: joins allow one.
            "topk by (cluster, hpc_job) (1, count by (cluster, hpc_job, user, account) (gpu_node_job_info)) ^ 0 "
            "or on (cluster, hpc_job) "
            'label_replace(group by (cluster, hpc_job) (gpu_node:gpu_job{hpc_job=~".+/.+"}), '
            '"namespace", "$1", "hpc_job", "(.*)/.*")',
        ),
    ]
    target = ", ".join(TARGET)
    of_nodes = [
        Rule("gpu_node:node_gpus", "count by ({0}) (gpu_node:gpu_up == 1)".format(target)),
        Rule("gpu_node:node_outcome", _node_outcome()),
        *_ports(),
        Rule("gpu_node:node_sick", 'max by ({0}) (gpu_node_health_outcome{{outcome="fail"}})'.format(target)),
        # A failure that is over, and one that is not.
        Rule("gpu_node:node_failures:7d", "resets(gpu_node:node_sick[7d]) + gpu_node:node_sick"),
        Rule("gpu_node:node_failures:1d", "resets(gpu_node:node_sick[1d]) + gpu_node:node_sick"),
        Rule(
            "gpu_node:node_time_between_failures:seconds",
            # The time in which it was known and well, by the number of failures.
            "(count_over_time(gpu_node:node_sick[7d]) - sum_over_time(gpu_node:node_sick[7d])) * {0} "
            "/ (gpu_node:node_failures:7d > 0)".format(NODE_STEP),
        ),
        # A finding of a GPU begins; the key of a GPU is its UUID, or its number where it is lost.
        Rule(
            "gpu_node:gpu_failure",
            "group by (cluster, hostname, key) ({0}) unless group by (cluster, hostname, key) ({0} offset 1m)".format(
                'gpu_node_health_finding{outcome="fail",key=~"(?i)gpu.*"}'
            ),
        ),
        Rule("gpu_node:gpu_failures:7d", "count_over_time(gpu_node:gpu_failure[7d])"),
    ]
    over_time = [
        Rule("gpu_node:job_energy:joules", "sum_over_time(gpu_node:job_power:watts[7d]) * {0}".format(STEP)),
        Rule("gpu_node:fleet_gpu_hours:7d", "sum_over_time(gpu_node:fleet_gpus[7d]) * {0} / 3600".format(STEP)),
    ]
    return [
        ("gpu_node_gpus", STEP, by_step[STEP]),
        ("gpu_node_gpus_more", NODE_STEP, by_step[NODE_STEP]),
        ("gpu_node_gpus_rare", RARE_STEP, by_step[RARE_STEP]),
        ("gpu_node_jobs", STEP, of_jobs),
        ("gpu_node_jobs_more", NODE_STEP, [*more_of_jobs, whole, *bands]),
        ("gpu_node_nodes", NODE_STEP, of_nodes),
        ("gpu_node_over_time", SLOW_STEP, over_time),
    ]


_TEXT = re.compile(r"""("[^"]*"|'[^']*')""")
_OURS = re.compile(r"\b((?:gpu_node|node_infiniband)_\w+)(\{)?")
_ANY = "{__name__=~"


def with_host(expr: str) -> str:
    """Pure. The expression over our own series and ports that have a host. An exporter that is also scraped by another
    job, as by the chart of node exporter, reports each of them a second time without one."""
    host = 'hostname!=""'
    parts = _TEXT.split(expr)
    for at in range(0, len(parts), 2):
        parts[at] = _OURS.sub(lambda found: found[1] + "{" + host + ("," if found[2] else "}"), parts[at])
        if parts[at].endswith(_ANY) and parts[at + 1][1:].startswith(("gpu_node_", "node_infiniband_")):
            parts[at] = parts[at][: -len(_ANY)] + "{" + host + "," + _ANY[1:]
    return "".join(parts).replace(",}", "}")


def text() -> str:
    """The file of rules."""
    lines = ["---", "# Generated by `make docs` from tools/monitoring/rules.py; change them there.", "groups:"]
    for name, seconds, rules in groups():
        lines += ["  - name: " + name, "    interval: {0}s".format(seconds), "    rules:"]
        for rule in rules:
            lines += ["      - record: " + rule.record, "        expr: >-"]
            lines += textwrap.wrap(
                with_host(rule.expr), 140, initial_indent=" " * 10, subsequent_indent=" " * 10, **_WRAP
            )
            if rule.labels:
                lines += ["        labels:", *('          {0}: "{1}"'.format(*one) for one in rule.labels.items())]
    return "\n".join(lines) + "\n"


_WRAP: Any = {"break_long_words": False, "break_on_hyphens": False}
