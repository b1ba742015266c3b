# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses a mounted file system, so that a refusal to unmount can name them."""

from __future__ import annotations

from typing import List, Tuple

from ...core import mounts, open_files, processes
from ...core.host import Host
from . import openers

MOST_NAMED = 5
_LAYERS = ("lowerdir", "lowerdir+", "upperdir", "workdir", "datadir+")


def of(host: Host, mount_point: str) -> List[Tuple[int, str]]:
    """Process numbers and command names with a file or folder in there."""
    found = []
    for pid in processes.pids(host):
        if any(_inside(path, mount_point) for path in open_files.of_process(host, pid)[0]):
            found.append((pid, processes.name(host, pid) or "?"))
    return found


def describe(found: List[Tuple[int, str]]) -> str:
    text = ", ".join("process {0} ({1})".format(number, command) for number, command in found[:MOST_NAMED])
    more = len(found) - MOST_NAMED
    return text + (" and {0} more".format(more) if more > 0 else "")


def _inside(path: str, mount_point: str) -> bool:
    return path == mount_point or path.startswith(mount_point + "/")


def without_process(host: Host, mount_point: str) -> List[str]:
    """Swap files, loop devices and overlays that use a file system. Layers with a relative path are not found."""
    found = [
        "swap file {0}".format(openers.plain(one.path)) for one in mounts.swaps(host) if _inside(one.path, mount_point)
    ]
    for name in host.names("/sys/block"):
        backing = host.read_line("/sys/block/{0}/loop/backing_file".format(name)) if name.startswith("loop") else None
        if backing and _inside(backing, mount_point):
            found.append("loop device {0}".format(name))
    for line in mounts.read(host):
        given = (one.partition("=") for one in line.options if line.filesystem == "overlay")
        layers = [path for name, dummy, paths in given if name in _LAYERS for path in paths.split(":")]
        if any(_inside(path, mount_point) for path in layers):
            found.append("the overlay at {0}".format(openers.plain(line.point)))
    return found[:MOST_NAMED]


def namespaces(host: Host, device: str) -> List[str]:
    """Processes whose mount namespace has a device mounted that this one has not."""
    number = host.read_line("/sys/class/block/{0}/dev".format(device))
    found = {}
    for pid in processes.pids(host):
        space = processes.namespace(host, pid, "mnt")
        if space and space not in found:
            used = any(line.device == number for line in mounts.read(host, pid))
            name = openers.plain(processes.name(host, pid))
            found[space] = "the mount namespace of process {0} ({1})".format(pid, name) if used else ""
    return [text for text in found.values() if text][:MOST_NAMED]
