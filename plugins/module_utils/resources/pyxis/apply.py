# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one step on pyxis."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from typing import Iterator, Mapping

from ...core import artefact, declaration, managed_files
from ...core.host import Completed, Host
from ...core.resource import NodeError, Step
from .types import (
    FILE_NAME,
    FOLDER,
    PLUGIN,
    SECTION,
    WORK_FOLDER,
    BuildPlugin,
    FetchSource,
    InstallPlugin,
    RemovePlugin,
    built_section,
)

_BUILD_SECONDS = 600.0
_ELF = b"\x7fELF"


def fetch_source(host: Host, action: FetchSource, dummy: object = None) -> None:
    artefact.fetch(host, action.file, WORK_FOLDER)


def build_plugin(host: Host, action: BuildPlugin, dummy: object = None) -> None:
    """:raises NodeError: it cannot be built; the plugin that was there stays."""
    file = artefact.Source(action.source, action.sha256)
    with _cleared(host, file):
        _install(host, _build(host, file, action), action.slurm_version, action.sha256)


def install_plugin(host: Host, action: InstallPlugin, dummy: object = None) -> None:
    """:raises NodeError: what was fetched is no plugin; the one that was there stays."""
    file = artefact.Source(action.source, action.sha256)
    with _cleared(host, file):
        with open(host.path(os.path.join(WORK_FOLDER, file.file_name)), "rb") as stream:
            content = stream.read()
        _check(content, file.shown)
        _install(host, content, action.slurm_version, action.sha256)


def remove_plugin(host: Host, dummy: RemovePlugin, other: object = None) -> None:
    host.remove(PLUGIN)


@contextlib.contextmanager
def _cleared(host: Host, file: artefact.Source) -> Iterator[None]:
    """The file that was fetched is gone afterwards, also when nothing could be made of it."""
    try:
        yield
    finally:
        artefact.discard(host, file, WORK_FOLDER)
        with contextlib.suppress(OSError):  # others keep what they know of this node in it
            os.rmdir(host.path(os.path.dirname(WORK_FOLDER)))


def _build(host: Host, file: artefact.Source, action: BuildPlugin) -> bytes:
    work = tempfile.mkdtemp(prefix="build-", dir=host.path(WORK_FOLDER))
    try:
        packed = host.path(os.path.join(WORK_FOLDER, file.file_name))
        _run(host, ["tar", "-x", "--no-same-owner", "-C", work, "-f", packed], file.shown, "unpacked")
        makefiles = [folder for folder, dummy, names in os.walk(work) if "Makefile" in names]
        if not makefiles:
            raise NodeError(file.shown, "there is no Makefile in it", "give the tarball of pyxis's source")
        folder = min(makefiles, key=len)
        # The Makefile keeps what the environment says beside its own flags; on the command line it would replace them.
        environment = ["env", "-u", "MAKEFLAGS", "-u", "DESTDIR"]
        if host.path(action.include) != "/usr/include":
            environment.append("CPPFLAGS=-I" + host.path(action.include))
        _run(host, [*environment, "make", "-C", folder, FILE_NAME], file.shown, "built")
        try:
            with open(os.path.join(folder, FILE_NAME), "rb") as stream:
                content = stream.read()
        except OSError as error:
            raise NodeError(file.shown, "make built no " + FILE_NAME, "give the tarball of pyxis's source") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    _check(content, file.shown)
    return content


def _run(host: Host, argv: "list[str]", shown: str, what: str) -> None:
    done = host.run(argv, _BUILD_SECONDS, accept=tuple(range(256)))
    if done.returncode != 0:
        raise NodeError(
            shown,
            "it could not be {0}: {1}".format(what, first_error(done)),
            "give another version of pyxis, or a plugin that was built elsewhere for this version of Slurm",
        )


def first_error(done: Completed) -> str:
    """The compiler's own word, which make buries under lines of its own."""
    for line in (done.stderr + done.stdout).splitlines():
        found = re.search(r"\b(?:fatal )?error: .*", line)
        if found:
            return found.group(0)
    return done.message


def _check(content: bytes, shown: str) -> None:
    if not content.startswith(_ELF) or b"plugin_version" not in content:
        raise NodeError(shown, "it gives no plugin for Slurm", "give the right file with its sha256")


def _install(host: Host, content: bytes, slurm_version: str, sha256: str) -> None:
    """Processes that have the old one open keep it. The record comes last: a cut between means one more build."""
    path = host.path(PLUGIN)
    temporary = os.path.join(os.path.dirname(path), "." + FILE_NAME + ".new")
    try:
        os.makedirs(host.path(FOLDER), mode=0o755, exist_ok=True)
        with open(temporary, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fchmod(stream.fileno(), 0o644)
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise NodeError(
            PLUGIN, "it could not be written ({0})".format(error.strerror), "free some space, run it as root"
        ) from error
    section = dict(declaration.read(host).get(SECTION) or {})
    section.update(built_section(slurm_version, sha256, hashlib.sha256(content).hexdigest()))
    declaration.apply(host, declaration.Declare(SECTION, section))


STEPS: Mapping[type, Step] = {
    **declaration.STEPS,
    **managed_files.STEPS,
    FetchSource: fetch_source,
    BuildPlugin: build_plugin,
    InstallPlugin: install_plugin,
    RemovePlugin: remove_plugin,
}
