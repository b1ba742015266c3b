# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses a mounted file system, so that a refusal to unmount can name them."""

from __future__ import annotations

import os
from typing import Iterator, List, Tuple

from ...core import system_processes
from ...core.host import Host
from . import openers, parse

MOST_NAMED = 5
_LAYERS = ("lowerdir", "lowerdir+", "upperdir", "workdir", "datadir+")


def _links(folder: str) -> Iterator[str]:
    for name in ("cwd", "root", "exe"):
        yield os.path.join(folder, name)
    try:
        for handle in os.listdir(os.path.join(folder, "fd")):
            yield os.path.join(folder, "fd", handle)
    except OSError:
        return


def _uses(folder: str, mount_point: str) -> bool:
    for link in _links(folder):
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target == mount_point or target.startswith(mount_point + "/"):
            return True
    return False


def of(host: Host, mount_point: str) -> List[Tuple[int, str]]:
    """Process numbers and command names with a file or folder in there."""
    found = []
    for name in host.names("/proc"):
        if name.isdigit() and _uses(host.path("/proc/" + name), mount_point):
            found.append((int(name), system_processes.name(host, name) or "?"))
    return sorted(found)


def describe(processes: List[Tuple[int, str]]) -> str:
    text = ", ".join("process {0} ({1})".format(number, command) for number, command in processes[:MOST_NAMED])
    more = len(processes) - MOST_NAMED
    return text + (" and {0} more".format(more) if more > 0 else "")


def _inside(path: str, mount_point: str) -> bool:
    return path == mount_point or path.startswith(mount_point + "/")


def without_process(host: Host, mount_point: str) -> List[str]:
    """Swap files, loop devices and overlays that use a file system. Layers with a relative path are not found."""
    found = [
        "swap file {0}".format(openers.plain(path))
        for path in parse.swaps(host.read("/proc/swaps") or "")
        if _inside(path, mount_point)
    ]
    for name in host.names("/sys/block"):
        backing = host.read_line("/sys/block/{0}/loop/backing_file".format(name)) if name.startswith("loop") else None
        if backing and _inside(backing, mount_point):
            found.append("loop device {0}".format(name))
    for line in parse.mountinfo(host.read("/proc/self/mountinfo") or ""):
        given = (one.partition("=") for one in line.options if line.filesystem == "overlay")
        layers = [path for name, dummy, paths in given if name in _LAYERS for path in paths.split(":")]
        if any(_inside(path, mount_point) for path in layers):
            found.append("the overlay at {0}".format(openers.plain(line.mount_point)))
    return found[:MOST_NAMED]


def namespaces(host: Host, device: str) -> List[str]:
    """Processes whose mount namespace has a device mounted that this one has not."""
    number = host.read_line("/sys/class/block/{0}/dev".format(device))
    found = {}
    for pid in sorted((name for name in host.names("/proc") if name.isdigit()), key=int):
        try:
            space = os.readlink(host.path("/proc/{0}/ns/mnt".format(pid)))
        except OSError:
            continue
        if space not in found:
            lines = parse.mountinfo(host.read("/proc/{0}/mountinfo".format(pid)) or "")
            used = any(line.number == number for line in lines)
            name = openers.plain(system_processes.name(host, pid))
            found[space] = "the mount namespace of process {0} ({1})".format(pid, name) if used else ""
    return [text for text in found.values() if text][:MOST_NAMED]
