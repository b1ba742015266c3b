# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services that a node for jobs needs, each where it is enabled."""

from __future__ import annotations

from typing import Tuple

from ...core.frozen import frozen
from ...facts import daemons
from ..types import Outcome

_SLURM = "Slurm Workload Manager, Quick Start Administrator Guide"
_NVIDIA_DRIVER = "NVIDIA Driver Installation Guide, 'Post-installation Actions'"


@frozen
class Service:
    """``without`` says what does not work while it does not run. ``process``: its /proc/PID/comm, for a service that
    may run outside systemd, as in a container of the GPU operator. ``of_node``: one in a container does not serve the
    node: its socket is in the file system of the container."""

    unit: str
    without: str
    outcome: Outcome
    source: str
    process: str = ""
    of_node: bool = False


SERVICES: Tuple[Service, ...] = (
    Service("slurmd.service", "no job can start here", Outcome.FAIL, _SLURM),
    Service("munge.service", "Slurm trusts no message of this node", Outcome.FAIL, _SLURM, "munged", of_node=True),
    Service(
        "nvidia-fabricmanager.service",
        "GPUs behind NVSwitches start no CUDA program",
        Outcome.FAIL,
        "NVIDIA Fabric Manager User Guide, 'Fabric Manager Startup Options'",
        daemons.FABRIC_MANAGER,
    ),
    Service(
        "nvidia-imex.service",
        "GPUs of other nodes cannot be reached over NVLink",
        Outcome.FAIL,
        "NVIDIA IMEX Service Guide",
        daemons.IMEX,
    ),
    Service(
        "nvidia-persistenced.service",
        "the driver is loaded anew for each program, and settings of GPUs are lost",
        Outcome.WARN,
        _NVIDIA_DRIVER,
        daemons.PERSISTENCED,
    ),
    Service(
        "nvidia-dcgm.service",
        "nothing watches the GPUs for DCGM's metrics",
        Outcome.WARN,
        "NVIDIA DCGM User Guide",
        daemons.DCGM,
    ),
    Service("kubelet.service", "no pod can start here", Outcome.FAIL, "Kubernetes, Components: kubelet"),
    Service("containerd.service", "no container of it can start", Outcome.WARN, "containerd.io, Getting started"),
    Service("docker.service", "no container of it can start", Outcome.WARN, "Docker Engine, Install"),
    Service(
        "openibd.service", "the drivers of NVIDIA's network cards are not loaded", Outcome.WARN, "NVIDIA MLNX_OFED"
    ),
)

_OURS = "this collection, docs/architecture.md"
# Units of ours, by the resource in their names; others of ours get the last line.
OWN: Tuple[Service, ...] = (
    Service("gpu-node-nvme_scratch.service", "the scratch is not there after a boot", Outcome.FAIL, _OURS),
    Service("gpu-node-cloud_events.service", "what the cloud announces is not followed", Outcome.WARN, _OURS),
    Service("gpu-node-mig_layout.service", "the declared MIG instances are not there", Outcome.FAIL, _OURS),
    Service("gpu-node-gpu_settings.service", "GPUs do not have their declared settings", Outcome.WARN, _OURS),
    Service("gpu-node-", "a part of what was declared is not done", Outcome.WARN, _OURS),
)
