# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of an image below a root, with links that stay inside of it: an absolute one begins at that root."""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from typing import Dict, List, Optional, Tuple

from ...core.host import Host

_LINKS_MAX = 40
_HEAD_BYTES = 1 << 20


class Files:
    """What lies where. Nothing is executed, and nothing but regular files is opened."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._real: Dict[str, Optional[str]] = {"/": "/"}
        self._names: Dict[str, List[str]] = {}

    def real(self, path: str) -> Optional[str]:
        """Where a path leads; None: nowhere, as a link on the way leads to nothing or in a circle."""
        return self._follow(path, [0])

    def _follow(self, path: str, links: List[int]) -> Optional[str]:
        if path in self._real:
            return self._real[path]
        parent, name = os.path.split(path.rstrip("/"))
        folder = self._follow(parent, links)
        found = None
        if folder is not None:
            found = self._step(folder, name, links)
        self._real[path] = found
        return found

    def _step(self, folder: str, name: str, links: List[int]) -> Optional[str]:
        if name in ("", "."):
            return folder
        if name == "..":
            return os.path.dirname(folder)
        path = folder.rstrip("/") + "/" + name
        try:
            mode = os.lstat(self.host.path(path)).st_mode
            if not stat.S_ISLNK(mode):
                return path
            links[0] += 1
            if links[0] > _LINKS_MAX:
                return None
            target = os.readlink(self.host.path(path))
        except OSError:
            return None
        whole = target if target.startswith("/") else folder.rstrip("/") + "/" + target
        at: Optional[str] = "/"
        for part in whole.split("/"):
            at = self._step(at, part, links) if at is not None else None
        return at

    def exists(self, path: str) -> bool:
        return self.real(path) is not None

    def dangles(self, path: str) -> bool:
        """Whether something has this name and leads to nothing."""
        parent, name = os.path.split(path)
        return self.has(parent, name) and not self.exists(path)

    def target(self, path: str) -> Optional[str]:
        """What a link says; None: it is none."""
        parent, name = os.path.split(path)
        folder = self.real(parent)
        if folder is None:
            return None
        try:
            return os.readlink(self.host.path(folder.rstrip("/") + "/" + name))
        except OSError:
            return None

    def has(self, path: str, name: str) -> bool:
        """Whether a folder has this name, a link that leads to nothing included. A folder is not read for one name."""
        if path in self._names:
            return name in self._names[path]
        real = self.real(path)
        return real is not None and os.path.lexists(self.host.path(real.rstrip("/") + "/" + name))

    def names(self, path: str) -> List[str]:
        if path not in self._names:
            real = self.real(path)
            self._names[path] = [] if real is None else self.host.names(real)
        return self._names[path]

    def glob(self, pattern: str) -> List[str]:
        """The paths that fit a shell pattern, links that lead to nothing among them."""
        found = [""]
        for part in pattern.strip("/").split("/"):
            if any(letter in part for letter in "*?["):
                found = [one + "/" + name for one in found for name in _fit(self.names(one or "/"), part)]
            else:
                found = [one + "/" + part for one in found if self.has(one or "/", part)]
        return found

    def read(self, path: str) -> Optional[str]:
        """The text of a file, its first megabyte; None: there is none."""
        content = self.content(path, _HEAD_BYTES)
        return None if content is None else content.decode("utf-8", "surrogateescape")

    def content(self, path: str, most: int) -> Optional[bytes]:
        """At most so many bytes of a file; None: there is none."""
        real = self.real(path)
        if real is None:
            return None
        try:
            handle = os.open(self.host.path(real), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            parts: List[bytes] = []
            left = most
            while left:
                part = os.read(handle, left)  # files of /proc give a page at a time
                if not part:
                    break
                parts.append(part)
                left -= len(part)
            return b"".join(parts)
        except OSError:
            return None
        finally:
            os.close(handle)

    def line(self, path: str) -> str:
        """The first line of a file, without blanks around it; empty where there is none."""
        text = (self.read(path) or "").strip()
        return text.splitlines()[0].strip() if text else ""

    def mode(self, path: str) -> Optional[int]:
        real = self.real(path)
        if real is None:
            return None
        try:
            return os.stat(self.host.path(real)).st_mode
        except OSError:
            return None

    def programs(self, folders: Tuple[str, ...], name: str) -> List[str]:
        """Where a program of this name lies in these folders."""
        paths = [folder + "/" + name for folder in folders if self.has(folder, name)]
        return [path for path in paths if (self.mode(path) or 0) & 0o111]


def _fit(names: List[str], pattern: str) -> List[str]:
    """As ``fnmatch.filter``, which compiles an expression, for the names that begin as the pattern does."""
    begin = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    names = [name for name in names if name.startswith(begin)]
    return fnmatch.filter(names, pattern) if names else []
