# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at enroot, its folders, the kernel and the machine."""

from __future__ import annotations

import contextlib
import filecmp
import os
from typing import Dict, List, Mapping, Optional, Tuple

from ...core import declaration, managed_files, node_packages, sysctl
from ...core.host import Host
from ...facts.nvml import pci
from ...facts.sysfs import infiniband_devices
from ...slurm import scratch
from ...slurm.places import program as slurm_program
from ...slurm.types import SECTION as HOOKS_SECTION
from ...slurm.user_folders import SECTION
from . import kernel, settings
from .options import Desired
from .types import (
    EXTRA_HOOKS,
    EXTRA_HOOKS_FOLDER,
    PACKAGED_PROFILES,
    PATHS,
    PROFILE,
    SETTINGS_FILE,
    SYSCTL_FILE,
    Kernel,
    Link,
    State,
)

_FOLDERS = ("/usr/bin", "/usr/local/bin", "/usr/sbin", "/sbin", "/bin")
_LOADED = "/sys/kernel/security/apparmor/profiles"
_MELLANOX = 0x15B3


def observe(host: Host, desired: Desired) -> State:
    machine = os.uname().machine
    sections = declaration.read(host)
    declared = sections.get(SECTION) or {}
    return State(
        machine=machine,
        installed=find(host, "enroot") is not None,
        files=managed_files.observe(host, (*PATHS, *(Link(name).path for name in EXTRA_HOOKS.values())), declared),
        packages=node_packages.observe(host, desired.packages_for(machine), declared, also=("enroot",)),
        declared=declared,
        links=tuple(_link(host, name) for name in EXTRA_HOOKS.values()),
        kernel=_kernel(host),
        scratch=_scratch(host, sections.get(scratch.SECTION)),
        slurmd=slurm_program(host, "slurmd") is not None,
        hooks_declared=HOOKS_SECTION in sections,
        gpus=len(pci.gpus(host)),
        mellanox=_mellanox(host),
        other_rdma=_other_rdma(host),
        nvidia_container_cli=find(host, "nvidia-container-cli"),
        earlier=_earlier(host),
    )


def find(host: Host, program: str) -> Optional[str]:
    """The path of a program on the node, which may be a captured one."""
    return next((path for path in ("{0}/{1}".format(one, program) for one in _FOLDERS) if host.exists(path)), None)


def _scratch(host: Host, declared: Optional[Dict[str, object]]) -> Optional[str]:
    places = scratch.places(declared)
    found = scratch.mounted(host, places)
    return found.point if found is not None else next(iter(places), None)


def _mellanox(host: Host) -> int:
    """Devices that the hook 99-mellanox.sh finds; soft ones and those of others it passes over."""
    return sum(one.function is not None and one.function.vendor == _MELLANOX for one in infiniband_devices(host))


def _other_rdma(host: Host) -> Tuple[str, ...]:
    """RDMA devices of other vendors: EFA, and RoCE of Broadcom or Intel."""
    found = [one for one in infiniband_devices(host) if one.function is not None]
    return tuple(one.name for one in found if one.function is not None and one.function.vendor != _MELLANOX)


def _link(host: Host, name: str) -> Link:
    link = Link(name, source_exists=host.exists("{0}/{1}".format(EXTRA_HOOKS_FOLDER, name)))
    path = host.path(link.path)
    if not os.path.lexists(path):
        return link
    ours = os.path.islink(path) and os.readlink(path) == link.target
    if not ours and not os.path.islink(path) and link.source_exists:
        with contextlib.suppress(OSError):
            if filecmp.cmp(path, host.path(link.target), shallow=False):
                return Link(name, "copy")
    return Link(name, "ours" if ours else "foreign", link.source_exists)


def _earlier(host: Host) -> Tuple[Tuple[str, Mapping[str, str]], ...]:
    """What enroot reads before our file: enroot.conf, then the folder in the order of names."""
    folder, own = os.path.split(SETTINGS_FILE)
    paths = ["/etc/enroot/enroot.conf"]
    paths += ["{0}/{1}".format(folder, name) for name in host.names(folder) if name.endswith(".conf") and name < own]
    found = [(path, settings.values_of(host.read(path) or "")) for path in paths]
    return tuple((path, values) for path, values in found if values)


def _kernel(host: Host) -> Kernel:
    values = {key: host.read_line(kernel.path(key)) for key in kernel.KEYS}
    loaded = host.read(_LOADED)
    return Kernel(
        values={key: value for key, value in values.items() if value is not None},
        overridden=tuple(_overridden(host)),
        restricted=host.read_line(kernel.path(kernel.RESTRICTION)) == "1",
        packaged_profile=any(host.exists(path) for path in PACKAGED_PROFILES),
        profile_loaded=None if loaded is None else any(line.split(" ")[0] == PROFILE for line in loaded.splitlines()),
        parser=find(host, "apparmor_parser"),
    )


def _overridden(host: Host) -> List[Tuple[str, str]]:
    """(key, file) where a file that is read after ours asks for too little."""
    found, lines = [], sysctl.lines(host)
    for key, least in ((one[0], one[1]) for one in kernel.NEEDS):
        line, later = sysctl.winner(lines, key, SYSCTL_FILE)
        if line is not None and later and not kernel.enough(line.value, least):
            found.append((key, line.path))
    return found
