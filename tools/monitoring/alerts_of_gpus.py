# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Alerts on GPUs and links."""

from __future__ import annotations

from pathlib import Path
from typing import List, NamedTuple

from ..docs.command import library
from . import rules
from .alert import NODE, Alert, codes, finding, highest_of_dcgm

ROOT = Path(__file__).resolve().parents[2]


class Xids(NamedTuple):
    """Codes by what the check gpu_xid makes of them. What an NVLink error (144 to 150) or a recovery action (154) means
    depends on registers or words in the kernel log, which only the check has: its finding fires for these."""

    fail: List[int]
    warn: List[int]
    passed: List[int]
    by_check: List[int]


def xids() -> Xids:
    data = library(ROOT, "health.data.xids")
    by_check = sorted([*data.NVLINK_XIDS, data.RECOVERY_ACTION_CHANGED])
    of = {code: data.BUCKETS[one.bucket].outcome.value for code, one in data.XIDS.items() if code not in by_check}
    fail, warn, passed = ([code for code in sorted(of) if of[code] == name] for name in ("fail", "warn", "pass"))
    return Xids(fail, warn, passed, by_check)


def of_xids() -> List[Alert]:
    known = xids()
    by, metric = "cluster, hostname, gpu, xid", "DCGM_EXP_XID_ERRORS_COUNT{{{0}}}"
    failing = highest_of_dcgm(by, metric.format('xid=~"{0}"'.format(codes(known.fail))))
    # A code that is newer than the table is a warning, as for the check.
    others = codes([0, *known.fail, *known.passed, *known.by_check])
    warning = highest_of_dcgm(by, metric.format('xid!="",xid!~"{0}"'.format(others)))
    where = "{{ $labels.hostname }}: Xid {{ $labels.xid }}{{ $labels.code }} on GPU {{ $labels.gpu }}{{ $labels.key }}"
    return [
        Alert(
            "GpuNodeXid",
            "critical",
            "({0}) > 0 or on ({1}) {2}".format(failing, NODE, finding("gpu_xid", "fail")),
            where,
            "The NVIDIA driver reported an error after which the GPU needs a reset, a reboot or a replacement.",
            "Drain the node and run 'gpunode health' on it: it shows the action for this code.",
        ),
        Alert(
            "GpuNodeXidWarning",
            "warning",
            "({0}) > 0 or on ({1}) {2}".format(warning, NODE, finding("gpu_xid", "warn")),
            where,
            "The NVIDIA driver reported an error that may need attention. The node still accepts jobs.",
            "Look up the code in NVIDIA's Xid catalogue, and open a ticket if it recurs on the same GPU.",
        ),
    ]


def of_gpus() -> List[Alert]:
    same = "on ({0})".format(NODE)
    return [
        Alert(
            "GpuNodeGpuLost",
            "critical",
            "gpu_node:gpu_up == 0 or {0} gpu_node:node_gpus < {0} group_left () "
            "max by ({1}) (max_over_time(gpu_node:node_gpus[6h]))".format(same, NODE),
            "{{ $labels.hostname }}: a GPU does not answer or is missing",
            "A GPU does not answer NVML, or the node has fewer GPUs than within the last 6 hours.",
            "Drain the node and reboot it. If the GPU is still missing, power-cycle or redeploy the machine.",
            "2m",
        ),
        Alert(
            "GpuNodeRowRemapFailed",
            "critical",
            "gpu_node:gpu_row_remap_failed == 1",
            "{{ $labels.hostname }}: row remapping failed on GPU {{ $labels.gpu }}",
            "The memory of the GPU has no spare rows left.",
            "Drain the node and have the GPU replaced. A reset does not help.",
        ),
        Alert(
            "GpuNodeRowRemapPending",
            "warning",
            "gpu_node:gpu_row_remap_pending == 1",
            "{{ $labels.hostname }}: row remapping is pending on GPU {{ $labels.gpu }}",
            "A row of memory failed. A spare row replaces it at the next reset. Until then jobs can hit the "
            "same error.",
            "Reset the GPU or reboot the node when its jobs have finished.",
            "10m",
        ),
        Alert(
            "GpuNodeUncorrectedErrors",
            "critical",
            "increase(gpu_node:gpu_uncorrected_errors_total[1h]) > 0",
            "{{ $labels.hostname }}: uncorrected memory errors on GPU {{ $labels.gpu }}",
            "The memory of the GPU had uncorrectable ECC errors within the last hour. A job on it crashed "
            "or has wrong data.",
            "Rerun the job, and reset the GPU. If the errors recur, replace it.",
        ),
        Alert(
            "GpuNodeSlowedByHardware",
            "warning",
            'gpu_node:gpu_slowed{reason=~"hardware_.*"} == 1',
            "{{ $labels.hostname }}: GPU {{ $labels.gpu }} is slowed down ({{ $labels.reason }})",
            "The hardware lowers the clocks of the GPU because of heat or insufficient power. A job waits for "
            "its slowest GPU.",
            "Check cooling and power supplies of the node, and compare with its other GPUs on the node dashboard.",
            "5m",
        ),
        Alert(
            "GpuNodeHot",
            "warning",
            "gpu_node_gpu_temperature_margin_celsius < @gpu_temperature_margin_celsius@ or on (cluster, hostname, gpu) "
            "(({0}) > @gpu_temperature_celsius@ unless on (cluster, hostname, gpu) "
            "gpu_node_gpu_temperature_margin_celsius)".format(
                highest_of_dcgm("cluster, hostname, gpu", "DCGM_FI_DEV_GPU_TEMP")
            ),
            "{{ $labels.hostname }}: GPU {{ $labels.gpu }} is almost too hot",
            "Fewer than @gpu_temperature_margin_celsius@ °C remain until the hardware slows the GPU down, or, if the "
            "GPU does not report its margin, it is hotter than @gpu_temperature_celsius@ °C.",
            "Check fans, cooling water and air filters. If the whole rack is warm, check the room.",
            "5m",
        ),
        Alert(
            "GpuNodeHotterThanSiblings",
            "warning",
            "gpu_node:gpu_temperature:celsius - {0} group_left () avg by ({1}) (gpu_node:gpu_temperature:celsius) > "
            "@gpu_temperature_above_siblings_celsius@".format(same, NODE),
            "{{ $labels.hostname }}: GPU {{ $labels.gpu }} is much hotter than the other GPUs",
            "The GPU is more than @gpu_temperature_above_siblings_celsius@ °C hotter than the mean of its node. The "
            "likely cause is the cooling of this one GPU.",
            "Have the heat sink, the cold plate or the fan of this GPU checked.",
            "15m",
        ),
    ]


def of_links() -> List[Alert]:
    gpu = "cluster, hostname, gpu"
    fields = ["DCGM_FI_DEV_NVLINK_{0}_ERROR_COUNT_TOTAL".format(kind) for kind in rules.NVLINK_ERRORS]
    # Each source and kind by itself: the sum of several falls, and looks like a reset, when one of them is missing.
    grown = highest_of_dcgm(gpu, *("increase({0}[1h])".format(one) for one in fields))
    own = " or ".join(
        "max by (cluster, hostname, pci_bus_id) "
        "(increase(gpu_node_health_figure_gpu_nvlink_{0}_errors_total[1h]))".format(kind)
        for kind in ("crc", "replay", "recovery", "packet")
    )
    replays = highest_of_dcgm(gpu, "increase(DCGM_FI_DEV_PCIE_REPLAY_COUNTER[1h])")
    was_up = " or ".join(
        ["max_over_time(gpu_node:ib_port_up[1h]) == 1"]
        + ["gpu_node:ib_port_up offset {0} == 1".format(one) for one in ("6h", "1d")]
    )
    return [
        Alert(
            "GpuNodeNvlinkErrors",
            "warning",
            # The check knows which links were counted before, so that an old error of a link is not a new one.
            "({0}) > @nvlink_errors_per_hour@ or on ({1}) (({2}) > @nvlink_errors_per_hour@ and on ({1}) {3})".format(
                grown, NODE, own, finding("gpu_nvlink", "warn|fail")
            ),
            "{{ $labels.hostname }}: NVLink errors on GPU {{ $labels.gpu }}{{ $labels.pci_bus_id }}",
            "NVLinks of the GPU had more than @nvlink_errors_per_hour@ errors in an hour. This slows collectives.",
            "Drain the node and reset all its GPUs, or reboot it. If the errors recur, redeploy the machine.",
        ),
        Alert(
            "GpuNodePcieReplays",
            "warning",
            "({0} or max by ({1}) (increase(gpu_node_gpu_pcie_replays_total[1h]))) > @pcie_replays_per_hour@".format(
                replays, gpu
            ),
            "{{ $labels.hostname }}: the PCIe link of GPU {{ $labels.gpu }} has errors",
            "The link sent more than @pcie_replays_per_hour@ packets again within an hour. Copies to and from the "
            "host become slow.",
            "Run 'gpunode health --only gpu_pcie'. Have the board reseated, or redeploy the machine.",
        ),
        Alert(
            "GpuNodeFabricDown",
            "critical",
            finding("gpu_fabric|nvswitch_sxid", "fail"),
            "{{ $labels.hostname }}: the NVSwitch fabric is down ({{ $labels.code }})",
            "The GPUs of the node cannot use NVLink through the NVSwitches. Multi-GPU jobs on it fail or are slow.",
            "Drain the node and restart nvidia-fabricmanager. If that fails, reboot the node.",
            "5m",
        ),
        Alert(
            "GpuNodeIbPortDown",
            "warning",
            "gpu_node:ib_port_up == 0 and on (cluster, hostname, device, port) ({0}) or on ({1}) {2}".format(
                was_up, NODE, finding("ib_ports", "warn|fail")
            ),
            "{{ $labels.hostname }}: InfiniBand port {{ $labels.device }}{{ $labels.key }} is down",
            "The port was active within the last day and is not now, or the check ib_ports reports it. Jobs over "
            "several nodes fail or are slow.",
            "Drain the node. Check the cable and the port of the switch; redeploy a virtual machine.",
            "5m",
        ),
        Alert(
            "GpuNodeIbPortErrors",
            "warning",
            "increase(gpu_node:ib_port_errors_total[1h]) > @ib_port_errors_per_hour@",
            "{{ $labels.hostname }}: errors on InfiniBand port {{ $labels.device }}",
            "The port had more than @ib_port_errors_per_hour@ symbol errors, receive errors or link recoveries "
            "within an hour.",
            "Clean or replace the cable, and check the port of the switch.",
        ),
    ]
