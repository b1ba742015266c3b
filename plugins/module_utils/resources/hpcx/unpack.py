# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unpack HPC-X's tarball below a folder, and nowhere else.

The checks are our own: Python 3.8 has no filter for tarfile everywhere. Links are made when all files are there, so
nothing is ever written through one.
"""

from __future__ import annotations

import contextlib
import lzma
import os
import shutil
import tarfile
import zlib
from typing import Dict, List, Optional, Tuple

from ...core.resource import NodeError


def unpack(archive: str, target: str, shown: str) -> str:
    """Unpack what lies in the one folder of ``archive`` as ``target``, and return that folder's name.

    :raises NodeError: when the archive is none, or when a member of it does not belong below that folder.
    """
    os.mkdir(target, 0o755)
    links: List[Tuple[tarfile.TarInfo, str]] = []
    top: Optional[str] = None
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                first, path = _split(member.name, shown)
                if top is None:
                    top = first
                if first != top:
                    raise _wrong(shown, "it has more than one folder at its top ({0!r}, {1!r})".format(top, first))
                if member.issym() or member.islnk():
                    links.append((member, path))
                elif member.isdir():
                    _folder(target, path)
                elif member.isreg():
                    _file(tar, member, target, path)
                else:
                    raise _wrong(shown, "{0!r} in it is neither file, folder nor link".format(member.name))
            _links(links, target, top or "", shown)
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise _wrong(shown, "it cannot be unpacked ({0})".format(error)) from error
    except OSError as error:
        # bz2 says of damaged data what a file system never does: an error without a number.
        if error.errno is None:
            raise _wrong(shown, "it cannot be unpacked ({0})".format(error)) from error
        raise
    if top is None:
        raise _wrong(shown, "it is empty")
    return top


def _wrong(shown: str, reason: str) -> NodeError:
    return NodeError(shown, reason, "give the URL and the sha256 of HPC-X's own tarball")


def _split(name: str, shown: str) -> Tuple[str, str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or not parts:
        raise _wrong(shown, "{0!r} in it leads out of the folder it is unpacked to".format(name))
    return parts[0], "/".join(parts[1:])


def _folder(target: str, path: str) -> str:
    """Every folder is one that we made: links come last."""
    whole = target
    for part in [part for part in path.split("/") if part]:
        whole = os.path.join(whole, part)
        with contextlib.suppress(FileExistsError):
            os.mkdir(whole)
        os.chmod(whole, 0o755)  # noqa: S103  (for all users of the node, whatever our umask is)
    return whole


def _file(tar: tarfile.TarFile, member: tarfile.TarInfo, target: str, path: str) -> None:
    whole = os.path.join(_folder(target, os.path.dirname(path)), os.path.basename(path))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(whole)
    source = tar.extractfile(member)
    handle = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as stream:
        if source is not None:
            with source:
                shutil.copyfileobj(source, stream, 1024 * 1024)
        # Root's, for all to read; no set-user bits, nothing that others may write.
        os.fchmod(stream.fileno(), 0o755 if member.mode & 0o111 else 0o644)
    os.utime(whole, (member.mtime, member.mtime))


def _links(links: List[Tuple[tarfile.TarInfo, str]], target: str, top: str, shown: str) -> None:
    made: Dict[str, bool] = {}
    for member, path in sorted(links, key=lambda one: one[0].issym()):  # hard links first: their files are there
        if member.issym():
            _check_symlink(member, path, shown)
        folder = os.path.dirname(path)
        if any(folder == one or folder.startswith(one + "/") for one in made):
            raise _wrong(shown, "{0!r} in it lies behind a link".format(member.name))
        whole = os.path.join(_folder(target, folder), os.path.basename(path))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(whole)
        if member.issym():
            os.symlink(member.linkname, whole)
            made[path] = True
            continue
        first, linked = _split(member.linkname, shown)
        existing = os.path.join(target, linked)
        if first != top or not os.path.isfile(existing):
            raise _wrong(shown, "{0!r} in it is a link to a file that it does not hold".format(member.name))
        os.link(existing, whole)


def _check_symlink(member: tarfile.TarInfo, path: str, shown: str) -> None:
    lead = os.path.normpath(os.path.join("tree", os.path.dirname(path), member.linkname))
    if not path or member.linkname.startswith("/") or not (lead == "tree" or lead.startswith("tree/")):
        raise _wrong(shown, "{0!r} in it is a link that leads out of it".format(member.name))
