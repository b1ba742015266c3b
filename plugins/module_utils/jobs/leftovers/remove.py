# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove what was judged free. The only place with effects.

Each one is looked at again right before and right after it is moved into a trash of root's, by what it is and not by
its name: what was taken by a job meanwhile, or is another thing by now, stays. The trash is emptied by a process of its
own (:mod:`...core.root_folders`), which follows no link.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Callable, ContextManager, Iterable, Iterator, List, Optional, Sequence, Tuple

from ...core import declaration, root_folders, shares
from ...core.child import ChildDied, collect
from ...core.frozen import frozen, replaced
from ...core.host import Host
from ...core.resource import NodeError
from ...slurm import jobs as notes
from ...slurm import on_node
from ...slurm.running import has_cgroup
from ...slurm.types import Jobs
from . import devices
from .in_use import in_use
from .places import SHARED
from .types import BESIDE_JOBS, CLOCKS, CONTAINERS, CORE_DUMPS, JOB_FOLDERS, TMP_FILES, Leftover, Place

LOCK = "cleanup"
_LOCK_SECONDS, _USER_SECONDS = 5.0, 20.0
_HANG_SECONDS, _EMPTY_SECONDS = 30.0, 20.0
# Who waits for a lock tries it ten times a second.
_TURN_SECONDS = 0.3
CHANGED = "it was taken or changed meanwhile"
NEXT_RUN = "this run took too long, and the next one removes it"
# Each removal looks at all processes twice, which takes seconds on a node with many.
_REMOVE_SECONDS = 600.0


@frozen
class Done:
    """``why`` it stays; "" where it went."""

    leftover: Leftover
    why: str = ""

    @property
    def failed(self) -> bool:
        """It should have gone: what a job or a user took meanwhile should not."""
        return self.why not in ("", CHANGED, NEXT_RUN)


def remove(host: Host, chosen: Sequence[Leftover]) -> Tuple[Done, ...]:
    """:raises LockHeld: another run is at it.
    :raises NodeError: there can be no lock, or the declaration cannot be read.
    """
    done: List[Done] = []
    with host.lock(LOCK, _LOCK_SECONDS):
        of = shares.owner(host)
        turns = shares.in_turn(chosen, lambda one: None if one.identity is None else of(one.identity.uid))
        deadline = time.monotonic() + _REMOVE_SECONDS
        for one in turns:
            if one.kind != CLOCKS:
                done.append(Done(one, _one(host, one) if time.monotonic() < deadline else NEXT_RUN))
        places = [one.place for one in chosen if one.place is not None]
        # Those of everybody's folders in any case: nobody else empties what a run that was killed has left there.
        places += [Place(top, (), "", shared=True) for top in SHARED if os.path.isdir(host.path(top))]
        for place in {(place.top, place.folders): place for place in places}.values():
            _in_child(lambda place=place: _empty(host, place))  # type: ignore[misc]
        done += _clocks(host, [one for one in chosen if one.kind == CLOCKS])
    return tuple(done)


def _empty(host: Host, place: Place) -> Iterator[str]:
    """Small things are gone when this ends; millions of files go on being removed after it."""
    deadline = time.monotonic() + _EMPTY_SECONDS
    with _above(host, place) as above:
        if above is None:
            return
        root_folders.put_back(above)
        while root_folders.has_trash(above) and time.monotonic() < deadline:
            root_folders.empty_trash(above)
            time.sleep(0.05)
        if place.shared:
            with contextlib.suppress(OSError):
                os.rmdir(root_folders.TRASH, dir_fd=above)
    yield from ()


def _one(host: Host, one: Leftover) -> str:
    try:
        with _turn(host, one):
            return _moved(host, one)
    except NodeError as error:
        return str(error)


def _turn(host: Host, one: Leftover) -> ContextManager[Any]:
    """The folders of a user's containers are made and removed by hooks under the user's lock."""
    if one.kind != CONTAINERS or not one.owners:
        return contextlib.nullcontext()
    stack = contextlib.ExitStack()
    try:
        for uid in sorted(one.owners):
            stack.enter_context(host.lock("user-{0}".format(uid), _USER_SECONDS))
        stack.enter_context(_prompt())
    except BaseException:
        stack.close()
        raise
    return stack


def _moved(host: Host, one: Leftover) -> str:
    place, identity = one.place, one.identity
    if place is None or identity is None:
        return "it is gone"

    def act() -> Iterator[str]:
        with _above(host, place) as above:
            if above is None:
                yield "a folder above it is not root's any more"
            elif not root_folders.discard_same(host, above, place.name, identity, lambda name: free(host, one, name)):
                yield CHANGED

    return _in_child(act)


def _in_child(act: Callable[[], Iterable[str]]) -> str:
    """A disk may hang. What went wrong, in sentences."""

    def task(dummy: Any) -> Iterator[str]:
        try:
            yield from act()
        except NodeError as error:
            yield str(error)
        except OSError as error:
            yield "it cannot be removed ({0})".format(error.strerror or error)

    try:
        done = collect(task, _HANG_SECONDS)
    except ChildDied as error:
        return str(error)
    if done.hung_at is not None:
        return "it did not answer within {0:g} s".format(_HANG_SECONDS)
    return "; ".join(done.items)


@contextlib.contextmanager
def _above(host: Host, place: Place) -> Iterator[Optional[int]]:
    """The handle of the folder that it lies in."""
    if not place.shared:
        with root_folders.opened(host, place.top, place.folders, make=False) as found:
            yield found
        return
    handle = os.open(host.path(place.top), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def free(host: Host, one: Leftover, moved: str = "") -> bool:
    """Whether nothing has changed since it was judged, by facts that a node has at once: a prolog notes its job before
    it creates or takes anything. ``moved``: its name in the trash, which the kernel shows for its files by now."""
    if one.kind == JOB_FOLDERS:
        return notes.read(host, one.job or 0) is None and not has_cgroup(host, str(one.job))
    return _free(one, on_node.here(host), lambda: _may_be_used(host, one, moved))


def _may_be_used(host: Host, one: Leftover, moved: str = "") -> bool:
    places = [one]
    if moved and one.place is not None:
        place = replaced(one.place, folders=(*one.place.folders, root_folders.TRASH), name=moved)
        # Its old name counts, too: a process may name an environment, or come by a link.
        places.append(replaced(one, kind=TMP_FILES, place=place))
    found, whole = in_use(host, places)
    return bool(found) or not whole


def _free(one: Leftover, now: Jobs, used: Callable[[], bool]) -> bool:
    if one.kind not in BESIDE_JOBS and now.names:
        return False
    if one.kind != CORE_DUMPS and (one.owners is None or one.owners - {0} & (now.users | now.processes)):
        return False
    return one.kind == CONTAINERS or one.place is None or not used()


def _clocks(host: Host, chosen: Sequence[Leftover]) -> List[Done]:
    if not chosen:
        return []
    declared = declaration.read(host)
    try:
        still = devices.held_clocks(host, declared)
    except NodeError as error:
        return [Done(one, str(error)) for one in chosen]
    done: List[Done] = []
    for one in chosen:
        if one.what not in still:
            done.append(Done(one, CHANGED))
            continue
        if done:
            time.sleep(_TURN_SECONDS)
        try:
            # As the hooks: no prolog raises clocks meanwhile. It waits for one GPU at most.
            with host.lock("jobs", _USER_SECONDS), _prompt():
                told = devices.return_clocks(host, one.what, still[one.what], declared)
        except NodeError as error:
            told = str(error)
        done.append(Done(one, CHANGED if told is None else told))
    return done


@contextlib.contextmanager
def _prompt() -> Iterator[None]:
    """The timer runs at the lowest priority, at which a busy machine would keep a hook waiting for a lock of ours."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    if before > 0:
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, 0)
    try:
        yield
    finally:
        if before > 0:
            os.setpriority(os.PRIO_PROCESS, 0, before)
