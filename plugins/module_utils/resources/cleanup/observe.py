# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the timer and its section of the declaration."""

from __future__ import annotations

from ...core import declaration, managed_files
from ...core.host import Host
from ...jobs.leftovers.types import SECTION
from .types import UNIT, State


def observe(host: Host, dummy: object) -> State:
    declared = declaration.read(host).get(SECTION) or {}
    files = managed_files.observe(host, UNIT.paths, declared)
    return State(files, declared, UNIT.look(host))
