# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at azcopy, at the place for its work, and at what was written before."""

from __future__ import annotations

import hashlib
import os
from typing import Optional

from ...checkpoints import copying, work
from ...checkpoints.settings import SECTION
from ...core import declaration, managed_files, node_packages
from ...core.host import Host
from ...facts import topology
from .options import Desired
from .types import ENV_FILE, PROGRAM, State


def observe(host: Host, desired: Desired) -> State:
    """:raises NodeError: a package is given for other machines only."""
    declared = declaration.read(host).get(SECTION) or {}
    machine = os.uname().machine
    program = _program(host)
    version, fault = copying.version(host, host.path(program)) if program else ("", "")
    return State(
        files=managed_files.observe(host, (ENV_FILE,), declared),
        packages=node_packages.observe(host, desired.packages_for(machine), declared),
        declared=declared,
        program=program,
        version=version,
        fault=fault,
        installed=_sha256(host.path(PROGRAM)),
        work=work.base(host, desired.work_folder),
        cores=max(1, topology.look(host, ask_nvml=False).cpus.cores),
        machine=machine,
    )


def _program(host: Host) -> str:
    if host.root == "/":
        return host.which("azcopy") or ""
    return next((path for path in (PROGRAM, "/usr/bin/azcopy") if host.exists(path)), "")


def _sha256(path: str) -> Optional[str]:
    """None: there is nothing. What cannot be read is nothing of ours."""
    if not os.path.lexists(path):
        return None
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as stream:
            for piece in iter(lambda: stream.read(1 << 20), b""):
                digest.update(piece)
    except OSError:
        return ""
    return digest.hexdigest()
