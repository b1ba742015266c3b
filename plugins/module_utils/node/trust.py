# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What root executes may be changed by root alone: files, and the folders that lead to them."""

from __future__ import annotations

import os
import stat
from typing import Collection, Optional

from ..core.resource import NodeError

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def of_root(path: str) -> str:
    """A file that root acts by, and the way to it; gives where it really lies.

    :raises NodeError: somebody else may change what it says, or it is no file.
    """
    told = os.environ.get("SUDO_UID", "")
    # The user who became root to run this may have written it.
    owners = {0, os.geteuid()} | ({int(told)} if told.isdigit() else set())
    real = os.path.realpath(path)
    try:
        found = os.stat(real)
    except OSError as error:
        raise NodeError(path, "it cannot be read ({0})".format(error.strerror), "name a file that is there") from error
    if not stat.S_ISREG(found.st_mode):
        raise NodeError(path, "it is no file", "name a file")
    reason = _fault(found, owners)
    if reason is not None:
        remedy = "run 'chown root:root {0}' and 'chmod go-w {0}', when what it says is right".format(path)
        raise NodeError(path, reason + ", and root would act by it", remedy)
    _check_way(os.path.dirname(real), owners, path)
    return real


def _check_way(folder: str, owners: Collection[int], path: str) -> None:
    """Who may write to a folder may put another file in the place of ours; not where it is sticky, as /tmp is."""
    while True:
        found = os.stat(folder)
        reason = _fault(found, owners)
        if reason is not None and not (found.st_uid in owners and found.st_mode & stat.S_ISVTX):
            raise NodeError(path, "{0}: {1}".format(folder, reason), "put it where only root may write")
        if folder == os.path.dirname(folder):
            return
        folder = os.path.dirname(folder)


def _fault(found: os.stat_result, owners: Collection[int]) -> Optional[str]:
    if found.st_uid not in owners:
        return "it belongs to user {0}".format(found.st_uid)
    if found.st_mode & _OTHERS:
        return "others may write to it"
    return None
