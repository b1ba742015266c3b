# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node: is this node slow because of heat, clocks or the network, and what is wrong with it."""

from __future__ import annotations

from typing import Any

from . import board
from .board import Board
from .names import NETWORK_CHECKS, or_zero, per_gpu

_CHOSEN = ("cluster", "hostname", "gpu")


def make() -> Any:
    what = "One node: whether it is slow because of heat, clocks or the network, and what is wrong with it."
    found = Board("node", "GPU node", what, _CHOSEN, single=("cluster", "hostname"))
    whole = 'GPU_I_ID=""'
    node = found.where(without=("gpu",))
    found.row("Now")
    found.outcome(
        "Verdict",
        "The outcome of its last checks.",
        'max(gpu_node_health_outcome{{{0},outcome="fail"}} * 3 or gpu_node_health_outcome{{{0},outcome="unknown"}} * 2 '
        'or gpu_node_health_outcome{{{0},outcome="warn"}} or gpu_node_health_outcome{{{0},outcome="pass"}} * 0)'.format(
            node
        ),
        alert="GpuNodeSick",
    )
    found.stat(
        "Checked",
        "How long ago. What it said then may not hold any more.",
        "time() - max(gpu_node_health_timestamp_seconds{{{0}}})".format(node),
        "s",
        ((None, "green"), (900, "orange"), (1800, "red")),
        alert="GpuNodeVerdictStale",
    )
    found.stat(
        "GPUs",
        "GPUs that answer.",
        "sum({0})".format(found.of("gpu_node:gpu_up", whole)),
        "none",
        board.PLAIN,
        alert="GpuNodeGpuLost",
    )
    found.stat(
        "Jobs",
        "Jobs that have a GPU here.",
        or_zero("count(count by (hpc_job) (gpu_node:gpu_job{{{0}}}))".format(node), found.of("gpu_node:gpu_up")),
        "none",
        board.PLAIN,
    )
    found.stat(
        "Failures in 7 days",
        "How often it was sick and well again.",
        "max(gpu_node:node_failures:7d{{{0}}})".format(node),
        "none",
        board.NONE_IS_BEST,
        alert="GpuNodeFailsAgain",
        none="not told",
    )
    found.stat(
        "Power", "Of all its GPUs.", "sum({0})".format(found.of("gpu_node:gpu_power:watts", whole)), "watt", board.PLAIN
    )
    found.row("Work")
    found.series(
        "Busy",
        "Share of time in which a kernel ran. All GPUs of a training job look alike.",
        [(found.of("gpu_node:gpu_busy:ratio", whole), "GPU {{gpu}}")],
        "percentunit",
    )
    found.series(
        "Tensor cores",
        "Share of cycles in which they worked.",
        [(found.of("gpu_node:gpu_tensor_active:ratio", whole), "GPU {{gpu}}")],
        "percentunit",
        alert="GpuNodeTensorCoresUnused",
    )
    found.series(
        "Memory in use",
        "Of each GPU.",
        [(per_gpu(found.of("gpu_node:gpu_memory_used:bytes", whole)), "GPU {{gpu}}")],
        "bytes",
    )
    found.series(
        "Bandwidth of memory",
        "Share of cycles in which memory was read or written.",
        [(found.of("gpu_node:gpu_dram_active:ratio", whole), "GPU {{gpu}}")],
        "percentunit",
    )
    found.row("Heat and clocks")
    found.series(
        "Temperature",
        "One GPU above its siblings has a problem of its own; all of them have one of the room.",
        [
            (per_gpu(found.of("gpu_node:gpu_temperature:celsius")), "GPU {{gpu}}"),
            (per_gpu(found.of("gpu_node:gpu_memory_temperature:celsius")), "memory of GPU {{gpu}}"),
        ],
        "celsius",
        board.HEAT,
        alert="GpuNodeHot",
    )
    found.series(
        "Clock",
        "A GPU below its siblings under the same load is slowed down.",
        [(per_gpu(found.of("gpu_node:gpu_sm_clock:hertz")), "GPU {{gpu}}")],
        "hertz",
    )
    found.series(
        "Power of each GPU",
        "A GPU at its limit is slowed down by that.",
        [
            (per_gpu(found.of("gpu_node:gpu_power:watts")), "GPU {{gpu}}"),
            ("max by (cluster, hostname) ({0})".format(found.of("gpu_node:gpu_power_limit:watts")), "limit"),
        ],
        "watt",
    )
    found.states(
        "Slowed down",
        "When, and why.",
        "max by (gpu, reason) ({0})".format(found.of("gpu_node:gpu_slowed", 'reason=~"hardware.*|software.*"')),
        "GPU {{gpu}}: {{reason}}",
        {1: ("slowed", "orange")},
        alert="GpuNodeSlowedByHardware",
    )
    found.row("Network")
    found.series(
        "NVLink",
        "Sent and received, of each GPU.",
        [
            (found.of("gpu_node:gpu_nvlink_sent:bytes_per_second", whole), "GPU {{gpu}} sent"),
            (found.of("gpu_node:gpu_nvlink_received:bytes_per_second", whole), "GPU {{gpu}} received"),
        ],
        "Bps",
    )
    found.series(
        "PCIe",
        "Sent and received, of each GPU: to the network, the disks and the host.",
        [
            (found.of("gpu_node:gpu_pcie_sent:bytes_per_second", whole), "GPU {{gpu}} sent"),
            (found.of("gpu_node:gpu_pcie_received:bytes_per_second", whole), "GPU {{gpu}} received"),
        ],
        "Bps",
    )
    found.row("Health")
    found.states(
        "Checks that are not well",
        "Each check that warned, failed or could not be made.",
        "max by (check) (gpu_node_health{{{0}}}) > 0".format(node),
        "{{check}}",
        board.OUTCOMES,
        alert="GpuNodeSick",
    )
    found.states(
        "The network's checks",
        "InfiniBand, Ethernet, NVLink and the fabric.",
        'max by (check) (gpu_node_health{{{0},check=~"{1}"}})'.format(node, NETWORK_CHECKS),
        "{{check}}",
        board.OUTCOMES,
    )
    found.table(
        "Findings",
        "What is wrong now, also what is silenced or only observed.",
        ("check", "code", "key", "outcome", "action", "silenced", "observed"),
        (
            board.Column(
                "found",
                "max by (check, code, key, outcome, action, silenced, observed) "
                "(gpu_node_health_finding{{{0}}})".format(node),
                "none",
            ),
        ),
        alert="GpuNodeSick",
    )
    return found.build()
