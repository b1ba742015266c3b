# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fabric: whether InfiniBand, NVLink and PCIe are healthy, over all nodes."""

from __future__ import annotations

from typing import Any

from . import looks
from .board import Board
from .looks import Column
from .names import COUNTS, GPU, NETWORK_CHECKS, PORT, or_zero, ports_down, since, worst

_CHOSEN = ("cluster", "hostname")


def make() -> Any:
    what = "Whether the fabric is healthy: InfiniBand and RoCE ports, NVLink, NVSwitches and PCIe of all nodes."
    found = Board("fabric", "GPU fabric", what, _CHOSEN, since="now-24h")
    ports, down = found.of("gpu_node:ib_port_up"), ports_down(found.where())
    port_errors = "increase({0}[1h]) > 0".format(found.of("gpu_node:ib_port_errors_total"))
    nvlink = "increase({0}[1h]) > 0".format(found.of("gpu_node:gpu_nvlink_errors_total"))
    replays = "increase({0}[1h]) > 0".format(found.of("gpu_node:gpu_pcie_replays_total"))
    finding = found.of("gpu_node_health_finding", COUNTS, 'check=~"{0}"'.format(NETWORK_CHECKS))
    found.row("Now")
    found.stat(
        "Ports up",
        "InfiniBand and RoCE ports that are active.",
        "sum({0})".format(ports),
        "none",
        looks.PLAIN,
        none="no ports",
    )
    found.stat(
        "Ports down",
        "Ports that were active within seven days and are not now.",
        or_zero("count({0})".format(down), ports),
        "none",
        looks.NONE_IS_GOOD,
        none="no ports",
    )
    found.stat(
        "Ports with errors",
        "Ports whose error counters grew within the last hour.",
        or_zero("count({0})".format(port_errors), ports),
        "none",
        looks.NONE_IS_BEST,
        none="no ports",
    )
    found.stat(
        "NVLink errors",
        "GPUs whose NVLink error counters grew within the last hour.",
        or_zero("count({0})".format(nvlink), found.of("gpu_node:gpu_nvlink_errors_total")),
        "none",
        looks.NONE_IS_GOOD,
        none="not reported",
    )
    found.stat(
        "PCIe replays",
        "GPUs whose PCIe link sent packets again within the last hour.",
        or_zero("count({0})".format(replays), found.of("gpu_node:gpu_pcie_replays_total")),
        "none",
        looks.NONE_IS_BEST,
        none="not reported",
    )
    found.stat(
        "Findings",
        "Findings of the network, NVLink and NVSwitch checks.",
        or_zero("count({0})".format(finding), found.of("gpu_node:node_outcome")),
        "none",
        looks.NONE_IS_GOOD,
        none="no verdicts",
    )
    found.row("What to do")
    found.table(
        "Findings of the fabric",
        "InfiniBand, Ethernet, NVLink, NVSwitches and the fabric manager: what to do, and since when.",
        ("outcome", "cluster", "hostname", "check", "code", "key", "action"),
        (Column("first seen", since(finding), "dateTimeAsIso", how="min"),),
        none="No findings: no check of the fabric warns or fails.",
        alert="GpuNodeSick",
        sort="outcome",
        ascending=True,
    )
    found.table(
        "Ports down or with errors",
        "Ports that went down within seven days, and errors of the last hour. Several ports of one adapter number on "
        "many nodes point to a switch; one port points to its cable or adapter.",
        tuple(PORT.split(", ")),
        (
            Column(
                "state",
                "{0} or {1} and on ({2}) ({3})".format(down, ports, PORT, port_errors),
                "none",
                values=looks.PORT_STATES,
            ),
            Column("errors, 1 h", port_errors, "none", looks.NONE_IS_BEST),
        ),
        none="All ports that were active within seven days are active, without errors.",
        width=12,
        ascending=True,
    )
    found.table(
        "GPUs with link errors",
        "NVLink errors and PCIe replays of the last hour.",
        tuple(GPU.split(", ")),
        (
            Column("NVLink errors, 1 h", nvlink, "none", looks.NONE_IS_BEST),
            Column("PCIe replays, 1 h", replays, "none", looks.NONE_IS_BEST),
        ),
        none="No GPU had NVLink errors or PCIe replays within the last hour.",
        width=12,
    )
    found.row("Over time")
    found.series(
        "Ports by state",
        "InfiniBand and RoCE ports. Ports that were never active, such as those without a cable, are not active.",
        [("sum({0})".format(ports), "up"), ("count({0} == 0)".format(ports), "not active")],
        "none",
        stacked=True,
        none="No InfiniBand or RoCE port is reported.",
    )
    found.series(
        "Traffic of all ports",
        "InfiniBand and RoCE, over all ports.",
        [
            ("sum({0})".format(found.of("gpu_node:ib_port_{0}:bytes_per_second".format(way))), way)
            for way in ("sent", "received")
        ],
        "Bps",
        none="No InfiniBand or RoCE port is reported.",
    )
    rate = "sum by ({0}) (rate({1}[5m])) > 0"
    found.series(
        "Port errors",
        "Errors per second of the ten ports with the most errors.",
        [
            (
                worst(10, rate.format(PORT, found.of("gpu_node:ib_port_errors_total")), PORT),
                "{{hostname}} {{device}} port {{port}}",
            )
        ],
        "suffix:errors/s",
        link="hostname",
        known=("cluster", "hostname"),
        none="No port had errors in the time range.",
    )
    found.series(
        "NVLink errors by GPU",
        "Errors per second of the ten GPUs with the most errors.",
        [
            (
                worst(10, rate.format(GPU, found.of("gpu_node:gpu_nvlink_errors_total")), GPU),
                "{{hostname}} GPU {{gpu}}",
            )
        ],
        "suffix:errors/s",
        link="hostname",
        known=("cluster", "hostname"),
        none="No GPU had NVLink errors in the time range.",
    )
    return found.build()
