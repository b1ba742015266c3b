# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job: does it use what it has, and which of its GPUs holds the others up."""

from __future__ import annotations

from typing import Any

from . import board
from .board import Board, Column
from .names import GPU, PLACE

_CHOSEN = ("cluster", "hpc_job")


def make() -> Any:
    what = "One job over all its nodes: whether it uses what it has, and which GPU holds the others up."
    found = Board(
        "job",
        "GPU job",
        what,
        _CHOSEN,
        single=("cluster", "hpc_job"),
        of={"hpc_job": "gpu_node:gpu_job", "cluster": "gpu_node:gpu_job"},
    )

    def job(metric: str) -> str:
        """Of each GPU of the job."""
        return "gpu_node:{0} * on ({1}) group_left () {2}".format(
            metric, PLACE, "max by ({0}) ({1})".format(PLACE, found.of("gpu_node:gpu_job"))
        )

    def hardware(metric: str) -> str:
        """The same of what is told of whole GPUs only, also where the job has an instance."""
        own = "max by ({0}) ({1})".format(GPU, found.of("gpu_node:gpu_job"))
        return "max by ({0}) (gpu_node:{1}) * on ({0}) {2}".format(GPU, metric, own)

    found.row("Now")
    found.stat("GPUs", "GPUs that it has.", found.of("gpu_node:job_gpus"), "none", board.PLAIN)
    found.stat(
        "Nodes",
        "Nodes that it runs on.",
        "count(count by (hostname) ({0}))".format(found.of("gpu_node:gpu_job")),
        "none",
        board.PLAIN,
    )
    found.stat(
        "Busy",
        "Share of time in which a kernel ran on its GPUs.",
        found.of("gpu_node:job_busy:ratio"),
        "percentunit",
        board.MORE_IS_BETTER,
        alert="GpuNodeAllocatedAndIdle",
    )
    found.stat(
        "Least busy GPU",
        "One far below the others waits for them, or holds them up.",
        found.of("gpu_node:job_busy_least:ratio"),
        "percentunit",
        board.MORE_IS_BETTER,
        alert="GpuNodeOneGpuOfJobIdle",
    )
    found.stat(
        "Tensor cores",
        "Share of cycles in which they worked.",
        found.of("gpu_node:job_tensor_active:ratio"),
        "percentunit",
        ((None, "orange"), (0.05, "green")),
        alert="GpuNodeTensorCoresUnused",
    )
    found.stat(
        "Energy",
        "Of its GPUs, within the last seven days.",
        found.of("gpu_node:job_energy:joules"),
        "joule",
        board.PLAIN,
        none="not told yet",
    )
    found.row("Over time")
    found.series(
        "What its GPUs do",
        "Means over all its GPUs. Busy with few active multiprocessors is small kernels; busy without tensor cores is "
        "FP32.",
        [
            (found.of("gpu_node:job_busy:ratio"), "busy"),
            (found.of("gpu_node:job_sm_active:ratio"), "multiprocessors active"),
            (found.of("gpu_node:job_tensor_active:ratio"), "tensor cores"),
            ("avg({0})".format(job("gpu_dram_active:ratio")), "bandwidth of memory"),
        ],
        "percentunit",
    )
    found.series(
        "Which arithmetic",
        "Activity of the pipes, one on the other: where the job's time goes.",
        [
            ("avg({0})".format(job("gpu_tensor_active:ratio")), "tensor"),
            ("avg({0})".format(job("gpu_fp64_active:ratio")), "FP64"),
            ("avg({0})".format(job("gpu_fp32_active:ratio")), "FP32"),
            ("avg({0})".format(job("gpu_fp16_active:ratio")), "FP16"),
        ],
        "percentunit",
        stacked=True,
    )
    found.series("Power", "Of all its GPUs.", [(found.of("gpu_node:job_power:watts"), "power")], "watt")
    found.series("Memory in use", "Of all its GPUs.", [(found.of("gpu_node:job_memory_used:bytes"), "memory")], "bytes")
    found.row("Who holds the others up")
    found.series(
        "Least busy GPUs",
        "The five GPUs of the job on which least runs.",
        [("bottomk(5, {0})".format(job("gpu_busy:ratio")), "{{hostname}} GPU {{gpu}}")],
        "percentunit",
        link="hostname",
        known=("cluster", "hostname"),
    )
    found.series(
        "Hottest GPUs",
        "The five hottest of the job; above 87 degrees they are slowed down.",
        [("topk(5, {0})".format(hardware("gpu_temperature:celsius")), "{{hostname}} GPU {{gpu}}")],
        "celsius",
        board.HEAT,
        alert="GpuNodeHot",
        link="hostname",
        known=("cluster", "hostname"),
    )
    found.series(
        "Slowest clocks",
        "The five lowest of the job: a job runs at the pace of its slowest GPU.",
        [("bottomk(5, {0})".format(hardware("gpu_sm_clock:hertz")), "{{hostname}} GPU {{gpu}}")],
        "hertz",
        link="hostname",
        known=("cluster", "hostname"),
    )
    found.series(
        "NVLink and PCIe",
        "Sent, over all its GPUs. Much PCIe and no NVLink between GPUs of a node is a wrong setting of NCCL.",
        [
            ("sum({0})".format(hardware("gpu_nvlink_sent:bytes_per_second")), "NVLink"),
            ("sum({0})".format(hardware("gpu_pcie_sent:bytes_per_second")), "PCIe"),
        ],
        "Bps",
    )
    found.table(
        "Its GPUs",
        "All of them, the least busy at the bottom.",
        ("hostname", "gpu", "GPU_I_ID"),
        (
            Column(
                "busy",
                "max by (hostname, gpu, GPU_I_ID) ({0})".format(job("gpu_busy:ratio")),
                "percentunit",
                board.MORE_IS_BETTER,
            ),
            Column(
                "tensor cores",
                "max by (hostname, gpu, GPU_I_ID) ({0})".format(job("gpu_tensor_active:ratio")),
                "percentunit",
            ),
            Column(
                "temperature",
                "max by (hostname, gpu, GPU_I_ID) ({0})".format(hardware("gpu_temperature:celsius")),
                "celsius",
                board.HEAT,
            ),
            Column("clock", "max by (hostname, gpu, GPU_I_ID) ({0})".format(hardware("gpu_sm_clock:hertz")), "hertz"),
        ),
    )
    return found.build()
