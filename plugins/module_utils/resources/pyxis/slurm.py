# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Slurm that is installed: its version and its headers."""

from __future__ import annotations

import os
import re
from typing import List, Optional, Tuple

from ...core.host import Host
from ...slurm.places import program
from .types import Headers

_SECONDS = 10.0
_PROGRAMS = ("srun", "slurmd", "scontrol")


def version(host: Host) -> Optional[str]:
    """``slurm 25.11.5``, or Debian's ``slurm-wlm 22.05.8``, as ``25.11.5``."""
    for name in _PROGRAMS:
        path = program(host, name)
        if path is None:
            continue
        option = "-V" if name == "slurmd" else "--version"
        done = host.run([host.path(path), option], _SECONDS, accept=tuple(range(256)))
        found = re.search(r"\bslurm\S*\s+(\d+\.\d+\.\d+\S*)", done.stdout)
        if found:
            return found.group(1)
    return None


def headers(host: Host) -> Optional[Headers]:
    """Those beside the programs win over the distribution's."""
    folders: List[str] = []
    for name in _PROGRAMS:
        path = program(host, name)
        if path is not None:
            folders.append(os.path.dirname(os.path.dirname(host.real_path(path))) + "/include")
    for folder in dict.fromkeys([*folders, "/usr/include", "/usr/local/include", "/opt/slurm/include"]):
        if host.exists(folder + "/slurm/spank.h"):
            return Headers(folder, _header_version(host, folder))
    return None


def _header_version(host: Host, folder: str) -> Optional[Tuple[int, int, int]]:
    for name in ("slurm_version.h", "slurm.h"):
        text = host.read("{0}/slurm/{1}".format(folder, name)) or ""
        found = re.search(r"^#define\s+SLURM_VERSION_NUMBER\s+0x([0-9a-fA-F]{1,8})\b", text, re.MULTILINE)
        if found:
            number = int(found.group(1), 16)
            return number >> 16 & 0xFF, number >> 8 & 0xFF, number & 0xFF
    return None
