# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checkpoint in which the kubelet keeps the devices of its plugins, and which pods have some.

``{"Data": {"PodDeviceEntries": [{"PodUID": uid, "ResourceName": resource, ...}], "RegisteredDevices": {resource:
[id]}}, "Checksum": n}`` (kubernetes, pkg/kubelet/cm/devicemanager/checkpoint, which has no version: what is read
otherwise is unknown). A pod that has ended stays in it until devices are given out again.
"""

from __future__ import annotations

import json
import os
import stat
from typing import Any, Callable, Mapping, Optional, Tuple, TypeVar

from ..core.host import Host
from ..core.resource import NodeError

# The place is a constant of the kubelet, which no --root-dir changes.
FOLDER = "/var/lib/kubelet/device-plugins"
PATH = FOLDER + "/kubelet_internal_checkpoint"
PREFIX = "nvidia.com/"
# It has the answer of the plugin for each container that has a device: some KiB each, and 110 pods by default.
_MOST_BYTES = 8 << 20
_LOOK = "look at the kubelet"

Told = TypeVar("Told")


def read(host: Host, remedy: str = _LOOK) -> Optional[Tuple[str, float]]:
    """The text, and when it was written; None: there is none. The kubelet makes it anew with each device that changes,
    by a rename.

    :raises NodeError: it cannot be read.
    """
    try:
        handle = os.open(host.path(PATH), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NodeError(PATH, "it cannot be opened ({0})".format(error.strerror), remedy) from error
    with os.fdopen(handle, "rb") as stream:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise NodeError(PATH, "it is no file", remedy)
        content = stream.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise NodeError(PATH, "it is larger than {0} MiB".format(_MOST_BYTES >> 20), remedy)
    return content.decode("utf-8", "replace"), found.st_mtime


def parse(text: str, remedy: str = _LOOK) -> Mapping[str, Tuple[str, ...]]:
    """The ids of the devices of each resource. Pure.

    :raises NodeError: it is not what a kubelet writes.
    """

    def told(data: Any) -> Mapping[str, Tuple[str, ...]]:
        found = {resource: ids or [] for resource, ids in (data["RegisteredDevices"] or {}).items()}
        if not all(isinstance(ids, list) and all(isinstance(one, str) for one in ids) for ids in found.values()):
            raise TypeError
        return {resource: tuple(ids) for resource, ids in found.items()}

    return _told(text, told, remedy)


def pods(text: str, remedy: str = _LOOK) -> Tuple[Tuple[str, str], ...]:
    """(UID of a pod, resource) of the devices of NVIDIA that were given out. Pure.

    :raises NodeError: it is not what a kubelet writes.
    """

    def told(data: Any) -> Tuple[Tuple[str, str], ...]:
        found = [(one["PodUID"], one["ResourceName"]) for one in data["PodDeviceEntries"] or []]
        if not all(isinstance(word, str) and word for one in found for word in one):
            raise TypeError
        return tuple(sorted({one for one in found if one[1].startswith(PREFIX)}))

    return _told(text, told, remedy)


def _told(text: str, told: Callable[[Any], Told], remedy: str) -> Told:
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NodeError(PATH, "it is no JSON", remedy) from error
    try:
        # Go writes a list or a map without entries as null, too.
        return told(content["Data"])
    except (AttributeError, KeyError, TypeError):
        raise NodeError(PATH, "it tells the devices in a form that is not known", remedy) from None
