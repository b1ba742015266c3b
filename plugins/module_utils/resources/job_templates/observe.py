# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the machine, at its profile and at the folder of the scripts."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from ...core import declaration, managed_files, mounts
from ...core.host import Host
from ...facts import topology
from ...facts.profile.types import SECTION as PROFILE
from ...slurm import scratch
from .options import Desired
from .scripts import NAMES
from .types import SECTION, State


def observe(host: Host, desired: Desired) -> State:
    """NVML is asked where its binding is at hand; elsewhere the GPUs are those of the PCI bus, in the same order."""
    sections = declaration.read(host)
    declared = sections.get(SECTION) or {}
    paths = ["{0}/{1}".format(desired.folder, name) for name in NAMES]
    return State(
        files=managed_files.observe(host, paths, declared, share=True),
        declared=declared,
        topology=topology.look(host) if desired.present else None,
        profile=sections.get(PROFILE) or {},
        scratch=_scratch(host, sections.get(scratch.SECTION)),
    )


def _scratch(host: Host, declared: Optional[Mapping[str, Any]]) -> str:
    """Where it is mounted; else where it is to be."""
    places = scratch.places(declared)
    found = scratch.mounted(host, places)
    return found.point if found is not None else next(iter(places), mounts.SCRATCH)
