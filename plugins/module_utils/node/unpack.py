# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle becomes a tree that runs: its wheels and collection beside each other, complete or not there at all.

Everything is written into a folder of another name, goes to the disk, and then takes its place by one rename; the link
``current`` follows by another. A run that is ended in between leaves the tree of before, and its rubbish is removed by
the next one, which holds the same lock.
"""

# pylint: disable=ansible-bad-function  # the library has no AnsibleModule
from __future__ import annotations

import collections
import compileall
import contextlib
import hashlib
import io
import json
import os
import py_compile
import re
import shutil
import tarfile
import zipfile
from typing import Dict, Iterator, Tuple

from ..core.frozen import frozen
from ..core.resource import NodeError
from . import sums, wheels

INSTALLED = "installed.json"
LINK = "current"
#: Of the tree: where Python finds what the wheels hold, and Ansible the collection.
LIBRARY = "library"
COLLECTIONS = "collections"
_COLLECTION = "collection/"
_SCRIPTS = ("converge", "converge.pyz")
_TEMPORARY = ".new-"
# No part of running a play: the test tool, which is as large as the rest, and the collection's own tests.
_LEFT_OUT = re.compile(r"(ansible_test|tests)/")
# Sent to where they run, and never imported here.
_NOT_COMPILED = re.compile(r"/ansible/(modules|galaxy)/|/ansible_collections/")


@frozen
class Bundle:
    """A bundle as it was copied here. ``digest`` is of its SHA256SUMS, and so of everything in it."""

    folder: str
    version: str
    digest: str
    sums: Dict[str, str]


def read(folder: str) -> Bundle:
    """The bundle in a folder, every byte of it verified.

    :raises NodeError: something is damaged, missing or too many.
    """
    try:
        with open(os.path.join(folder, sums.NAME), "rb") as stream:
            content = stream.read()
        version = version_of(folder)
    except (OSError, ValueError) as error:
        reason = "it is no whole bundle ({0})".format(error)
        raise NodeError(folder, reason, "unpack gpu-node-bundle-*.tar.gz here again") from error
    wanted = sums.parse(content.decode("utf-8", "replace"))
    found = sums.problems(folder, wanted)
    if found:
        more = " and {0} more".format(len(found) - 3) if len(found) > 3 else ""
        reason = "; ".join(found[:3]) + more
        raise NodeError("bundle " + folder, reason, "nothing was run; copy the bundle here again and unpack it anew")
    return Bundle(folder, version, hashlib.sha256(content).hexdigest(), wanted)


def version_of(folder: str) -> str:
    with open(os.path.join(folder, "version"), encoding="ascii") as stream:
        version = stream.read().strip()
    if not re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z.+-]*", version):
        raise ValueError("version {0!r}".format(version))
    return version


def is_tree(folder: str) -> bool:
    """Whether a folder is an unpacked bundle that runs, rather than one that was copied here."""
    return os.path.exists(os.path.join(folder, INSTALLED))


def check_interpreter(tree: str, interpreter: wheels.Interpreter) -> None:
    """:raises NodeError: it was unpacked for another Python."""
    with open(os.path.join(tree, INSTALLED), encoding="ascii") as stream:
        unpacked_for = json.load(stream).get("interpreter")
    if unpacked_for != interpreter.tag:
        raise NodeError(
            tree,
            "it was unpacked for {0}, and Python is {1} now".format(unpacked_for, interpreter.tag),
            "unpack gpu-node-bundle-*.tar.gz again and run its 'converge', which takes the wheels that fit",
        )


def place(bundle: Bundle, interpreter: wheels.Interpreter, parent: str) -> str:
    """Where the tree of a bundle belongs. Other bytes or another Python make another folder."""
    tag = hashlib.sha256((bundle.digest + interpreter.tag).encode("ascii")).hexdigest()[:12]
    return os.path.join(parent, "{0}-{1}".format(bundle.version, tag))


def unpack(bundle: Bundle, interpreter: wheels.Interpreter, parent: str) -> str:
    """Have the tree of a bundle in ``parent``, and ``current`` lead to it. Gives its path; nothing is done twice.

    :raises NodeError: there is no wheel for this Python, or it cannot be written.
    """
    target = place(bundle, interpreter, parent)
    try:
        os.makedirs(parent, mode=0o755, exist_ok=True)
        if not is_whole(target):
            collections.deque(steps(bundle, interpreter, parent, target), maxlen=0)  # all of them
        _point(parent, os.path.basename(target))
        _sweep(parent, keep=(os.path.basename(target), LINK))
    except OSError as error:
        reason = "the bundle could not be unpacked there ({0})".format(error.strerror or error)
        raise NodeError(error.filename or parent, reason, "free some space or mend that, then run it again") from error
    return target


def is_whole(tree: str) -> bool:
    """Whether a tree is there with every byte of it."""
    try:
        with open(os.path.join(tree, sums.NAME), encoding="utf-8") as stream:
            return not sums.problems(tree, sums.parse(stream.read()))
    except (OSError, UnicodeDecodeError, NodeError):
        return False


def steps(bundle: Bundle, interpreter: wheels.Interpreter, parent: str, target: str) -> Iterator[str]:
    """Do the work, with a word after each step: whoever stops in between leaves no tree at ``target``, or the whole."""
    temporary = os.path.join(parent, _TEMPORARY + os.path.basename(target))
    _remove(temporary)
    os.makedirs(temporary, mode=0o755)
    yield "made"
    for name in wheels.choose(json.loads(_verified(bundle, wheels.INDEX)), interpreter):
        _wheel(_verified(bundle, "wheels/" + name), os.path.join(temporary, LIBRARY))
        yield name
    for name in (name for name in bundle.sums if name.startswith(_COLLECTION)):
        folder = os.path.join(temporary, COLLECTIONS, "ansible_collections", "trainyard", "gpu_node")
        _tarball(_verified(bundle, name), folder)
        yield name
    for name in (*_SCRIPTS, "version"):
        _write(os.path.join(temporary, name), _verified(bundle, name), 0o755 if name in _SCRIPTS else 0o644)
    yield "scripts"
    # A run compiles nothing and writes nothing here, so what lies here stays what its sums say.
    compileall.compile_dir(
        os.path.join(temporary, LIBRARY),
        quiet=2,
        rx=_NOT_COMPILED,
        stripdir=temporary,
        prependdir=target,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    yield "compiled"
    for folder in [found[0] for found in os.walk(temporary)]:
        os.chmod(folder, 0o755)  # noqa: S103 everybody may look
    told = {"interpreter": interpreter.tag, "bundle": bundle.digest, "version": bundle.version}
    _write(os.path.join(temporary, INSTALLED), json.dumps(told, sort_keys=True).encode("ascii"), 0o644)
    _write(os.path.join(temporary, sums.NAME), sums.text(temporary).encode("utf-8"), 0o644)
    yield "sums"
    _to_disk(temporary)
    yield "on disk"
    _remove(target)  # one that was damaged
    yield "room made"
    os.rename(temporary, target)
    _sync(parent)
    yield "in place"


def _verified(bundle: Bundle, name: str) -> bytes:
    """What is unpacked is what was verified, though somebody changed the file since."""
    with open(os.path.join(bundle.folder, name), "rb") as stream:
        content = stream.read()
    if hashlib.sha256(content).hexdigest() != bundle.sums.get(name):
        raise NodeError(name, "it was changed while it was unpacked", "copy the bundle here again")
    return content


def _inside(folder: str, name: str) -> str:
    if name.startswith("/") or ".." in name.split("/"):
        raise NodeError(name, "this file of the bundle leads out of its folder", "build the bundle again")
    return os.path.join(folder, name)


def _wheel(content: bytes, folder: str) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            if not name.endswith("/") and not _LEFT_OUT.match(name):
                _write(_inside(folder, name), archive.read(name), 0o644)


def _tarball(content: bytes, folder: str) -> None:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        for member in archive:
            wanted = member.isfile() and not _LEFT_OUT.match(member.name)
            stream = archive.extractfile(member) if wanted else None
            if stream is not None:
                _write(_inside(folder, member.name), stream.read(), 0o644)


def _write(path: str, content: bytes, mode: int) -> None:
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    with open(path, "wb") as stream:
        os.fchmod(stream.fileno(), mode)
        stream.write(content)


def _to_disk(folder: str) -> None:
    """After all was written: the first file takes most of the others along."""
    for name in sums.files(folder):
        _sync(os.path.join(folder, name))
    for parent in [found[0] for found in os.walk(folder, topdown=False)]:
        _sync(parent)


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _point(parent: str, name: str) -> None:
    link, new = os.path.join(parent, LINK), os.path.join(parent, _TEMPORARY + LINK)
    if os.path.islink(link) and os.readlink(link) == name:
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    os.symlink(name, new)
    os.rename(new, link)
    _sync(parent)


def _sweep(parent: str, keep: Tuple[str, ...]) -> None:
    """Trees of other versions, and what interrupted runs left."""
    for name in os.listdir(parent):
        if name not in keep:
            _remove(os.path.join(parent, name))


def _remove(path: str) -> None:
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)
