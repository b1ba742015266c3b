# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that are written, and where the folders of users are. Pure."""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Tuple

from ...core.frozen import replaced
from ...core.managed_files import MARKER, Wanted
from ...slurm.user_folders import Template
from . import settings
from .options import ALWAYS, NEVER, Desired
from .types import (
    DEVICE_HOOKS,
    ENVIRON_FILE,
    MOUNTS_FILE,
    PROFILE,
    PROFILE_FILE,
    SETTINGS_FILE,
    SYSCTL_FILE,
    State,
)

_LOST = " Changes will be lost."
# Sockets and the small tmpfs of each running container; on memory, as the rest of /run.
_RUNTIME = "/run/enroot/user-{uid}"
_PURPOSES = {
    "runtime": "ENROOT_RUNTIME_PATH",
    "cache": "ENROOT_CACHE_PATH",
    "data": "ENROOT_DATA_PATH",
    "temp": "ENROOT_TEMP_PATH",
}


def base(state: State, desired: Desired) -> str:
    """Where the folders of all users lie."""
    scratch = desired.scratch or state.scratch
    return scratch + "/enroot" if scratch else desired.fallback


def folders(state: State, desired: Desired) -> Tuple[Template, ...]:
    """None where nobody would make them: without slurmd there is no prolog, and enroot's own are in the user's home.

    A folder that is set before our file is read is somebody else's to make and to remove (CycleCloud 4 sets all four).
    """
    if desired.user_folders == NEVER or (desired.user_folders != ALWAYS and not state.slurmd):
        return ()
    top = base(state, desired)
    every = (
        Template("runtime", _RUNTIME, _RUNTIME.rsplit("/", 1)[0]),
        Template("cache", top + "/cache/{uid}", top, remove=not desired.keep_cache),
        Template("data", top + "/data/{uid}", top),
        Template("temp", top + "/temp/{uid}", top),
    )
    return tuple(one for one in every if _PURPOSES[one.purpose] not in state.theirs)


def values(state: State, desired: Desired) -> Dict[str, str]:
    """Key and value of enroot.conf: folders, then what suits the machine, then the site's word."""
    every = {_PURPOSES[one.purpose]: one.for_shell() for one in folders(state, desired)}
    every.update(settings.DEFAULTS)
    for hook, key in DEVICE_HOOKS.items():
        if hook not in desired.hooks:
            every[key] = "void"
    # Said on a machine without such devices, the hook would mount what is not there and no container would start.
    if "mellanox" in desired.hooks and state.mellanox:
        every[DEVICE_HOOKS["mellanox"]] = "all"
    # The hooks of enroot do not add other RDMA devices, and without them NCCL uses TCP and reports no error.
    if state.other_rdma:
        every["ENROOT_RESTRICT_DEV"] = "no"
    every.update(desired.settings)
    # What is set before stays as it is; a line of ours for it would only look as if it counted.
    return {key: value for key, value in every.items() if value and key not in state.theirs}


def adopted(state: State, desired: Desired) -> Tuple[str, ...]:
    """One sentence a file for what it sets otherwise than ours would."""
    alone = replaced(state, earlier=())
    ours = values(alone, desired)
    notes: List[str] = []
    for path, given in state.earlier:
        keys = [
            "{0} {1}".format(key, value)
            for key, value in given.items()
            if state.theirs[key][0] == path and key in ours and not settings.same(value, ours[key])
        ]
        if not keys:
            continue
        text = "{0} is read before ours and wins with {1}; to have ours, take that out there"
        if any(key in given for key in _PURPOSES.values()) and len(folders(alone, desired)) != len(
            folders(state, desired)
        ):
            text += "; the containers in its folders are not removed after a job"
        notes.append(text.format(path, ", ".join(keys)))
    return tuple(notes)


def wanted(state: State, desired: Desired, kernel: Mapping[str, str], profile: bool) -> Tuple[Wanted, ...]:
    files = [Wanted(SETTINGS_FILE, settings_text(values(state, desired)))]
    for path, text in (
        (ENVIRON_FILE, environ_text(desired.environment)),
        (MOUNTS_FILE, mounts_text(desired.mounts)),
        (SYSCTL_FILE, sysctl_text(kernel)),
        (PROFILE_FILE, PROFILE_TEXT if profile else None),
    ):
        if text is not None:
            files.append(Wanted(path, text))
    return tuple(files)


def settings_text(given: Mapping[str, str]) -> str:
    lines = [
        MARKER + _LOST,
        "# enroot keeps the first value that it finds: enroot.conf, and the files here that come before this one,",
        "# win. $(id -u) is the user who starts the container.",
    ]
    return "\n".join(lines + ["{0} {1}".format(key, given[key]) for key in sorted(given)]) + "\n"


def environ_text(given: Mapping[str, str]) -> Optional[str]:
    if not given:
        return None
    return "\n".join([MARKER + _LOST, *("{0}={1}".format(key, given[key]) for key in sorted(given))]) + "\n"


def mounts_text(paths: Tuple[str, ...]) -> Optional[str]:
    """x-create=auto makes the place only where there is something to mount; what is missing is passed over. The last
    number has it done before the hooks run."""
    if not paths:
        return None
    options = "x-create=auto,bind,ro,nosuid,nodev,noexec,private,nofail,silent"
    return "\n".join([MARKER + _LOST, *("{0} {0} none {1} 0 -1".format(path, options) for path in paths)]) + "\n"


def sysctl_text(given: Mapping[str, str]) -> Optional[str]:
    if not given:
        return None
    lines: List[str] = [MARKER + _LOST, "# Containers of users need user and mount namespaces."]
    return "\n".join(lines + ["{0} = {1}".format(key, given[key]) for key in sorted(given)]) + "\n"


# Nothing is confined: the profile only names the one program that may make user namespaces.
PROFILE_TEXT = """{0} Changes will be lost; additions go into local/{1}.
abi <abi/4.0>,
include <tunables/global>

profile {1} /usr/bin/enroot-nsenter flags=(unconfined) {{
  userns create,

  include if exists <local/{1}>
}}
""".format(MARKER, PROFILE)
