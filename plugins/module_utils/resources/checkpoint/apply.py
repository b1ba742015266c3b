# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the steps on azcopy."""

from __future__ import annotations

import contextlib
import hashlib
import lzma
import os
import re
import tarfile
import zlib
from typing import BinaryIO, Iterator, Mapping

from ...checkpoints.settings import SECTION
from ...core import artefact, declaration, managed_files, node_packages
from ...core.host import Host
from ...core.node_packages import distribution
from ...core.resource import NodeError, Step
from .options import Desired
from .types import FOLDER, FetchProgram, InstallProgram, RemoveProgram

_ELF = b"\x7fELF"
_CHUNK_BYTES = 1 << 20
# The program in Microsoft's tarball, and in its npm package.
_NAME = re.compile(r"(?:[^/]+/)*azcopy(?:_linux_(?:amd64|arm64))?")


def fetch_program(host: Host, action: FetchProgram, dummy: object = None) -> None:
    artefact.fetch(host, action.file, FOLDER)


def install_program(host: Host, action: InstallProgram, desired: Desired) -> None:
    """:raises NodeError: what was fetched holds no azcopy, or it cannot be written; what was there stays."""
    source = desired.archive
    if source is None:
        raise NodeError(action.path, "its source is not given", "give source and sha256")
    target = host.path(action.path)
    new = "{0}/.azcopy.new".format(os.path.dirname(target))
    digest = hashlib.sha256()
    try:
        os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        with _program(host.path(os.path.join(FOLDER, source.file_name)), source.shown) as stream:
            handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o755)
            with os.fdopen(handle, "wb") as made:
                for piece in iter(lambda: stream.read(_CHUNK_BYTES), b""):
                    digest.update(piece)
                    made.write(piece)
                made.flush()
                os.fchmod(made.fileno(), 0o755)  # for all users, whatever our umask is
                os.fsync(made.fileno())
        # Recorded first: what lies there after a cut between the two is known to be ours, old or new.
        section = dict(declaration.read(host).get(SECTION) or {})
        former = (section.get("azcopy") or {}).get("program", "")
        section["azcopy"] = {"source": action.sha256, "program": digest.hexdigest(), "former": former}
        declaration.apply(host, declaration.Declare(SECTION, section))
        os.replace(new, target)
    except OSError as error:
        reason = "it could not be written ({0})".format(error.strerror or error)
        raise NodeError(action.path, reason, "free some space there, and run it as root") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(new)
        artefact.discard(host, source, FOLDER)
        with contextlib.suppress(OSError):  # others keep what they know of this node in it
            os.rmdir(host.path(os.path.dirname(FOLDER)))


@contextlib.contextmanager
def _program(path: str, shown: str) -> Iterator[BinaryIO]:
    """The program in a file: itself, or out of a tarball."""
    wrong = NodeError(shown, "it holds no azcopy for Linux", "give azcopy's own tarball with its sha256")
    with open(path, "rb") as stream:
        if stream.read(len(_ELF)) == _ELF:
            stream.seek(0)
            yield stream
            return
    try:
        with tarfile.open(path, "r:*") as tar:
            for member in tar:
                inner = tar.extractfile(member) if member.isreg() and _NAME.fullmatch(member.name) else None
                if inner is None or inner.read(len(_ELF)) != _ELF:
                    continue
                inner.seek(0)
                yield inner  # type: ignore[misc]  # a reader of bytes
                return
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise wrong from error
    raise wrong


def remove_program(host: Host, action: RemoveProgram, dummy: object = None) -> None:
    host.remove(action.path)


STEPS: Mapping[type, Step] = {
    **declaration.STEPS,
    **managed_files.STEPS,
    **node_packages.STEPS,
    **distribution.STEPS,
    FetchProgram: fetch_program,
    InstallProgram: install_program,
    RemoveProgram: remove_program,
}
