# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Alerts on scrape targets, verdicts, nodes and jobs."""

from __future__ import annotations

from typing import List

from . import rules
from .alert import JOBS, NODE, TARGET, Alert, finding, highest_of_dcgm


def of_targets() -> List[Alert]:
    up = "up{{{0}}}".format(JOBS)
    total = "count by (cluster, job) ({0})".format(up)
    before = " or ".join("{0} offset {1}".format(up, one) for one in ("1h", "6h", "1d"))
    host = "{{ or $labels.hostname $labels.instance }}"

    def stale(what: str, by: str) -> str:
        timestamp = "gpu_node_{0}_timestamp_seconds".format(what)
        seconds = "@{0}_stale_seconds@".format({"health": "verdict"}.get(what, what))
        return rules.older(timestamp, "gpu_node_{0}_interval_seconds".format(what), "@stale_intervals@", seconds, by)

    gpus, verdict = "gpu_node:node_gpus", "group by (cluster, hostname) (gpu_node_health_timestamp_seconds{0})"
    # It had one within the last day, or most nodes of its cluster have one.
    had = " or ".join(verdict.format(" offset " + one) for one in ("1h", "2h", "1d"))
    most = "count by (cluster) ({0}) * 2 > count by (cluster) ({1})".format(verdict.format(""), gpus)
    expected = "{0} or group by ({1}) ({2}) and on (cluster) ({3})".format(had, NODE, gpus, most)
    return [
        Alert(
            "GpuNodeTargetDown",
            "warning",
            up + " == 0",
            host + ": {{ $labels.job }} does not answer",
            "Prometheus cannot scrape the exporter. The node or its exporter is down.",
            "Check whether the node is up, and then the unit of the exporter on it.",
            "5m",
        ),
        Alert(
            "GpuNodeTargetsGone",
            "critical",
            # The second part: a cluster without targets that had some within the last day.
            "(count by (cluster, job) ({0} == 1) or {1} * 0) < (1 - @targets_down_ratio@) * {1} or "
            "count by (cluster) ({2}) unless on (cluster) count by (cluster) ({0})".format(up, total, before),
            "Many GPU nodes of cluster {{ $labels.cluster }} do not answer",
            "More than @targets_down_ratio%@ % of the targets do not answer, or Prometheus has none of them any more.",
            "Check the network and the configuration of Prometheus first: many nodes rarely fail together.",
            "5m",
        ),
        Alert(
            "GpuNodeMetricsStale",
            "warning",
            stale("metrics", TARGET),
            "{{ $labels.hostname }}: the metrics of its GPUs are stale",
            "The file with the metrics of the GPUs is no longer written. Node exporter still reports the old values.",
            "Check gpu-node-gpu_metrics.timer and its service on the node.",
            "5m",
        ),
        Alert(
            "GpuNodeMetricsMissing",
            "info",
            "({0}) unless on (cluster, hostname, gpu) ({1})".format(
                highest_of_dcgm("cluster, hostname, gpu", "DCGM_FI_DEV_GPU_TEMP"),
                highest_of_dcgm("cluster, hostname, gpu", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
            ),
            "{{ $labels.hostname }}: DCGM does not report the activity of GPU {{ $labels.gpu }}",
            "A profiler uses the counters, exporter and DCGM have different versions, or the GPU has no counters.",
            "Run 'dcgmi profile --list' on the node, and compare the versions of dcgm-exporter and DCGM.",
            "30m",
        ),
        Alert(
            "GpuNodeVerdictStale",
            "warning",
            stale("health", TARGET),
            "{{ $labels.hostname }}: its health verdict is stale",
            "The checks of the node no longer run, so its last verdict may be wrong now.",
            "Check gpu-node-health.timer on the node, and run 'gpunode health'.",
            "5m",
        ),
        Alert(
            "GpuNodeVerdictUnknown",
            "warning",
            'max by ({0}) (gpu_node_health_outcome{{outcome="unknown"}}) == 1'.format(TARGET),
            "{{ $labels.hostname }}: its health verdict is unknown",
            "A check could not read what it needs, so it is not known whether the node is healthy.",
            "Run 'gpunode health' on the node: it shows what cannot be read and why.",
            "@verdict_unknown_seconds@s",
        ),
        Alert(
            "GpuNodeVerdictMissing",
            "warning",
            "({0} unless on ({1}) {2}) and on ({1}) ({3})".format(gpus, NODE, verdict.format(""), expected),
            "{{ $labels.hostname }}: it has no health verdict",
            "The node reports its GPUs and no verdict, although it had one within a day or most nodes of its cluster "
            "have one.",
            "Run the role health_gate for the node, and check health_gate_textfile.",
            "@verdict_missing_seconds@s",
        ),
    ]


def of_nodes() -> List[Alert]:
    return [
        Alert(
            "GpuNodeSick",
            "warning",
            # At once: in Alertmanager it inhibits the other alerts of the node.
            "gpu_node:node_sick == 1",
            "{{ $labels.hostname }} is unhealthy",
            "At least one health check of the node fails. The gate keeps jobs off it until its checks pass.",
            "Run 'gpunode health' on the node and follow its remedies.",
        ),
        Alert(
            "GpuNodeFailsAgain",
            "critical",
            "gpu_node:node_failures:1d >= @failures_per_day@",
            "{{ $labels.hostname }} failed {{ $value }} times within a day",
            "The node failed at least @failures_per_day@ times within a day, so the repair did not hold.",
            "Keep the node drained, and compare its failures in 'gpunode history'.",
        ),
        Alert(
            "GpuNodeRepeatOffender",
            "critical",
            finding("repeat_offender", ".*"),
            "{{ $labels.hostname }}: {{ $labels.key }} failed too often",
            "A part of the node failed too often within the last weeks. The node stays out of service until an "
            "administrator decides.",
            "Have the part replaced. 'gpunode history' shows its failures.",
        ),
        Alert(
            "GpuNodeTerminateScheduled",
            "warning",
            "max by ({0}, status) (gpu_node_cloud_events{{{1}}}) > 0".format(
                TARGET, 'type=~"(?i)terminate",status=~"(?i)scheduled|started"'
            ),
            "{{ $labels.hostname }}: the cloud will delete this VM",
            "The cloud has scheduled an event of type Terminate. Jobs on the node are lost when it starts.",
            "Drain the node, and copy checkpoints off its scratch. If the VM was not deleted on purpose, "
            "start a replacement.",
        ),
    ]


def of_jobs() -> List[Alert]:
    wait = "@job_seconds@s"
    return [
        Alert(
            "GpuNodeAllocatedAndIdle",
            "warning",
            "gpu_node:job_busy:ratio < @job_idle_ratio@",
            "Job {{ $labels.hpc_job }} does not use its GPUs",
            "The GPUs of the job are busy for less than @job_idle_ratio%@ % of the time, on average.",
            "Ask the owner of the job. Cancel it if it hangs.",
            wait,
        ),
        Alert(
            "GpuNodeOneGpuOfJobIdle",
            "warning",
            "gpu_node:job_busy_least:ratio < @job_idle_ratio@ and gpu_node:job_busy:ratio > @job_busy_ratio@",
            "Job {{ $labels.hpc_job }}: one of its GPUs is idle while the others work",
            "A rank of the job exited, hangs, or was never started.",
            "Run 'gpunode info' on each node of the job to find the idle GPU, and tell the owner of the job.",
            wait,
        ),
        Alert(
            "GpuNodeTensorCoresUnused",
            "info",
            "gpu_node:job_tensor_active:ratio < @job_tensor_active_ratio@ and "
            "gpu_node:job_sm_active:ratio > @job_busy_ratio@ and gpu_node:job_gpus >= @job_tensor_gpus@",
            "Job {{ $labels.hpc_job }} does not use tensor cores",
            "The GPUs of the job are busy and their tensor cores are not. Often it uses FP32 without TF32, or mixed "
            "precision is off.",
            "Tell the owner of the job about TF32 and mixed precision.",
            wait,
        ),
    ]
