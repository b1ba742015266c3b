# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the packages of BeeGFS, the kernel, and what an earlier run wrote."""

from __future__ import annotations

import os
from typing import Optional, Tuple

from ...core import declaration, managed_files
from ...core.host import Host
from ...slurm import places, slurm_conf, syntax
from ...slurm.beeond import node, note
from ...slurm.commands import Commands
from .options import Desired
from .types import AUTH, CLIENT, FORCED, OFED, PATHS, SECTION, State

_PROGRAMS = ("/opt/beegfs/sbin/beeond", "/usr/bin/beeond")


def observe(host: Host, desired: Desired) -> State:
    sections = declaration.read(host)
    declared = sections.get(SECTION) or {}
    missing: Tuple[str, ...] = () if any(host.exists(one) for one in _PROGRAMS) else ("beeond",)
    missing += () if host.exists(CLIENT) else ("beegfs-client",)
    kernel = host.read_line("/proc/sys/kernel/osrelease") or ""
    point_there = os.path.lexists(host.path(desired.mount_point))
    return State(
        slurm=Commands(host).installed,
        missing=missing,
        release=node.release(host),
        kernel=kernel,
        headers=host.exists("/lib/modules/{0}/build/Makefile".format(kernel)),
        module=host.exists(node.MODULES.format(kernel)),
        forced=host.exists(FORCED),
        ofed=_ofed(host),
        point_there=point_there,
        point_wrong=node.point_wrong(host, desired.mount_point) if point_there else "",
        auth=_auth(host, desired),
        jobs=tuple(one.job for one in note.all_of(host)),
        timeout_seconds=_timeout(host),
        hooks="slurm_hooks" in sections,
        files=managed_files.observe(host, PATHS, declared),
        declared=declared,
    )


def _ofed(host: Host) -> str:
    try:
        found = os.stat(host.path(OFED + "/Module.symvers"))
    except OSError:
        return ""
    return "{0}@{1}".format(host.real_path(OFED), int(found.st_mtime))


def _auth(host: Host, desired: Desired) -> str:
    text = host.read(AUTH)
    if text is None:
        return "missing"
    found = os.stat(host.path(AUTH))
    if desired.auth_secret and text != desired.auth_secret + "\n":
        return "other"
    return "same" if found.st_mode & 0o777 == 0o400 and found.st_uid == os.geteuid() else "open"


def _timeout(host: Host) -> Optional[int]:
    place = places.find(host)
    text = syntax.read(place.path, host.read) if place.path else None
    value = (slurm_conf.option(text, "PrologEpilogTimeout") or "").split(" ")[0] if text is not None else ""
    return int(value) if value.isdigit() else None
