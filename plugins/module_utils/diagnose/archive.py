# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the archive: all of it or nothing, for its owner alone, and never through a link."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import stat
import tarfile
from typing import Mapping

from ..core.resource import NodeError


def check(path: str) -> None:
    """:raises NodeError: nothing can be written there."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise NodeError(path, "there is no folder {0}".format(folder), "make it, or name a file in another one")
    with contextlib.suppress(FileNotFoundError):
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            raise NodeError(path, "it is a link", "remove it, or name another file")
        if not stat.S_ISREG(found.st_mode):
            raise NodeError(path, "it is there and is no file", "name another file")


def write(path: str, top: str, files: Mapping[str, str], now: float) -> int:
    """An archive with these texts in the folder ``top``; returns its size in bytes.

    :raises NodeError: it could not be written, and nothing is left of it.
    """
    check(path)
    name = os.path.basename(path)
    temporary = ".{0}.{1}".format(name[:200], secrets.token_hex(8))
    folder = -1
    try:
        # What is in the way of the name, and the folder, stay the same from here on, whoever renames what.
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(temporary, flags, 0o600, dir_fd=folder)
        try:
            with os.fdopen(handle, "wb") as stream:
                with tarfile.open(mode="w:gz", fileobj=stream, compresslevel=6, format=tarfile.PAX_FORMAT) as archive:
                    for file, text in files.items():
                        _add(archive, "{0}/{1}".format(top, file), text, now)
                stream.flush()
                os.fsync(stream.fileno())
                written = os.fstat(stream.fileno()).st_size
            # It takes the place of a link that came meanwhile; it does not follow it.
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        os.fsync(folder)
        return written
    except OSError as error:
        reason = "it could not be written ({0})".format(error.strerror or error)
        raise NodeError(path, reason, "name a file in a folder that you may write to, and that has room") from error
    finally:
        if folder >= 0:
            os.close(folder)


def _add(archive: tarfile.TarFile, name: str, text: str, now: float) -> None:
    data = text.encode("utf-8", "replace")
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(data), int(now), 0o600
    archive.addfile(entry, io.BytesIO(data))
