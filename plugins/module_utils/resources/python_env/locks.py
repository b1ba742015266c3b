# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lock files: pip's requirements with hashes, and conda's explicit list. Pure."""

from __future__ import annotations

import re
from typing import Iterable, List, Tuple

from ...core import urls
from ...core.frozen import frozen
from ...core.resource import NodeError

_NAME = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)")
_HASH = re.compile(r"--hash[= ](\S+)")
_SHA256 = re.compile(r"sha256:([0-9a-f]{64})")
_PINNED = re.compile(r"\s*(?:\[[^\]]*\])?\s*(==\s*[^\s;,*]+|@\s*\S+)\s*(;.*)?")
_PACKAGE = re.compile(
    r"(?P<url>(?:https?://|file:///|/)[^\s#]+/(?P<file>[^\s/#]+\.(?:conda|tar\.bz2)))(?:#(?P<sum>\S+))?"
)
_PIP_REMEDY = "write it with 'pip-compile --generate-hashes', or take gpu_node.lock of an environment that was built"


def same(name: str) -> str:
    """A name as an index compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


@frozen
class Pinned:
    """One requirement of a lock, on one line."""

    name: str
    text: str


@frozen
class Package:
    """One of a conda list. ``subdir``: the folder of the channel that it lies in, as linux-64."""

    url: str
    sha256: str
    file: str
    subdir: str


def requirement_name(line: str) -> str:
    """Of one line of requirements; empty: it has none."""
    found = _NAME.match(line.strip())
    return same(found.group(1)) if found else ""


def pip(thing: str, text: str) -> Tuple[Pinned, ...]:
    """:raises NodeError: a line that pins nothing, or has no SHA-256."""
    found = []
    for line in _logical(text):
        name = requirement_name(line)
        bare = _HASH.sub("", line).strip()
        if line.startswith("-") or not name:
            remedy = "leave options to python_env (index_url, find_links), and list packages alone"
            raise NodeError(thing, "{0!r} is no package".format(urls.shown(line)), remedy)
        if not _PINNED.fullmatch(bare[len(_NAME.match(bare).group(1)) :]):  # type: ignore[union-attr]
            raise NodeError(thing, "{0!r} pins no version".format(urls.shown(bare)), _PIP_REMEDY)
        hashes = sorted(_HASH.findall(line))
        if not hashes or not all(_SHA256.fullmatch(one) for one in hashes):
            raise NodeError(
                thing, "{0!r} has no SHA-256, or another sum beside it".format(urls.shown(bare)), _PIP_REMEDY
            )
        found.append(Pinned(name, " ".join([re.sub(r"\s+", " ", bare), *("--hash=" + one for one in hashes)])))
    if not found:
        raise NodeError(thing, "it lists nothing", _PIP_REMEDY)
    return tuple(sorted(found, key=lambda one: one.text))


def _logical(text: str) -> List[str]:
    """Lines without comments, where a backslash at the end goes on."""
    joined = re.sub(r"\\\r?\n", " ", text)
    return [line for line in (re.sub(r"(^|\s)#.*", "", one).strip() for one in joined.splitlines()) if line]


def conda(thing: str, text: str) -> Tuple[Package, ...]:
    """In the order of the list, which is that of linking.

    :raises NodeError: it is no explicit list, or a package in it has no SHA-256.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    if "@EXPLICIT" not in lines:
        remedy = "write it with 'conda list --explicit --sha256'"
        raise NodeError(thing, "it is no explicit list of conda (a line @EXPLICIT)", remedy)
    found = []
    for line in lines:
        if line == "@EXPLICIT":
            continue
        one = _PACKAGE.fullmatch(line)
        if one is None:
            raise NodeError(
                thing, "{0!r} is no URL of a conda package".format(urls.shown(line)), "give one package a line"
            )
        digest = re.sub("^sha256:", "", one.group("sum") or "").lower()
        if not re.fullmatch("[0-9a-f]{64}", digest):
            what = "has an MD5 and no SHA-256" if re.fullmatch("[0-9a-f]{32}", digest) else "has no SHA-256"
            reason = "{0} {1}".format(one.group("file"), what)
            raise NodeError(thing, reason, "write each as URL#sha256:DIGITS, as 'conda list --explicit --sha256' does")
        parts = one.group("url").rsplit("/", 2)
        found.append(Package(one.group("url"), digest, one.group("file"), parts[-2] or "noarch"))
    if not found:
        raise NodeError(thing, "it lists nothing", "give one package a line")
    return tuple(found)


def of_reports(reports: Iterable[object]) -> str:
    """What pip installed, by its reports (pip install --report), as a lock; a package that pip gives no SHA-256 of is
    left out."""
    lines = []
    for report in reports:
        installed = report.get("install") if isinstance(report, dict) else None
        for one in installed if isinstance(installed, list) else ():
            try:
                metadata, archive = one["metadata"], one["download_info"]["archive_info"]
                digest = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").partition("sha256=")[2]
                if re.fullmatch("[0-9a-f]{64}", digest):
                    line = "{0}=={1} --hash=sha256:{2}".format(same(metadata["name"]), metadata["version"], digest)
                    lines.append(line)
            except (KeyError, TypeError, AttributeError):
                continue
    return "".join(line + "\n" for line in sorted(lines))
