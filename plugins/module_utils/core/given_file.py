# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a file that a person named: all of it or nothing, never through a link, and into a folder that is there."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import IO, Iterator

from .resource import NodeError
from .safe_files import replaced_in


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


@contextlib.contextmanager
def written(path: str, mode: int) -> Iterator[IO[bytes]]:
    """What is written into the stream is the file at the end of the block; ``mode`` as for open(2).

    :raises NodeError: it could not be written, and nothing is left of it.
    """
    check(path)
    try:
        # What is in the way of the name, and the folder, stay the same from here on, whoever renames what.
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # pylint: disable-next=contextmanager-generator-missing-cleanup  # it cleans up, whatever it is left with
            with replaced_in(folder, os.path.basename(path), mode) as stream:
                yield stream
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        reason = "it could not be written ({0})".format(error.strerror or error)
        raise NodeError(path, reason, "name a file in a folder that you may write to, and that has room") from error


def write(path: str, text: str, mode: int = 0o666) -> None:
    """:raises NodeError: it could not be written."""
    with written(path, mode) as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))
