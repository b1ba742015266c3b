# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verified file in a folder, or nothing."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from typing import BinaryIO, Generator, Iterator, List

from ..host import Host
from ..resource import NodeError
from .source import Source

PARTIAL = ".partial"
_CHUNK_BYTES = 1024 * 1024


def fetch(host: Host, source: Source, folder: str, limit_seconds: float = 600.0) -> str:
    """The path of the file in ``folder``, whose content has that sha256.

    The folder is made when it is missing, for its owner alone (0700). Nobody sees the file under its name before it
    is whole and on the disk. One that lies there already and is right is used again.

    :raises NodeError: when the file cannot be had or is not the right one; nothing of it is left then.
    """
    path = os.path.join(folder, source.file_name)
    # Two runs must not write to one temporary file.
    with host.lock("artefact", limit_seconds), _folder(host, folder):
        if not _right(host.path(path), source.sha256):
            _write(host, source, path, limit_seconds)
    return path


def discard(host: Host, source: Source, folder: str) -> None:
    """Remove the file, and its folder when nothing else lies in it."""
    host.remove(os.path.join(folder, "." + source.file_name + PARTIAL))
    host.remove(os.path.join(folder, source.file_name), folder_too=True)


def _write(host: Host, source: Source, path: str, limit_seconds: float) -> None:
    target = host.path(path)
    # Always the same name: what a power cut left of it is written over.
    temporary = os.path.join(os.path.dirname(target), "." + source.file_name + PARTIAL)
    digest = hashlib.sha256()
    try:
        with _disk(path):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        # Unbuffered, so that a full disk is met here and not when the file is closed.
        with os.fdopen(handle, "wb", buffering=0) as stream:
            with contextlib.closing(_pieces(host, source, limit_seconds)) as pieces:
                for piece in pieces:
                    digest.update(piece)
                    with _disk(path):
                        _write_all(stream, piece)
            if digest.hexdigest() != source.sha256:
                raise NodeError(
                    source.shown,
                    "its sha256 is {0}, not {1}".format(digest.hexdigest(), source.sha256),
                    "see which of the two is wrong before you change the expected one",
                )
            with _disk(path):
                os.fsync(stream.fileno())
        with _disk(path):
            os.replace(temporary, target)
            _sync_folder(os.path.dirname(target))
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _write_all(stream: BinaryIO, piece: bytes) -> None:
    rest = memoryview(piece)
    while rest:
        rest = rest[stream.write(rest) or 0 :]


def _pieces(host: Host, source: Source, limit_seconds: float) -> Generator[bytes, None, None]:
    if source.path is None:
        from .download import chunks  # with it comes half of the network, and most runs fetch nothing

        yield from chunks(source.source, source.shown, limit_seconds)
        return
    try:
        # A named pipe would wait for its writer.
        handle = os.open(host.path(source.path), os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as stream:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            yield from iter(lambda: stream.read(_CHUNK_BYTES), b"")
    except OSError as error:
        raise NodeError(
            source.shown, "it cannot be read ({0})".format(error.strerror), "put the file there, on the node itself"
        ) from error


def _right(path: str, sha256: str) -> bool:
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return False
        digest = hashlib.sha256()
        with open(path, "rb") as stream:
            for piece in iter(lambda: stream.read(_CHUNK_BYTES), b""):
                digest.update(piece)
        return digest.hexdigest() == sha256
    except OSError:
        return False


@contextlib.contextmanager
def _folder(host: Host, folder: str) -> Iterator[None]:
    """The folder, for its owner alone; after a failure those that were made for it are gone again."""
    made: List[str] = []
    missing = host.path(folder)
    while not os.path.lexists(missing):
        made.append(missing)
        missing = os.path.dirname(missing)
    try:
        with _disk(folder):
            os.makedirs(host.path(folder), mode=0o755, exist_ok=True)
            found = os.lstat(host.path(folder))
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                raise NodeError(folder, "it is not a folder of this user's own", "move it away, then run it again")
            os.chmod(host.path(folder), 0o700)
        yield
    except BaseException:
        for one in made:
            with contextlib.suppress(OSError):
                os.rmdir(one)
        raise


@contextlib.contextmanager
def _disk(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        remedy = {
            errno.ENOSPC: "free some space on that file system, then run it again",
            errno.EDQUOT: "free some space on that file system, then run it again",
            errno.EROFS: "remount that file system read-write, then run it again",
        }.get(error.errno or 0, "run it as root")
        raise NodeError(path, "it could not be written ({0})".format(error.strerror), remedy) from error


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
