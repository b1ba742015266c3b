# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the files of one resource."""

from __future__ import annotations

import os
import stat
from typing import Any, Iterable, List, Mapping, Tuple

from .. import mounts, safe_files
from ..host import Host
from .plan import named
from .types import Files, Seen


def observe(host: Host, paths: Iterable[str], declared: Mapping[str, Any], share: bool = False) -> Files:
    """``paths`` are those that may be wanted now; ``declared`` is the section that :func:`remembered` went into.

    ``share``: all nodes may have them in one folder, and what is in use there is to stay.
    """
    wanted = list(paths)
    former, made = named(declared)
    every = dict.fromkeys(wanted + list(former))
    # The file itself may be a link to somewhere else.
    folders = mounts.on_network(host, {os.path.dirname(path) for path in every}) if share else ()
    return Files(
        found=tuple((path, look(host, path)) for path in every),
        missing_folders=_missing_folders(host, wanted),
        former=former,
        made_folders=made,
        shared=tuple(path for path in every if os.path.dirname(path) in folders),
    )


def look(host: Host, path: str) -> Seen:
    try:
        found = os.lstat(host.path(path))
    except OSError:
        return Seen()
    link = stat.S_ISLNK(found.st_mode)
    if not link and not stat.S_ISREG(found.st_mode):
        return Seen("other")
    # By now something else may have its name: a link, or a FIFO, which would block a reader.
    text = safe_files.load(host.path(path), follow=link)[0] or ""
    return Seen("link", text) if link else Seen("file", text, stat.S_IMODE(found.st_mode))


def _missing_folders(host: Host, paths: Iterable[str]) -> Tuple[str, ...]:
    missing: List[str] = []
    for path in paths:
        folder, chain = os.path.dirname(path), []
        while folder not in ("", "/") and not host.exists(folder):
            chain.append(folder)
            folder = os.path.dirname(folder)
        missing += [one for one in reversed(chain) if one not in missing]
    return tuple(missing)
