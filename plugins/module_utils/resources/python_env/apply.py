# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the steps on environments."""

from __future__ import annotations

import os
import stat
from typing import Mapping

from ...core import declaration, managed_files, trees
from ...core.environments import read_mark
from ...core.host import Host
from ...core.open_files import named_by
from ...core.resource import NodeError, Step
from .build import build, remove_half
from .observe import inputs_of, worked_on
from .options import Desired
from .plan import WORKED_ON
from .resolve import wishes
from .types import BuildTree, MakeTop, RemoveHalf, RemoveTree


def _make_top(host: Host, action: MakeTop, dummy: Desired) -> None:
    """Where every user may make folders one may have taken the name since it was looked at."""
    with trees.said(action.path, "made"):
        path = host.path(action.path)
        try:
            os.mkdir(path, 0o755)
            os.chmod(path, 0o755)  # noqa: S103  (for all users of the node, whatever our umask is)
        except FileExistsError as error:
            found = os.lstat(path)
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
                reason = "somebody has made it in the meantime"
                raise NodeError(action.path, reason, "move it away, or give another folder") from error


def _build_tree(host: Host, action: BuildTree, desired: Desired) -> None:
    if read_mark(host, action.path) is not None:
        return  # by now another node has built it
    if worked_on(host, action.path):
        raise NodeError(action.path, WORKED_ON, "wait for it to end, then run it again")
    found = wishes(inputs_of(host, desired), desired)[0]
    wish = next((one for one in found if one.digest == action.digest and one.name == action.name), None)
    if wish is None:
        raise NodeError("environment {0}".format(action.name), "what it is made of has just changed", "run it again")
    build(host, wish, action.path.rsplit("/", 1)[0], desired)


def _remove_tree(host: Host, action: RemoveTree, dummy: Desired) -> None:
    if named_by(host, {action.path: [action.path.rsplit("-", 1)[0]]}):
        return  # somebody has begun to use it; the next look tells that
    with trees.said(action.path, "removed"):
        trees.take_away(host, action.path)


def _remove_half(host: Host, action: RemoveHalf, dummy: Desired) -> None:
    with trees.said(action.path, "removed"):
        remove_half(host, action.path)


STEPS: Mapping[type, Step] = {
    **declaration.STEPS,
    **managed_files.STEPS,
    **trees.STEPS,
    MakeTop: _make_top,
    BuildTree: _build_tree,
    RemoveTree: _remove_tree,
    RemoveHalf: _remove_half,
}
