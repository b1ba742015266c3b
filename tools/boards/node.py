# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node: what is wrong with one node, and whether it is slow."""

from __future__ import annotations

from typing import Any

from . import looks
from .board import Board
from .looks import Column
from .names import DISKS, NETWORK_CHECKS, SLOW, or_zero, per_gpu, since

_CHOSEN = ("cluster", "hostname", "gpu")
_GPU = "GPU {{gpu}}"
_WAYS = ("sent", "received")


def make() -> Any:
    what = "One node: what is wrong with it, and whether heat, clocks, network or storage make it slow."
    found = Board("node", "GPU node", what, _CHOSEN, single=("cluster", "hostname"))
    node = found.where(without=("gpu",))
    found.row("Now")
    found.outcome(
        "Verdict",
        "Outcome of the last checks; unknown if the verdict is stale.",
        "max(gpu_node:node_outcome{{{0}}})".format(node),
        alert="GpuNodeSick",
    )
    found.stat(
        "Checked",
        "Age of the verdict.",
        "time() - max(gpu_node_health_timestamp_seconds{{{0}}})".format(node),
        "s",
        ((None, "green"), (900, "orange"), (1800, "red")),
        alert="GpuNodeVerdictStale",
        none="no verdict",
    )
    found.stat(
        "GPUs",
        "GPUs that answer.",
        "sum({0})".format(found.of("gpu_node:gpu_up")),
        "none",
        looks.PLAIN,
        alert="GpuNodeGpuLost",
    )
    found.stat(
        "Jobs",
        "Jobs and pods that have a GPU of this node.",
        or_zero("count(count by (hpc_job) (gpu_node:gpu_job{{{0}}}))".format(node), found.of("gpu_node:gpu_up")),
        "none",
        looks.PLAIN,
    )
    found.stat(
        "Failures in 7 days",
        "How often the verdict changed to fail within seven days.",
        "max(gpu_node:node_failures:7d{{{0}}})".format(node),
        "none",
        looks.NONE_IS_BEST,
        alert="GpuNodeFailsAgain",
        none="no verdicts",
    )
    found.stat(
        "Power", "Power of all its GPUs.", "sum({0})".format(found.of("gpu_node:gpu_power:watts")), "watt", looks.PLAIN
    )
    found.row("Health")
    finding = "gpu_node_health_finding{{{0}}}".format(node)
    found.table(
        "Findings",
        "Present findings, with those that are silenced or only observed. Failures first.",
        ("outcome", "check", "code", "key", "action", "silenced", "observed"),
        (Column("first seen", since(finding), "dateTimeAsIso", how="min"),),
        none="No findings: no check of this node warns or fails.",
        alert="GpuNodeSick",
        sort="outcome",
        ascending=True,
    )
    found.states(
        "Checks that did not pass",
        "Each check that warned, failed or could not run.",
        "max by (check) (gpu_node_health{{{0}}}) > 0".format(node),
        "{{check}}",
        looks.OUTCOMES,
        alert="GpuNodeSick",
        none="All checks passed.",
    )
    found.states(
        "Network checks",
        "InfiniBand, Ethernet, NVLink and the fabric.",
        'max by (check) (gpu_node_health{{{0},check=~"{1}"}})'.format(node, NETWORK_CHECKS),
        "{{check}}",
        looks.OUTCOMES,
        none="No network check applies to this node.",
    )
    found.row("Work")
    found.series(
        "Busy",
        "Share of time in which a kernel ran. All GPUs of a training job look alike.",
        [(found.of("gpu_node:whole_gpu_busy:ratio"), _GPU)],
        "percentunit",
    )
    found.series(
        "Tensor cores",
        "Share of cycles in which the tensor cores worked.",
        [(per_gpu(found.of("gpu_node:gpu_tensor_active:ratio")), _GPU)],
        "percentunit",
        alert="GpuNodeTensorCoresUnused",
    )
    found.series(
        "Memory in use",
        "GPU memory in use, by GPU.",
        [("sum by (gpu) ({0})".format(found.of("gpu_node:gpu_memory_used:bytes")), _GPU)],
        "bytes",
    )
    found.series(
        "Memory bandwidth",
        "Share of cycles in which GPU memory was read or written.",
        [(per_gpu(found.of("gpu_node:gpu_dram_active:ratio")), _GPU)],
        "percentunit",
    )
    found.row("Heat and clocks")
    found.series(
        "Temperature",
        "One GPU above the others has a fault of its own; all GPUs too hot mean a fault of the cooling.",
        [
            (found.of("gpu_node:gpu_temperature:celsius"), _GPU),
            (found.of("gpu_node:gpu_memory_temperature:celsius"), "memory of " + _GPU),
        ],
        "celsius",
        looks.HEAT,
        alert="GpuNodeHot",
    )
    found.series(
        "Clock",
        "A GPU below the others under the same load is slowed down.",
        [(found.of("gpu_node:gpu_sm_clock:hertz"), _GPU)],
        "hertz",
    )
    found.series(
        "Power by GPU",
        "A GPU at its limit is slowed down by it.",
        [
            (found.of("gpu_node:gpu_power:watts"), _GPU),
            ("max by (cluster, hostname) ({0})".format(found.of("gpu_node:gpu_power_limit:watts")), "limit"),
        ],
        "watt",
    )
    found.states(
        "Slowed GPUs",
        "When the clocks of a GPU were reduced, and why.",
        "max by (gpu, reason) ({0})".format(found.of("gpu_node:gpu_slowed", SLOW)),
        "GPU {{gpu}}: {{reason}}",
        {1: ("slowed", "orange")},
        alert="GpuNodeSlowedByHardware",
        none="No GPU was slowed down.",
    )
    found.row("Network and storage")
    found.series(
        "InfiniBand and RoCE",
        "Bytes per second of each port, sent and received. The ports of a node carry the same under a training job.",
        [
            (
                " + ".join("gpu_node:ib_port_{0}:bytes_per_second{{{1}}}".format(way, node) for way in _WAYS),
                "{{device}} port {{port}}",
            )
        ],
        "Bps",
        none="No InfiniBand or RoCE port is reported.",
    )
    found.table(
        "Ports",
        "State of each port, and its errors within the last hour.",
        ("device", "port"),
        (
            Column("state", "gpu_node:ib_port_up{{{0}}}".format(node), "none", values=looks.PORT_STATES),
            Column(
                "errors, 1 h",
                "increase(gpu_node:ib_port_errors_total{{{0}}}[1h])".format(node),
                "none",
                looks.NONE_IS_BEST,
            ),
        ),
        none="No InfiniBand or RoCE port is reported.",
        width=12,
        height=8,
        ascending=True,
    )
    found.series(
        "NVLink",
        "Bytes per second of each GPU, sent and received.",
        [(found.of("gpu_node:gpu_nvlink_{0}:bytes_per_second".format(way)), _GPU + " " + way) for way in _WAYS],
        "Bps",
        none="No NVLink activity is reported.",
    )
    found.series(
        "PCIe",
        "Bytes per second of each GPU: to the network, the disks and the host.",
        [(found.of("gpu_node:gpu_pcie_{0}:bytes_per_second".format(way)), _GPU + " " + way) for way in _WAYS],
        "Bps",
        none="No PCIe activity is reported.",
    )
    found.series(
        "Local disks",
        "Bytes per second of each disk.",
        [
            ("rate(node_disk_{0}_bytes_total{{{1},{2}}}[5m])".format(way, node, DISKS), "{{device}} " + text)
            for way, text in (("read", "read"), ("written", "written"))
        ],
        "Bps",
        none="Node exporter does not report disks of this node.",
    )
    found.series(
        "NFS",
        "Requests per second, and retransmissions: the server or the network does not answer in time.",
        [
            (
                'sum by (method) (rate(node_nfs_requests_total{{{0},method=~"Read|Write"}}[5m]))'.format(node),
                "{{method}}",
            ),
            ("rate(node_nfs_rpc_retransmissions_total{{{0}}}[5m])".format(node), "retransmissions"),
        ],
        "reqps",
        none="This node uses no NFS.",
    )
    return found.build()
