# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one step on enroot."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Mapping

from ...core import declaration, managed_files, node_packages
from ...core.host import Host
from ...core.resource import NodeError, Step
from . import kernel
from .types import PROFILE, PROFILE_FILE, LoadProfile, MakeLink, RemoveLink, SetKernelValue

_UNLOAD = "/sys/kernel/security/apparmor/.remove"


def remove_link(host: Host, action: RemoveLink, dummy: object = None) -> None:
    # Somebody may have put a file of theirs there by now.
    with contextlib.suppress(OSError):
        if os.readlink(host.path(action.path)) == action.target:
            host.remove(action.path)


def set_kernel_value(host: Host, action: SetKernelValue, dummy: object = None) -> None:
    _write(host, kernel.path(action.key), action.value + "\n")


def load_profile(host: Host, action: LoadProfile, dummy: object = None) -> None:
    if action.load:
        host.run(["apparmor_parser", "--replace", host.path(PROFILE_FILE)])
    else:
        _write(host, _UNLOAD, PROFILE)


def make_link(host: Host, action: MakeLink, dummy: object = None) -> None:
    """In one step: a hooks folder is read by every container that starts."""
    if not host.exists(action.target):
        return
    path = host.path(action.path)
    try:
        folder = tempfile.mkdtemp(prefix=".gpu_node-", dir=os.path.dirname(path))
        try:
            os.symlink(action.target, os.path.join(folder, "link"))
            os.replace(os.path.join(folder, "link"), path)
        finally:
            os.rmdir(folder)
    except OSError as error:
        raise NodeError(path, "it could not be linked ({0})".format(error.strerror), "run it as root") from error


def _write(host: Host, path: str, text: str) -> None:
    """Into a file of the kernel, which cannot be replaced by another."""
    try:
        with open(host.path(path), "w", encoding="ascii") as stream:
            stream.write(text)
    except OSError as error:
        raise NodeError(
            path,
            "the kernel does not take {0!r} ({1})".format(text.strip(), error.strerror),
            "set it where this node's kernel is set up (in a container: on its host), or set user_namespaces to false",
        ) from error


STEPS: Mapping[type, Step] = {
    **declaration.STEPS,
    **managed_files.STEPS,
    **node_packages.STEPS,
    MakeLink: make_link,
    RemoveLink: remove_link,
    SetKernelValue: set_kernel_value,
    LoadProfile: load_profile,
}
