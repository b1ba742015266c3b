# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where checkpoints lie: the URL of a container or of a folder in it, and the names below it. Pure."""

from __future__ import annotations

import re
from urllib.parse import quote

from ..core.resource import NodeError

_URL = re.compile(r"(https?)://([A-Za-z0-9.-]+)(?::[0-9]{1,5})?(?:/[A-Za-z0-9$][A-Za-z0-9._$=+-]*)+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+-]{0,127}")
# azcopy takes * in a path for a pattern.
_FILE = re.compile(r"[A-Za-z0-9._=+,@~ -]{1,255}")
_EXAMPLE = "https://ACCOUNT.blob.core.windows.net/CONTAINER"


def checked(text: str, thing: str = "destination") -> str:
    """The URL of a container, or of a folder in it, without a slash at its end.

    :raises NodeError: it is none, or carries a secret.
    """
    bare = text.partition("?")[0]
    if "?" in text:
        remedy = "take it out there, and name a file with it as sas_file"
        raise NodeError("{0} {1}".format(thing, bare), "it carries an access key, which would show in logs", remedy)
    url = text.rstrip("/")
    found = _URL.fullmatch(url)
    if found is None or ".." in url.split("/"):
        # A user name may have a password behind it.
        shown = "" if "@" in text else " {0!r}".format(text)
        raise NodeError(thing + shown, "it is no URL of a container", "write it as " + _EXAMPLE)
    if ".dfs." in found.group(2):
        reason = "this is the endpoint of the file system, which takes no blobs"
        raise NodeError("{0} {1}".format(thing, url), reason, "give that of the blobs, " + _EXAMPLE)
    if found.group(1) == "http" and not _here(found.group(2)):
        raise NodeError("{0} {1}".format(thing, url), "its data and keys would go unencrypted", "write it with https")
    return url


def _here(name: str) -> bool:
    return name == "localhost" or name.startswith("127.")


def checkpoint_name(text: str) -> str:
    """:raises NodeError: it is none."""
    if not _NAME.fullmatch(text):
        raise NodeError(
            "checkpoint {0!r}".format(text),
            "this is no name of one",
            "use letters, digits and ._=+-, such as step-1000",
        )
    return text


def file_name(text: str) -> str:
    """The name of a file in a checkpoint, with its folders.

    :raises NodeError: azcopy or a store would take it for something else.
    """
    for part in text.split("/"):
        if not _FILE.fullmatch(part) or part in (".", "..") or part.endswith("."):
            reason = "its name has letters that azcopy or the store does not take as they are"
            raise NodeError("file {0!r}".format(text), reason, "use letters, digits, blanks and ._=+,@~-")
    return text


def joined(url: str, *names: str) -> str:
    return "/".join([url, *(quote(name, safe="/~") for name in names)])
