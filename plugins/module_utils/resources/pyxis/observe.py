# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at Slurm, at the plugin and at plugstack.conf."""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import time
from typing import List, Optional, Tuple

from ...core import declaration, managed_files
from ...core.frozen import replaced
from ...core.host import Host
from ...slurm import commands, places, slurm_conf, slurmd, this_node
from . import plugstack
from .options import Desired
from .types import DROP_IN, FILE_NAME, PLUGIN, PLUGSTACK, SECTION, Headers, Other, Plugstack, State

_BUILD_FOLDERS = ("/usr/bin", "/usr/local/bin", "/bin")


def observe(host: Host, desired: Desired) -> State:
    declared = declaration.read(host).get(SECTION) or {}
    found = _plugstack(host, desired)
    files = managed_files.observe(host, (DROP_IN, found.path), declared, share=True)
    return State(
        slurm_version=commands.version(host),
        headers=_headers(host),
        missing_tools=_missing_tools(host),
        plugin_sha256=sha256(host.path(PLUGIN)),
        files=replaced(files, missing_folders=_with_plugin_folder(host, files.missing_folders)),
        declared=declared,
        plugstack=found,
        slurmd_started=slurmd.started(host, time.time()),
        changed_at=_changed_at(host, found.path),
    )


def _plugstack(host: Host, desired: Desired) -> Plugstack:
    here = this_node.here(host)
    place, text = here.place, here.text
    named = slurm_conf.option(text, "PlugStackConfig") if text is not None else None
    # The files in the cache of a configless slurmd come from slurmctld.
    usual = place.beside(posixpath.basename(PLUGSTACK)) if not place.configless else None
    path = desired.plugstack or (named if named and named.startswith("/") else usual or PLUGSTACK)
    loaded = [(file, line.split()[1]) for file, line in plugstack.entries(host, path)]
    others = [
        # A name without a folder is looked for in Slurm's PluginDir, which is Slurm's to know.
        Other(file, plugin, not plugin.startswith("/") or host.exists(plugin))
        for file, plugin in dict.fromkeys(loaded)
        if file != DROP_IN and plugin.endswith(FILE_NAME)
    ]
    return Plugstack(path, plugstack.includes(host, path, DROP_IN), tuple(others), place.configless)


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


def _headers(host: Host) -> Optional[Headers]:
    """Those beside the programs win over the distribution's."""
    folders: List[str] = []
    for name in ("srun", "slurmd", "scontrol"):
        path = places.program(host, name)
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
