# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the steps."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator, Mapping

from ...core import declaration, managed_files
from ...core.host import Host
from ...core.resource import NodeError, Step
from ...core.systemd import units
from .observe import sysctl_path
from .options import Desired
from .types import KeepAside, PutBack, SetSysctl


def _keep_aside(host: Host, action: KeepAside, dummy: Desired) -> None:
    _rename(host, action.path, action.aside)


def _put_back(host: Host, action: PutBack, dummy: Desired) -> None:
    _rename(host, action.aside, action.path)


def _set_sysctl(host: Host, action: SetSysctl, dummy: Desired) -> None:
    with _said(action.name, "set"), open(host.path(sysctl_path(action.name)), "w", encoding="utf-8") as stream:
        stream.write(action.value + "\n")


STEPS: Mapping[type, Step] = {
    **declaration.STEPS,
    **managed_files.STEPS,
    **units.STEPS,
    KeepAside: _keep_aside,
    PutBack: _put_back,
    SetSysctl: _set_sysctl,
}


def _rename(host: Host, path: str, target: str) -> None:
    """Within one folder: the file keeps its owner, mode and times, and is never there twice or not at all."""
    with _said(path, "renamed"):
        if os.path.lexists(host.path(target)):
            raise NodeError(target, "it is there already", "look at both files and move one of them away")
        os.rename(host.path(path), host.path(target))


@contextlib.contextmanager
def _said(thing: str, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NodeError(thing, "it could not be {0} ({1})".format(what, error.strerror), "run it as root") from error
