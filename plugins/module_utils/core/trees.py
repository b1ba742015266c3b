# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders of many files that are whole or not there, and a link that leads to one of them; a part of
resources, with the steps that they share."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import shutil
import stat
from typing import Iterable, Iterator, Mapping

from . import mounts
from .frozen import frozen
from .host import Host, be_root
from .resource import Action, NodeError, Step

_PARTIAL = re.compile(r"\.gpu_node\..+\.partial")


def partial(prefix: str, name: str) -> str:
    """A hidden name beside the final one: what lies under it is half of something, and ours."""
    return "{0}/.gpu_node.{1}.partial".format(prefix, name)


def is_partial(name: str) -> bool:
    return _PARTIAL.fullmatch(name) is not None


@frozen
class Link:
    """``kind``: missing, link or other. ``target`` is what the link says."""

    path: str
    kind: str = "missing"
    target: str = ""

    @property
    def leads_to(self) -> str:
        """By its words alone; empty: it is no link."""
        return resolved(self.path, self.target) if self.kind == "link" else ""


def resolved(path: str, target: str) -> str:
    """Where a link leads, by its words alone."""
    return target if target.startswith("/") else "{0}/{1}".format(path.rsplit("/", 1)[0], target)


def look_at_link(host: Host, path: str) -> Link:
    try:
        if stat.S_ISLNK(os.lstat(host.path(path)).st_mode):
            return Link(path, "link", os.readlink(host.path(path)))
    except OSError:
        return Link(path)
    return Link(path, "other")


def point(host: Host, path: str, target: str) -> None:
    """A new link takes the old one's name: there is always one.

    :raises OSError: the file system says no.
    """
    new = host.path(partial(*path.rsplit("/", 1)))
    remove(new)
    os.symlink(target, new)
    os.replace(new, host.path(path))
    sync(os.path.dirname(new))


def take_away(host: Host, path: str) -> None:
    """One step takes a tree out of use; what a power cut leaves of the rest is under a name of a half.

    :raises OSError: the file system says no.
    """
    half = host.path(partial(*path.rsplit("/", 1)))
    remove(half)
    _refuse_mounts(host.path(path))
    os.rename(host.path(path), half)
    remove(half)


def remove(path: str) -> None:
    """Whatever has this name; it may be gone. No link is followed.

    :raises OSError: the file system says no, or something is mounted there, whose files are not ours.
    """
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            _refuse_mounts(path)
            shutil.rmtree(path)
        else:
            os.unlink(path)


def _refuse_mounts(path: str) -> None:
    real = os.path.realpath(path)
    for one in mounts.read(Host()):
        if one.point == real or one.point.startswith(real + "/"):
            raise OSError(errno.EBUSY, "{0} is mounted at {1}".format(one.source, one.point), path)


def sync(folder: str) -> None:
    """Have the whole file system of a folder on its disk; one fsync for each of ten thousand files takes minutes."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if library.syncfs(handle) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), folder)
    except AttributeError:
        os.sync()
    finally:
        os.close(handle)


@contextlib.contextmanager
def said(path: str, what: str) -> Iterator[None]:
    """An error of the file system in one sentence: ``path`` could not be ``what``."""
    try:
        yield
    except OSError as error:
        remedy = {
            errno.ENOSPC: "free some space on that file system, then run it again",
            errno.EDQUOT: "free some space on that file system, then run it again",
            errno.EBUSY: "end what uses it and unmount what is mounted there, then run it again",
            errno.EROFS: "remount that file system read-write, then run it again",
        }.get(error.errno or 0, be_root())
        raise NodeError(path, "it could not be {0} ({1})".format(what, error.strerror or error), remedy) from error


@frozen
class PointLink(Action):
    path: str
    target: str

    def describe(self) -> str:
        return "point {0} to {1}".format(self.path, self.target)


@frozen
class RemoveLink(Action):
    path: str

    def describe(self) -> str:
        return "remove the link {0}".format(self.path)


@frozen
class RemoveLeftover(Action):
    path: str

    def describe(self) -> str:
        return "remove {0}, which an interrupted run left".format(self.path)


def shown(links: Iterable[Link], trees: Iterable[str], actions: Iterable[Action]) -> str:
    """A line for each tree and for each link as it is after ``actions``. Pure."""
    after = {one.path: one.target for one in links if one.kind == "link"}
    for one in actions:
        if isinstance(one, PointLink):
            after[one.path] = one.target
        elif isinstance(one, RemoveLink):
            after.pop(one.path, None)
    lines = ["{0}\n".format(path) for path in sorted(trees)]
    return "".join(lines + ["{0} -> {1}\n".format(path, target) for path, target in sorted(after.items())])


def _point_link(host: Host, action: PointLink, other: object = None) -> None:
    with said(action.path, "made"):
        point(host, action.path, action.target)


def _remove_link(host: Host, action: RemoveLink, other: object = None) -> None:
    host.remove(action.path)


def _remove_leftover(host: Host, action: RemoveLeftover, other: object = None) -> None:
    with said(action.path, "removed"):
        remove(host.path(action.path))


STEPS: Mapping[type, Step] = {PointLink: _point_link, RemoveLink: _remove_link, RemoveLeftover: _remove_leftover}
