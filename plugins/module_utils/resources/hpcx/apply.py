# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the steps on HPC-X."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Mapping

from ...core import artefact, declaration, managed_files, trees
from ...core.host import Host
from ...core.resource import NodeError, Step
from ...core.trees import partial, remove, said, sync, take_away
from .observe import MARK, Mark, looks_like_hpcx
from .options import Desired
from .types import InstallTree, RemoveTree
from .unpack import unpack


def _install_tree(host: Host, action: InstallTree, desired: Desired) -> None:
    with said(action.path, "installed"):
        _install(host, action, desired)


def _remove_tree(host: Host, action: RemoveTree, dummy: Desired) -> None:
    with said(action.path, "removed"):
        take_away(host, action.path)


STEPS: Mapping[type, Step] = {
    **declaration.STEPS,
    **managed_files.STEPS,
    **trees.STEPS,
    InstallTree: _install_tree,
    RemoveTree: _remove_tree,
}


def _install(host: Host, action: InstallTree, desired: Desired) -> None:
    if desired.archive is None:
        raise NodeError(action.path, "its source is not given", "give source and sha256")
    half, downloads = _beside(action.path, action.version), _beside(action.path, "download")
    try:
        archive = artefact.fetch(host, desired.archive, downloads, desired.timeout_seconds)
        remove(host.path(half))
        top = unpack(host.path(archive), host.path(half), action.source)
        _check(host, half, top, action)
        # On the disk before the mark, and the mark before the name: what has the name is whole, whenever power goes.
        sync(host.path(half))
        MARK.write(host, Mark(action.path, action.version, action.sha256, int(time.time())), half)
        os.rename(host.path(half), host.path(action.path))
        sync(os.path.dirname(host.path(action.path)))
    finally:
        for rest in (half, downloads):
            with contextlib.suppress(OSError):
                remove(host.path(rest))


def _check(host: Host, half: str, top: str, action: InstallTree) -> None:
    told = re.match(r"hpcx-v?(\d+(?:\.\d+)+)", top)
    if not looks_like_hpcx(host, half) or not os.path.isdir(host.path(half + "/ucx")):
        reason = "it holds no HPC-X (hpcx-init.sh, ompi/bin/mpirun and ucx in one folder)"
        raise NodeError(action.source, reason, "give the URL and the sha256 of HPC-X's own tarball")
    if told and not re.match(re.escape(told.group(1)) + r"(?![0-9.])", action.version):
        reason = "it holds HPC-X {0}, not {1}".format(told.group(1), action.version)
        raise NodeError(action.source, reason, "give version: {0}".format(told.group(1)))


def _beside(path: str, name: str) -> str:
    return partial(path.rsplit("/", 1)[0], name)
