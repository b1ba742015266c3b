# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of a node for its labels. None: it was not told."""

from __future__ import annotations

from typing import Mapping, Optional, Tuple

from ...core.frozen import frozen


@frozen
class MigDevice:
    """A compute instance as programs see it. ``profile``: 1g.10gb, 1c.3g.40gb, 1g.10gb+me. ``attributes``: what NVML
    tells of it, by the suffixes of the labels."""

    profile: str
    attributes: Mapping[str, int]


@frozen
class Device:
    """A GPU. ``capability``: of CUDA. ``mig`` None: MIG is on, and its instances were not told. ``bare``: profiles of
    GPU instances without a compute instance. ``clique``: its NVLink domain, by UUID and clique; None outside of one."""

    index: int
    name: str
    memory_mib: Optional[int] = None
    capability: Optional[Tuple[int, int]] = None
    mig_capable: bool = False
    mig_enabled: bool = False
    mig: Optional[Tuple[MigDevice, ...]] = ()
    bare: Tuple[str, ...] = ()
    clique: Optional[Tuple[str, int]] = None
    pci_class: Optional[int] = None


@frozen
class VirtualGpu:
    """A vGPU in a guest: the driver of the hypervisor below it."""

    driver_version: Optional[str] = None
    driver_branch: Optional[str] = None


@frozen
class Facts:
    """``answers``: NVML does, or there is no GPU. ``complete``: each GPU told what it is. ``scratch_ready`` None: none
    was declared. ``notes``: why something was not told."""

    answers: bool = True
    complete: bool = True
    devices: Tuple[Device, ...] = ()
    driver_version: Optional[str] = None
    cuda_version: Optional[str] = None
    machine: Optional[str] = None
    virtual_gpus: Optional[Tuple[VirtualGpu, ...]] = None
    numa_nodes: Optional[int] = None
    scratch_ready: Optional[bool] = None
    scratch_gib: Optional[int] = None
    infiniband_ports: Optional[int] = None
    infiniband_gbps: Optional[float] = None
    notes: Tuple[str, ...] = ()
