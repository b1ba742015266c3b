# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The alerts of the role monitoring: each fires at some series, and not at healthy ones that look almost the same."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
import yaml
from test_rules import (
    ALERTS,
    DCGM0,
    DCGM1,
    FILES,
    LONG,
    NODE,
    OURS0,
    OURS1,
    ROOT,
    asked,
    finding,
    fires,
    job,
    promtool,
    same,
    series,
    targets,
)

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import registry
from tools.monitoring import alert_limits, alerts, alerts_of_gpus
from tools.monitoring.rules import NVLINK_ERRORS

NVLINK = "DCGM_FI_DEV_NVLINK_{0}_ERROR_COUNT_TOTAL"
NVLINK_FIGURE = "gpu_node_health_figure_gpu_nvlink_crc_errors_total"
FIGURE = NODE + ',check="gpu_nvlink",key="0000:01:00.0",pci_bus_id="00000000:01:00.0"'
PORT = NODE + ',job="gpu_node",device="mlx5_0",port="1"'


def outcome(unknown, passed):
    name = "gpu_node_health_outcome"
    return [series(name, NODE + ',outcome="unknown"', unknown), series(name, NODE + ',outcome="pass"', passed)]


def checked(hostname):
    """A node that is like the first and has a verdict."""
    node = 'cluster="c1",hostname="{0}"'.format(hostname)
    timestamp = series("gpu_node_health_timestamp_seconds", node, "0+60x{0}".format(LONG))
    return [timestamp, *same("gpu_node_gpu_up", node + ',gpu="0",UUID="GPU-9"', 1)]


#: By alert: sick series, each of which makes it fire alone, and healthy ones, at which it does not.
CASES = {
    "GpuNodeXid": (
        [
            same("DCGM_EXP_XID_ERRORS_COUNT", DCGM0 + ',xid="79",window_size_in_ms="300000"', 1),
            [finding("gpu_xid")],
        ],
        [
            same("DCGM_EXP_XID_ERRORS_COUNT", DCGM0 + ',xid="31",window_size_in_ms="300000"', 3),
            # After a reset the driver reports 154 (none), and the check reads its words.
            same("DCGM_EXP_XID_ERRORS_COUNT", DCGM0 + ',xid="154",window_size_in_ms="300000"', 1),
            same("DCGM_EXP_XID_ERRORS_COUNT", DCGM0 + ',xid="79",window_size_in_ms="300000"', 0),
            # The last code stays in this one until the exporter starts again.
            same("DCGM_FI_DEV_XID_ERRORS", DCGM0, 79),
            [finding("gpu_xid", silenced="true"), finding("gpu_xid", outcome="warn")],
        ],
    ),
    "GpuNodeXidWarning": (
        [
            same("DCGM_EXP_XID_ERRORS_COUNT", DCGM0 + ',xid="94",window_size_in_ms="300000"', 1),
            # Newer than the table.
            same("DCGM_EXP_XID_ERRORS_COUNT", DCGM0 + ',xid="999",window_size_in_ms="300000"', 1),
            [finding("gpu_xid", outcome="warn")],
        ],
        [
            *(
                same("DCGM_EXP_XID_ERRORS_COUNT", DCGM0 + ',xid="{0}"'.format(code), 1)
                for code in ("", 0, 31, 63, 79, 92, 149, 154)
            ),
            [finding("gpu_xid", outcome="warn", silenced="true")],
        ],
    ),
    "GpuNodeGpuLost": (
        [
            same("gpu_node_gpu_up", OURS0, 0),
            # DCGM tells of it no more.
            same("DCGM_FI_DEV_SM_CLOCK", DCGM0, 1410) + [series("DCGM_FI_DEV_SM_CLOCK", DCGM1, "1410x110 _x20")],
        ],
        [
            same("gpu_node_gpu_up", OURS0, 1) + same("gpu_node_gpu_up", OURS1, 1),
            same("DCGM_FI_DEV_SM_CLOCK", DCGM0, 1410) + same("DCGM_FI_DEV_SM_CLOCK", DCGM1, 210),
            # MIG is switched on: from then on DCGM tells of its instances.
            same("DCGM_FI_DEV_SM_CLOCK", DCGM0, 1410)
            + [
                series("DCGM_FI_DEV_SM_CLOCK", DCGM1, "1410x110 _x20"),
                series("DCGM_FI_DEV_SM_CLOCK", DCGM1 + ',GPU_I_ID="1",GPU_I_PROFILE="3g.40gb"', "_x110 1410x20"),
            ],
        ],
    ),
    "GpuNodeRowRemapFailed": (
        [same("gpu_node_gpu_row_remap_failed", OURS0, 1), same("DCGM_FI_DEV_ROW_REMAP_FAILURE", DCGM0, 1)],
        [same("gpu_node_gpu_row_remap_failed", OURS0, 0), same("DCGM_FI_DEV_ROW_REMAP_FAILURE", DCGM0, 0)],
    ),
    "GpuNodeRowRemapPending": (
        [same("gpu_node_gpu_row_remap_pending", OURS0, 1), same("DCGM_FI_DEV_ROW_REMAP_PENDING", DCGM0, 1)],
        [same("gpu_node_gpu_row_remap_pending", OURS0, 0), same("DCGM_FI_DEV_ROW_REMAP_PENDING", DCGM0, 0)],
    ),
    "GpuNodeUncorrectedErrors": (
        [
            [series("gpu_node_gpu_ecc_errors_total", OURS0 + ',memory="dram",corrected="false"', "0x110 2x20")],
            [series("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", DCGM0, "1x110 2x20")],
        ],
        [
            [series("gpu_node_gpu_ecc_errors_total", OURS0 + ',memory="dram",corrected="true"', "0+5x130")],
            # Long ago.
            same("gpu_node_gpu_ecc_errors_total", OURS0 + ',memory="sram",corrected="false"', 7),
            same("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", DCGM0, 3),
        ],
    ),
    "GpuNodeSlowedByHardware": (
        [
            same("gpu_node_gpu_slowed", OURS0 + ',reason="hardware_thermal_slowdown"', 1),
            same("DCGM_EXP_CLOCK_EVENTS_COUNT", DCGM0 + ',clock_event="hw_power_brake",window_size_in_ms="300000"', 4),
        ],
        [
            same("gpu_node_gpu_slowed", OURS0 + ',reason="software_power_cap"', 1),
            same("DCGM_EXP_CLOCK_EVENTS_COUNT", DCGM0 + ',clock_event="gpu_idle",window_size_in_ms="300000"', 4),
            same("DCGM_EXP_CLOCK_EVENTS_COUNT", DCGM0 + ',clock_event="hw_thermal",window_size_in_ms="300000"', 0),
        ],
    ),
    "GpuNodeHot": (
        [same("gpu_node_gpu_temperature_margin_celsius", OURS0, 2), same("DCGM_FI_DEV_GPU_TEMP", DCGM0, 88)],
        [
            same("gpu_node_gpu_temperature_margin_celsius", OURS0, 12),
            same("DCGM_FI_DEV_GPU_TEMP", DCGM0, 80),
            # Where both tell, what the GPU says of itself counts.
            same("gpu_node_gpu_temperature_margin_celsius", OURS0, 7) + same("DCGM_FI_DEV_GPU_TEMP", DCGM0, 88),
            same("DCGM_FI_DEV_MEMORY_TEMP", DCGM0, 95),
        ],
    ),
    "GpuNodeHotterThanSiblings": (
        [
            [
                *same("gpu_node_gpu_temperature_celsius", OURS0, 80),
                *same("gpu_node_gpu_temperature_celsius", OURS1, 40),
            ]
        ],
        [
            [
                *same("gpu_node_gpu_temperature_celsius", OURS0, 60),
                *same("gpu_node_gpu_temperature_celsius", OURS1, 50),
            ],
            same("DCGM_FI_DEV_GPU_TEMP", DCGM0, 80),
        ],
    ),
    "GpuNodeNvlinkErrors": (
        [
            *(
                [series(NVLINK.format(kind), DCGM0, "0+1x130")]
                for kind in ("CRC_FLIT", "CRC_DATA", "REPLAY", "RECOVERY")
            ),
            [series(NVLINK_FIGURE, FIGURE, "0+1x130"), finding("gpu_nvlink", outcome="warn", code="crc_errors")],
        ],
        [
            # Since the driver was loaded, and few.
            same(NVLINK.format("CRC_DATA"), DCGM0, 4000),
            [series(NVLINK.format("REPLAY"), DCGM0, "0x110 3x20")],
            # A kind that is not reported for a while, and another source with other counts.
            same(NVLINK.format("CRC_DATA"), DCGM0, 4000)
            + [series(NVLINK.format("REPLAY"), DCGM0, "900x80 _x20 900x30")],
            [series(NVLINK.format("CRC_DATA"), DCGM0, "4000x80 _x20 4000x30"), *same(NVLINK_FIGURE, FIGURE, 12)],
            # A link reports its past for the first time, which the check knows.
            [series(NVLINK_FIGURE, FIGURE, "0x100 800x30")],
            # The counters of another job on the same GPU.
            [
                series(NVLINK.format("CRC_DATA"), DCGM0 + ',hpc_job="7"', "4000x100 _x30"),
                series(NVLINK.format("CRC_DATA"), DCGM0 + ',hpc_job="8"', "_x100 4000x30"),
            ],
        ],
    ),
    "GpuNodePcieReplays": (
        [
            [series("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", DCGM0, "0+40x130")],
            [series("gpu_node_gpu_pcie_replays_total", OURS0, "0+40x130")],
        ],
        [
            # What the specification allows for PCIe 5.0 x16.
            [series("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", DCGM0, "0+20x130")],
            same("gpu_node_gpu_pcie_replays_total", OURS0, 90000),
            [
                series("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", DCGM0, "9000x80 _x20 9000x30"),
                *same("gpu_node_gpu_pcie_replays_total", OURS0, 12),
            ],
        ],
    ),
    "GpuNodeFabricDown": (
        [[finding("gpu_fabric", code="state")], [finding("nvswitch_sxid", code="fatal")]],
        [[finding("gpu_fabric", outcome="warn")], [finding("gpu_fabric", silenced="true")], [finding("gpu_ecc")]],
    ),
    "GpuNodeIbPortDown": (
        [[series("node_infiniband_state_id", PORT, "4x100 1x30")], [finding("ib_ports", code="down", key="mlx5_0/1")]],
        [
            same("node_infiniband_state_id", PORT, 4),
            # Never used, for it has no cable.
            same("node_infiniband_state_id", PORT, 1),
            # It is trained again within minutes, as after a reboot.
            [series("node_infiniband_state_id", PORT, "4x120 2x3 4x7")],
            [finding("ib_ports", silenced="true")],
        ],
    ),
    "GpuNodeIbPortErrors": (
        [[series("node_infiniband_symbol_error_total", PORT, "0+3x130")]],
        [
            [series("node_infiniband_symbol_error_total", PORT, "0+1x130")],
            same("node_infiniband_symbol_error_total", PORT, 65535),
            [series("node_infiniband_port_data_received_bytes_total", PORT, "0+1000000x130")],
        ],
    ),
    "GpuNodeTerminateScheduled": (
        [
            same("gpu_node_cloud_events", NODE + ',type="terminate",status="scheduled"', 1),
            same("gpu_node_cloud_events", NODE + ',type="Terminate",status="Scheduled"', 1),
        ],
        [
            same("gpu_node_cloud_events", NODE + ',type="terminate",status="scheduled"', 0)
            + same("gpu_node_cloud_events", NODE + ',type="reboot",status="scheduled"', 1),
        ],
    ),
    "GpuNodeTargetDown": ([targets(9, 1)], [targets(10, 0)]),
    "GpuNodeTargetsGone": (
        [targets(7, 3), targets(0, 2), [(name, "1x60") for name, _values in targets(3, 0)]],
        [
            targets(9, 1),
            targets(1, 0),
            # A server without such targets, as beside Kubernetes.
            same("up", 'cluster="k1",instance="10.0.0.1:9400",job="kubelet"', 1),
            same("up", 'instance="10.0.0.1:9400",job="nvidia-dcgm-exporter"', 1),
            # One of several exporters is removed from the inventory.
            targets(3, 0) + [("up" + '{cluster="c1",hostname="gpu00",job="gpu_node_dcgm"}', "1x60")],
        ],
    ),
    "GpuNodeMetricsStale": (
        [
            same("gpu_node_metrics_timestamp_seconds", NODE, 0),
            same("gpu_node_metrics_timestamp_seconds", NODE, 0) + same("gpu_node_metrics_interval_seconds", NODE, 30),
        ],
        [
            [series("gpu_node_metrics_timestamp_seconds", NODE, "0+60x{0}".format(LONG))],
            # The declared interval is an hour, and the file is two hours old.
            same("gpu_node_metrics_timestamp_seconds", NODE, 0) + same("gpu_node_metrics_interval_seconds", NODE, 3600),
        ],
    ),
    "GpuNodeMetricsMissing": (
        [same("DCGM_FI_DEV_GPU_TEMP", DCGM0, 40)],
        [same("DCGM_FI_DEV_GPU_TEMP", DCGM0, 40) + same("DCGM_FI_PROF_GR_ENGINE_ACTIVE", DCGM0, 0)],
    ),
    "GpuNodeVerdictStale": (
        [
            same("gpu_node_health_timestamp_seconds", NODE, 0),
            same("gpu_node_health_timestamp_seconds", NODE, 0) + same("gpu_node_health_interval_seconds", NODE, 300),
        ],
        [
            [series("gpu_node_health_timestamp_seconds", NODE, "0+60x{0}".format(LONG))],
            # The declared interval is an hour, and the file is two hours old.
            same("gpu_node_health_timestamp_seconds", NODE, 0) + same("gpu_node_health_interval_seconds", NODE, 3600),
        ],
    ),
    "GpuNodeVerdictUnknown": (
        [outcome("1x{0}".format(LONG), "0x{0}".format(LONG))],
        [
            # While the node starts, and now and then.
            outcome("1x20 0x110", "0x20 1x110"),
            outcome("0x70 1x30 0x30", "1x70 0x30 1x30"),
        ],
    ),
    "GpuNodeVerdictMissing": (
        [
            # It had one.
            same("gpu_node_gpu_up", OURS0, 1) + [series("gpu_node_health_timestamp_seconds", NODE, "0+60x55")],
            # The others have one.
            same("gpu_node_gpu_up", OURS0, 1) + checked("gpu02") + checked("gpu03"),
        ],
        [
            # A site without the gate, and a node with another purpose than most.
            same("gpu_node_gpu_up", OURS0, 1),
            same("gpu_node_gpu_up", OURS0, 1) + checked("gpu02"),
            checked("gpu02") + checked("gpu03"),
            # Just installed.
            [(name, "_x80 1x50") for name, _values in same("gpu_node_gpu_up", OURS0, 1)]
            + checked("gpu02")
            + checked("gpu03"),
        ],
    ),
    "GpuNodeSick": (
        [same("gpu_node_health_outcome", NODE + ',outcome="fail"', 1)],
        [
            same("gpu_node_health_outcome", NODE + ',outcome="fail"', 0)
            + same("gpu_node_health_outcome", NODE + ',outcome="warn"', 1)
        ],
    ),
    "GpuNodeFailsAgain": (
        [
            [series("gpu_node_health_outcome", NODE + ',outcome="fail"', "0x20 1x20 0x40 1x50")],
            [series("gpu_node_health_outcome", NODE + ',outcome="fail"', "0x20 1x20 0x20 1x20 0x50")],
        ],
        [[series("gpu_node_health_outcome", NODE + ',outcome="fail"', "0x20 1x110")]],
    ),
    "GpuNodeRepeatOffender": (
        [[finding("repeat_offender")]],
        [[finding("repeat_offender", silenced="true")], [finding("repeat_offender", observed="true")]],
    ),
    "GpuNodeAllocatedAndIdle": ([job(7, 0.01, 0, 0)], [job(7, 0.5, 0, 0), job(7, 0, 0, 0)[:4]]),
    "GpuNodeOneGpuOfJobIdle": ([job(7, 0.9, 0.4, 0.6, last=0)], [job(7, 0.9, 0.4, 0.6), job(7, 0, 0, 0)]),
    "GpuNodeTensorCoresUnused": (
        [job(7, 0.9, 0, 0.6)],
        [job(7, 0.9, 0.2, 0.6), job(7, 0.9, 0, 0.1), job(7, 0.9, 0, 0.6, gpus=4)],
    ),
}


def test_no_alert_is_without_a_sick_and_a_healthy_series():
    assert set(CASES) == set(ALERTS)
    assert all(sick and healthy for sick, healthy in CASES.values())


@pytest.mark.parametrize("alert", sorted(ALERTS))
def test_it_fires_at_the_sick_and_not_at_the_healthy(alert, tmp_path):
    sick, healthy = CASES[alert]
    tests = [fires(alert, one, 1) for one in sick] + [fires(alert, one, 0) for one in healthy]
    status, told = promtool(tmp_path, tests)
    assert status == 0, told


@pytest.mark.parametrize("alert", sorted(ALERTS))
def test_an_alert_says_what_it_is_and_where_to_read_on(alert):
    one = ALERTS[alert]
    assert one["labels"]["severity"] in ("critical", "warning", "info")
    texts = one["annotations"]
    assert texts["summary"] and texts["description"].endswith(".") and texts["remedy"].endswith(".")
    # As these pages had it before, which no manual would.
    words = re.findall(r"\w+", " ".join(texts.values()).lower())
    assert not {"told", "tells", "sick", "lie", "lies", "stands", "nobody"} & set(words)
    page, _mark, anchor = one["annotations"]["runbook_url"].partition("#")
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text())
    assert page == galaxy["repository"] + "/blob/main/docs/runbooks.md"
    assert re.search(r"^## {0}$".format(alert), (ROOT / "docs/runbooks.md").read_text(), re.MULTILINE)
    assert anchor == alert.lower()


def test_xids_fire_as_the_check_judges_them():
    known = alerts_of_gpus.xids()
    # What cases/monitoring/xid_pass.txt of the reviews lists: codes for which the check fails, and some that it passes.
    failing = {46, 48, 54, 56, 57, 58, 62, 64, 74, 79, 81, 95, 109, 110, 119, 120, 136, 140, 143, 151, 155, 156, 158}
    failing |= {159, 167, 169, 173, 175}
    assert set(known.fail) == failing
    assert {13, 31, 43, 45, 63, 69, 92} <= set(known.passed) and 94 in known.warn and 154 in known.by_check


def lost_after_relabel(changed):
    """A partition of one node changes at minute 20, and another node loses a GPU at minute 40."""
    name, label = "gpu_node_gpu_up", 'cluster="c1",hostname="gpu0{0}",partition="{1}",gpu="{2}",UUID="GPU-{2}"'
    found = [series(name, label.format(2, "p1", 0), "1x130"), series(name, label.format(2, "p1", 1), "1x40 stale")]
    if not changed:
        return [*found, series(name, label.format(1, "p1", 0), "1x130")]
    first, second = label.format(1, "p1", 0), label.format(1, "p2", 0)
    return [*found, series(name, first, "1x20 stale"), series(name, second, "_x21 1x109")]


def test_a_changed_label_of_one_node_does_not_blind_the_alert_on_lost_gpus(tmp_path):
    expr = 'ALERTS{alertname="GpuNodeGpuLost",alertstate="firing"}'
    labels = ',severity="critical",cluster="c1",hostname="gpu02",partition="p1"}'
    expected = [(expr.rstrip("}") + labels, 1)]
    status, told = promtool(tmp_path, [asked(lost_after_relabel(one), expr, expected, 60) for one in (False, True)])
    assert status == 0, told


def healthy_fleet():
    """Three busy nodes whose GPUs DCGM and our file report, with verdicts, ports, events and jobs."""
    found = []
    for node in range(3):
        target = 'cluster="c1",hostname="gpu0{0}",profile="ndv5",partition="gpu"'.format(node)
        ours = target + ',job="gpu_node"'
        found += same("up", ours, 1) + same("up", target + ',job="gpu_node_dcgm"', 1)
        for what, interval in (("metrics", 30), ("health", 300)):
            found.append(series("gpu_node_{0}_timestamp_seconds".format(what), ours, "0+60x130"))
            found += same("gpu_node_{0}_interval_seconds".format(what), ours, interval)
        for one in ("pass", "warn", "unknown", "fail"):
            found += same("gpu_node_health_outcome", ours + ',outcome="{0}"'.format(one), int(one == "pass"))
        for kind in ("reboot", "terminate"):
            found += same("gpu_node_cloud_events", ours + ',type="{0}",status="scheduled"'.format(kind), 0)
        port = ours + ',device="mlx5_0",port="1"'
        found += same("node_infiniband_state_id", port, 4) + same("node_infiniband_symbol_error_total", port, 9)
        found += same("node_infiniband_state_id", ours + ',device="mlx5_9",port="1"', 1)
        for gpu in range(4):
            place = ',gpu="{0}",UUID="GPU-{1}{0}",modelName="H100"'.format(gpu, node)
            own, dcgm = ours + place, target + ',job="gpu_node_dcgm",hpc_job="7"' + place
            for name, value in OWN:
                found += same("gpu_node_gpu_" + name, own, value)
            found += same("gpu_node_gpu_job", own + ',hpc_job="7"', 1)
            for name, value in DCGM:
                found += same("DCGM_" + name, dcgm, value)
            found += same("DCGM_EXP_XID_ERRORS_COUNT", dcgm + ',xid="31"', 2)
    return found


#: What a busy GPU reports; counters are as high as after months.
OWN = (
    ("up", 1),
    ("busy_ratio", 0.95),
    ("sm_active_ratio", 0.8),
    ("tensor_active_ratio", 0.4),
    ("temperature_celsius", 62),
    ("temperature_margin_celsius", 25),
    ("row_remap_failed", 0),
    ("row_remap_pending", 0),
    ("pcie_replays_total", 7000),
)
DCGM = (
    ("FI_DEV_SM_CLOCK", 1980),
    ("FI_DEV_GPU_TEMP", 62),
    ("FI_PROF_GR_ENGINE_ACTIVE", 0.95),
    ("FI_PROF_SM_ACTIVE", 0.8),
    ("FI_PROF_PIPE_TENSOR_ACTIVE", 0.4),
    ("FI_DEV_FB_USED", 70000),
    ("FI_DEV_ROW_REMAP_FAILURE", 0),
    ("FI_DEV_ROW_REMAP_PENDING", 0),
    ("FI_DEV_ECC_DBE_VOL_TOTAL", 1),
    ("FI_DEV_PCIE_REPLAY_COUNTER", 8000),
    *(("FI_DEV_NVLINK_{0}_ERROR_COUNT_TOTAL".format(kind), 500) for kind in NVLINK_ERRORS),
)


def test_nothing_fires_and_nothing_is_pending_in_a_healthy_busy_fleet(tmp_path):
    every = "|".join(ALERTS)
    status, told = promtool(tmp_path, [asked(healthy_fleet(), 'ALERTS{{alertname=~"{0}"}}'.format(every), [])])
    assert status == 0, told


def test_each_threshold_is_used_and_the_template_has_all_of_them():
    text = "".join(" ".join([one.expr, one.summary, one.description, one.remedy, one.wait]) for one in alerts.alerts())
    assert alert_limits.used(text) == set(alert_limits.LIMITS)
    assert set(re.findall(r"limits\.(\w+)", alerts.template())) == set(alert_limits.LIMITS)


def test_promtool_finds_nothing_to_correct_in_the_generated_files():
    files = [str(one) for one in FILES.glob("gpu_node.*.yml")]
    assert len(files) == 2
    done = subprocess.run(["promtool", "check", "rules", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "FAILED" not in done.stdout + done.stderr, done.stdout + done.stderr


def test_the_example_for_alertmanager_is_one_that_it_takes():
    example = FILES / "alertmanager.example.yml"
    done = subprocess.run(["amtool", "check-config", str(example)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # What it leaves out for a sick node is an alert that there is.
    for rule in yaml.safe_load(example.read_text())["inhibit_rules"]:
        for matcher in rule["source_matchers"] + rule["target_matchers"]:
            pattern = re.fullmatch(r'alertname=~?"(.*)"', matcher).group(1)
            assert [name for name in ALERTS if re.fullmatch(pattern, name)], matcher


COMMANDS = [
    line.strip().partition("  #")[0]
    for line in (ROOT / "docs/runbooks.md").read_text().splitlines()
    if line.startswith("    gpunode ")
]


@pytest.mark.parametrize("command", sorted(set(COMMANDS)))
def test_what_a_runbook_has_one_type_is_a_command(command):
    words = shlex.split(command.partition(" | ")[0])[1:]
    arguments = main.parser().parse_args([word for word in words if word != "PATTERN"] + ["x"] * words.count("PATTERN"))
    registry.known(getattr(arguments, "only", None) or [] if arguments.command == "health" else [])
