# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recording rules of nodes and of their ports and links, by promtool."""

from __future__ import annotations

import pytest
from test_rules import DCGM0, G0, LONG, NODE, OURS0, asked, promtool, same, series

OUTCOMES = ("pass", "warn", "unknown", "fail")


def verdict(outcome, timestamp, interval=None):
    found = []
    for one in OUTCOMES:
        found += same("gpu_node_health_outcome", NODE + ',instance="x",outcome="{0}"'.format(one), int(one == outcome))
    found.append(series("gpu_node_health_timestamp_seconds", NODE + ',instance="x"', timestamp))
    return found + (same("gpu_node_health_interval_seconds", NODE, interval) if interval else [])


@pytest.mark.parametrize(
    ("given", "value"),
    [
        *((verdict(one, "0+60x130"), place) for place, one in enumerate(OUTCOMES)),
        (verdict("pass", "0x130"), 2),
        (verdict("fail", "0x130"), 2),
        # Checked every hour by declaration: two hours are not stale.
        (verdict("fail", "0x130", 3600), 3),
        (verdict("pass", "0x130", 300), 2),
        # The clock of the node was a year ahead, and then the gate stopped.
        (verdict("pass", "31536000x130"), 2),
    ],
)
def test_the_outcome_of_a_node_is_a_number_and_a_stale_one_is_unknown(given, value, tmp_path):
    name = "gpu_node:node_outcome"
    status, told = promtool(tmp_path, [asked(given, name, [(name + "{" + NODE + "}", value)])])
    assert status == 0, told


def test_a_node_without_a_verdict_has_no_outcome(tmp_path):
    status, told = promtool(tmp_path, [asked(same("gpu_node_gpu_up", OURS0, 1), "gpu_node:node_outcome", [])])
    assert status == 0, told


def test_nvlink_errors_of_a_gpu_are_summed_over_kinds_and_not_over_jobs(tmp_path):
    fields = "DCGM_FI_DEV_NVLINK_{0}_ERROR_COUNT_TOTAL"
    given = []
    for number in (7, 8):
        for kind, count in (("CRC_FLIT", 1), ("CRC_DATA", 2), ("REPLAY", 4), ("RECOVERY", 8)):
            given += same(fields.format(kind), DCGM0 + ',hpc_job="{0}"'.format(number), count)
    name = "gpu_node:gpu_nvlink_errors_total"
    expected = [(name + "{" + G0 + "}", 15)]
    figure = "gpu_node_health_figure_gpu_nvlink_{0}_errors_total"
    address = NODE + ',job="gpu_node",check="gpu_nvlink",key="0000:01:00.0",pci_bus_id="00000000:01:00.0"'
    ours = same("gpu_node_gpu_up", OURS0, 1)
    for kind, count in (("crc", 3), ("replay", 5), ("recovery", 7), ("packet", 11)):
        ours += same(figure.format(kind), address, count)
    tests = [asked(given, name, expected), asked(ours, name, [(name + "{" + G0 + "}", 26)])]
    tests.append(asked(given + ours, name, expected))
    status, told = promtool(tmp_path, tests)
    assert status == 0, told


def test_ports_are_those_of_node_exporter(tmp_path):
    port = 'cluster="c1",hostname="gpu01",device="mlx5_0",port="1"'
    more = port + ',job="gpu_node",instance="10.0.0.1:9100",profile="ndv5"'
    given = [
        *same("node_infiniband_state_id", more, 4),
        *same("node_infiniband_state_id", more.replace("mlx5_0", "mlx5_1"), 1),
        *same("node_infiniband_symbol_error_total", more, 2),
        *same("node_infiniband_link_downed_total", more, 3),
        *same("node_infiniband_port_packets_received_total", more, 99),
        series("node_infiniband_port_data_transmitted_bytes_total", more, "0+6000x{0}".format(LONG)),
        series("node_infiniband_port_data_received_bytes_total", more, "0+1200x{0}".format(LONG)),
    ]
    names = ["gpu_node:ib_port_" + name for name in ("up", "errors_total", "sent:bytes_per_second")]
    names.append("gpu_node:ib_port_received:bytes_per_second")
    labels = "{0}{{{1}}}"
    expected = [[(labels.format(names[0], port), 1), (labels.format(names[0], port.replace("x5_0", "x5_1")), 0)]]
    expected += [[(labels.format(name, port), value)] for name, value in zip(names[1:], (5, 100, 20))]
    tests = [asked(given, name, samples) for name, samples in zip(names, expected)]
    status, told = promtool(tmp_path, tests)
    assert status == 0, told


def test_series_without_a_host_are_in_no_rule(tmp_path):
    """The chart of node exporter has a scrape job of its own for the same files, without the labels of the node."""
    port = 'device="mlx5_0",port="1"'
    given = verdict("fail", "0+60x130") + same("gpu_node_gpu_up", OURS0, 1)
    second = [(name.replace(NODE, 'namespace="monitoring"'), values) for name, values in given]
    second += same("node_infiniband_state_id", port, 4) + same("node_infiniband_symbol_error_total", port, 7)
    tests = [
        asked(given + second, "count(gpu_node:node_sick)", [("{}", 1)]),
        asked(given + second, "count(gpu_node:node_gpus)", [("{}", 1)]),
        asked(second, "count({__name__=~'gpu_node:.*'})", []),
    ]
    status, told = promtool(tmp_path, tests)
    assert status == 0, told
