# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where an artefact comes from, and which one it is."""

from __future__ import annotations

import re
import urllib.parse
from typing import Iterable, List, Optional

from .. import urls
from ..frozen import frozen
from ..resource import NodeError

_SHA256 = re.compile(r"[0-9a-f]{64}")
_URL = re.compile(r"[!-~]+")
# What tells an unpacker the kind of file: the last suffix, or two as in .tar.gz.
_SUFFIX = re.compile(r"(?:\.tar)?\.[A-Za-z0-9]{1,8}$")
_KEY_LENGTH = 8
_REMEDY = "give http://, https:// or file:///, or an absolute path on the node"


def secrets(sources: Iterable[Optional[str]]) -> List[str]:
    """What of these URLs must be shown nowhere: the query, where stores have their access keys, and a user's name."""
    found: List[str] = []
    for one in sources:
        if one and not one.startswith("/"):
            bare, dummy, query = one.partition("?")
            user = re.match(r"[A-Za-z]+://([^/]*)@", bare)
            found += [user.group(1) if user else "", query]
    # What is shorter guards nothing, and hiding it would garble everything that is said.
    return [one for one in found if len(one) >= _KEY_LENGTH]


@frozen
class Source:
    """``source`` is a URL or a path on the node; ``sha256`` is of the whole file, in hexadecimal digits."""

    source: str
    sha256: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha256", self.sha256.strip().lower())
        if not _SHA256.fullmatch(self.sha256):
            raise NodeError(
                "the sha256 of {0}".format(self.shown),
                "{0!r} is not 64 hexadecimal digits".format(self.sha256),
                "give what 'sha256sum' prints for the right file",
            )
        if self.path is None:
            self._check_url()
        elif not self.path.startswith("/") or self.path.endswith("/") or "\0" in self.path:
            raise NodeError("source {0!r}".format(self.shown), "it names no file by an absolute path", _REMEDY)

    def _check_url(self) -> None:
        try:
            parts = urllib.parse.urlsplit(self.source)
            right = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            right = False
        if not right or not _URL.fullmatch(self.source):
            raise NodeError("source {0!r}".format(self.shown), "it is no URL and no path that can be read", _REMEDY)
        if parts.username is not None or parts.password is not None:
            raise NodeError(
                "source {0}".format(self.shown),
                "it carries a user name, which would show in logs",
                "fetch the file from a mirror that needs none, or from a path on the node",
            )

    @property
    def path(self) -> Optional[str]:
        """The file on the node, or None for one that is downloaded."""
        if self.source.startswith("/"):
            return self.source
        if self.source.lower().startswith("file:"):
            parts = urllib.parse.urlsplit(self.source)
            return urllib.parse.unquote(parts.path) if parts.netloc in ("", "localhost") else ""
        return None

    @property
    def shown(self) -> str:
        """What messages call it: without a user name and without the query, where stores have their access keys."""
        if self.source.startswith("/"):
            return self.source
        return urls.shown(self.source).partition("#")[0]

    @property
    def file_name(self) -> str:
        """The name of the verified file: nothing but its content decides it, and the suffix that unpackers go by."""
        suffix = _SUFFIX.search(self.shown)
        return self.sha256 + (suffix.group(0) if suffix else "")
