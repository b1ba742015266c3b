# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at Slurm, at the plugin and at plugstack.conf."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import time
from typing import Optional, Tuple

from .. import declaration, managed_files
from ..host import Host
from ..slurm_files import conf, program
from . import plugstack, slurm
from .plan import plan
from .types import DROP_IN, FILE_NAME, IDLE, PLUGIN, PLUGSTACK, SECTION, Desired, Plugstack, RestartSlurmd, State

_SLURM_CONF = "/etc/slurm/slurm.conf"
# What a slurmd without files of its own keeps, when the controller hands them out.
_CONFIGLESS = ("/run/slurm/conf/slurm.conf", "/var/spool/slurmd/conf-cache/slurm.conf")
_BUILD_FOLDERS = ("/usr/bin", "/usr/local/bin", "/bin")


def observe(host: Host, desired: Desired) -> State:
    """Whether jobs run here is asked only when the plan would restart slurmd if none does."""
    state = _look(host, desired)
    idle = plan(dataclasses.replace(state, jobs=IDLE), desired)
    if any(isinstance(action, RestartSlurmd) for action in idle.actions):
        return dataclasses.replace(state, jobs=slurm.jobs(host))
    return state


def _look(host: Host, desired: Desired) -> State:
    declared = declaration.read(host).get(SECTION) or {}
    found = _plugstack(host, desired)
    files = managed_files.observe(host, (DROP_IN, found.path), declared, share=True)
    return State(
        slurm_version=slurm.version(host),
        headers=slurm.headers(host),
        missing_tools=_missing_tools(host),
        plugin_sha256=sha256(host.path(PLUGIN)),
        files=dataclasses.replace(files, missing_folders=_with_plugin_folder(host, files.missing_folders)),
        declared=declared,
        plugstack=found,
        slurmd_started=slurm.slurmd_started(host, time.time()),
        changed_at=_changed_at(host, found.path),
        systemd=program(host, "systemctl") is not None,
    )


def _plugstack(host: Host, desired: Desired) -> Plugstack:
    text = conf.with_includes(_SLURM_CONF, host.read)
    path = desired.plugstack or plugstack.configured(text or "") or PLUGSTACK
    others = [
        file for file, line in plugstack.entries(host, path) if file != DROP_IN and line.split()[1].endswith(FILE_NAME)
    ]
    configless = text is None and any(host.exists(one) for one in _CONFIGLESS)
    return Plugstack(path, plugstack.includes(host, path, DROP_IN), tuple(dict.fromkeys(others)), configless)


def _missing_tools(host: Host) -> Tuple[str, ...]:
    def there(name: str) -> bool:
        return any(host.exists("{0}/{1}".format(folder, name)) for folder in _BUILD_FOLDERS)

    missing = [name for name in ("make", "tar", "strip") if not there(name)]
    return tuple(missing if there("cc") or there("gcc") else ["gcc", *missing])


def _with_plugin_folder(host: Host, missing: Tuple[str, ...]) -> Tuple[str, ...]:
    """The plugin is no text file, so its folder is not among those of managed files."""
    folder, chain = os.path.dirname(PLUGIN), []
    while folder != "/" and not host.exists(folder):
        chain.append(folder)
        folder = os.path.dirname(folder)
    return missing + tuple(one for one in reversed(chain) if one not in missing)


def sha256(path: str) -> Optional[str]:
    try:
        with open(path, "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except OSError:
        return None


def _changed_at(host: Host, plugstack_path: str) -> float:
    times = [0.0]
    for path in (PLUGIN, DROP_IN, plugstack_path):
        try:
            times.append(os.stat(host.path(path)).st_mtime)
        except OSError:
            continue
    return max(times)
