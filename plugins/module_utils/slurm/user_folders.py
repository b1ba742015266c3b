# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders that one user's containers live in, while jobs of that user run here. Pure, and cheap to import.

Their names are templates in the section ``enroot`` of the declaration, so the prolog that makes them, the epilog that
removes them and enroot.conf, which names them to enroot, all say the same.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional, Tuple

from ..core.frozen import frozen

SECTION = "enroot"
_TEMPLATE = re.compile(r"(/[A-Za-z0-9._/+@-]+)/((?:[A-Za-z0-9._-]+-)?\{uid\})")


@frozen
class Template:
    """``path`` ends with the user's number as ``{uid}``. From ``top`` on all folders above it are root's and enroot's
    alone. ``remove``: not kept after the user's last job here."""

    purpose: str
    path: str
    top: str
    remove: bool = True

    @property
    def parent(self) -> str:
        return self.path.rsplit("/", 1)[0]

    def for_shell(self) -> str:
        """As enroot.conf has it."""
        return self.path.replace("{uid}", "$(id -u)")


@frozen
class UserFolder:
    """One folder of one user. ``top`` and ``parent`` are made before it, for root alone to write."""

    purpose: str
    top: str
    parent: str
    path: str
    remove: bool


def templates(section: Optional[Mapping[str, Any]]) -> Tuple[Template, ...]:
    """Those of the declaration. A person may have edited it: what could name another place is passed over."""
    given = (section or {}).get("user_folders")
    found = []
    for one in given if isinstance(given, list) else ():
        if not isinstance(one, dict):
            continue
        path, top = str(one.get("path", "")), str(one.get("top", ""))
        if _TEMPLATE.fullmatch(path) and not {"..", "."} & set(path.split("/")) and "//" not in path:
            if top.count("/") > 1 and (path.rsplit("/", 1)[0] + "/").startswith(top + "/"):
                found.append(Template(str(one.get("purpose", "")), path, top, one.get("remove") is True))
    return tuple(found)


def of_user(section: Optional[Mapping[str, Any]], uid: int) -> Tuple[UserFolder, ...]:
    """The folders to make before a job of this user, and to remove after the last one. None of them for root."""
    if uid <= 0:
        return ()
    return tuple(
        UserFolder(one.purpose, one.top, one.parent, one.path.replace("{uid}", str(uid)), one.remove)
        for one in templates(section)
    )
