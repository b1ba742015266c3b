# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the machine, and at what was declared for it."""

from __future__ import annotations

from ...core import declaration
from ...core.host import Host
from ...core.resource import NodeError
from ...facts import sysfs, topology
from ...facts.profile import cloud
from ...facts.profile.types import AUTO, SECTION, Evidence
from .options import Desired
from .types import State


def observe(host: Host, desired: Desired) -> State:
    """:raises NodeError: the captured tree is none, or the declaration cannot be read."""
    if not host.exists("/sys"):
        reason = "there is no folder sys in it"
        raise NodeError("root {0}".format(desired.root), reason, "give the top of a captured tree")
    sections = declaration.read(host)
    declared = sections.get(SECTION)
    if not desired.present:
        return State(None, declared)
    dmi = sysfs.dmi(host)
    # A profile named explicitly needs no cloud to choose it.
    mode = desired.metadata if desired.name == AUTO or desired.metadata == cloud.ALWAYS else cloud.NEVER
    metadata = cloud.read(mode, dmi, desired.metadata_url, desired.metadata_timeout_seconds)
    seen = topology.look(host, desired.ask_nvml, desired.call_timeout_seconds)
    return State(Evidence(tuple(sorted(dmi.items())), metadata, seen), declared, tuple(sorted(sections)))
