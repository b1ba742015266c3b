# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the timer, at the file of the labels, and at who else writes labels of this node."""

from __future__ import annotations

import os

from ...core import declaration, folder_given, managed_files
from ...core.host import Host
from ...metrics.labels.file import of_others
from ...metrics.labels.settings import FOLDER, NAME
from .options import Desired
from .types import SECTION, UNIT, State

_GATE = "health_gate"


def observe(host: Host, desired: Desired) -> State:
    sections = declaration.read(host)
    declared = sections.get(SECTION) or {}
    gate = str((sections.get(_GATE) or {}).get("labels_file") or "")
    file = desired.file or _usual(host)
    known = dict.fromkeys(str(one) for one in (file, declared.get("file")) if one and str(one) != gate)
    return State(
        files=managed_files.observe(host, UNIT.paths, declared),
        declared=declared,
        timer=UNIT.look(host),
        file=file,
        foreign=bool(file) and managed_files.look(host, file).foreign,
        folder=folder_given.look(host, os.path.dirname(file)) if file else None,
        left=tuple(one for one in known if managed_files.look(host, one).ours),
        gate=gate,
        gfd=of_others(host, file) if file else "",
    )


def _usual(host: Host) -> str:
    return "{0}/{1}".format(FOLDER, NAME) if os.path.isdir(host.path(FOLDER)) else ""
