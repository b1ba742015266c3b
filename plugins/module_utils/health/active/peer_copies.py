# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies between GPUs, in one child process that sees all of them: rounds of pairs, then all GPUs at once.

After each round the data that arrived is compared with the data that was sent. After most errors CUDA answers nothing
more in a process, so a new one goes on without the GPU that failed.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from typing import Callable, Dict, FrozenSet, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Type, Union

from ...core.child import ChildDied, Report, at, collect
from ...core.resource import NodeError
from . import apart, copies, paths
from .contents import Contents, Sample
from .copies import Copy
from .cuda import TOO_MANY_PEERS, Cuda, CudaError, Device, PtxRefused
from .readings import Reading, unmeasured

_STEP_SECONDS = 30.0  # of one call: a context on a machine with much memory takes some seconds
_SIZE = 256 * 2**20
_STUCK = "look at the kernel log for an Xid, then reset the GPUs that it names"
_MOST_PROCESSES = 4  # a copy that hangs takes _STEP_SECONDS in each
Pair = Tuple[int, int]
Things = Tuple[Tuple[str, str], ...]


def label_of(things: Things, pair: Pair) -> str:
    return "{0} to {1}".format(things[pair[0]][0], things[pair[1]][0])


def key_of(things: Things, pair: Pair) -> str:
    return "{0}>{1}".format(things[pair[0]][1], things[pair[1]][1])


@dataclasses.dataclass(frozen=True)
class Copied:
    """One pair. ``changed``: how the data that arrived differs, or ""."""

    pair: Pair
    together: bool
    rate: Optional[float]
    changed: str = ""


@dataclasses.dataclass(frozen=True)
class Result:
    """``silent``: what could not be copied. ``failed``: the GPUs (places in the list) that were left out in the end.
    ``complete``: all pairs were copied, apart from those of ``silent`` and ``failed``. ``by_host``: why the host
    compares, or ""."""

    copied: Tuple[Copied, ...] = ()
    silent: Tuple[Reading, ...] = ()
    failed: FrozenSet[int] = frozenset()
    complete: bool = True
    by_host: str = ""


def copy_all(
    things: Things, uuids: Sequence[str], alone: Sequence[Sequence[Pair]], seconds: Optional[float] = None
) -> Result:
    """``alone``: rounds of pairs. ``seconds``: of the whole check, if there is a budget.

    What fails, a GPU or a pair, is left out of the next process, a pair in both directions; after a second pair of the
    same GPU, that GPU is.
    """
    began = time.monotonic()
    left_out = _LeftOut(things)
    copied: Dict[Tuple[Pair, bool], Copied] = {}
    by_host, complete, processes = "", False, 0
    while processes < _MOST_PROCESSES:
        processes += 1
        chosen = [number for number in range(len(things)) if number not in left_out.gpus]
        if len(chosen) < 2:
            complete = True
            break
        items, error, over = _one_process(things, uuids, alone, chosen, left_out, set(copied))
        for item in items:
            if isinstance(item, Copied):
                before = copied.get((item.pair, item.together))
                changed = item.changed or (before.changed if before is not None else "")
                copied[item.pair, item.together] = dataclasses.replace(item, changed=changed)
            else:
                by_host = item
        if error is None:
            complete = True
            break
        # A process that cannot be ended holds its GPUs; and with a budget, all copies must fit into the rest of it.
        late = seconds is not None and 2 * (time.monotonic() - began) > seconds
        if not left_out.take(error) or over or late:
            break
    return Result(tuple(copied.values()), left_out.readings(), frozenset(left_out.gpus), complete, by_host)


class _LeftOut:
    """What failed by now, and what the next process does without."""

    def __init__(self, things: Things) -> None:
        self._things = things
        self.gpus: Dict[int, Reading] = {}
        self.pairs: Dict[Pair, Reading] = {}
        self._others: List[Reading] = []

    def take(self, error: Reading) -> bool:
        """False: it names neither a GPU nor a pair, so the next process would fail, too."""
        names = [name for name, dummy in self._things]
        if error.thing in names:
            self._without(names.index(error.thing), error)
            return True
        for pair in _pairs(len(self._things)):
            if error.thing == label_of(self._things, pair):
                common = {
                    number for other in self.pairs if set(other) != set(pair) for number in set(other) & set(pair)
                }
                for number in common:
                    name, key = self._things[number]
                    reason = "{0} (from {1})".format(error.reason, error.thing)
                    self._without(number, dataclasses.replace(error, thing=name, key=key, reason=reason))
                if not common:
                    self.pairs[pair] = error
                return True
        self._others.append(error)
        return False

    def _without(self, number: int, error: Reading) -> None:
        self.gpus[number] = error
        self.pairs = {pair: one for pair, one in self.pairs.items() if number not in pair}

    def readings(self) -> Tuple[Reading, ...]:
        return (*self.gpus.values(), *self.pairs.values(), *self._others)


def _one_process(
    things: Things,
    uuids: Sequence[str],
    alone: Sequence[Sequence[Pair]],
    chosen: Sequence[int],
    left_out: _LeftOut,
    done: Set[Tuple[Pair, bool]],
) -> Tuple[List[Union[Copied, str]], Optional[Reading], bool]:
    """What the GPUs ``chosen`` gave, what ended it early, and whether a process was left that cannot be ended. Pairs
    have the places of the whole list; in the process, devices are numbered anew."""
    place = {number: at_place for at_place, number in enumerate(chosen)}
    wanted = [
        [(place[one], place[other]) for one, other in pairs if one in place and other in place]
        for pairs in ([pair for pair in pairs if (pair, False) not in done] for pairs in alone)
    ]
    without = [
        (place[one], place[other])
        for pair in left_out.pairs
        for one, other in (pair, pair[::-1])
        if one in place and other in place
    ]
    names = tuple(things[number] for number in chosen)
    task = functools.partial(_in_child, names, [uuids[number] for number in chosen], wanted, without)
    at(apart.together([name for name, dummy in names], len(names)))
    left = False
    try:
        ended = collect(task, _STEP_SECONDS)
    except ChildDied as error:
        items, reason, label = error.items, "the process that copied died", error.thing
    else:
        items, label, left = ended.items, ended.hung_at or "", ended.left
        reason = "copying did not end within {0:g} s".format(_STEP_SECONDS)
    finally:
        at("")
    failed = next((item for item in items if isinstance(item, Reading)), None)
    if label:
        failed = Reading(label, _keys(things).get(label, ""), reason=reason, remedy=_STUCK)
    copied = [
        dataclasses.replace(item, pair=(chosen[item.pair[0]], chosen[item.pair[1]]))
        if isinstance(item, Copied)
        else item
        for item in items
        if not isinstance(item, Reading)
    ]
    return copied, failed, left


def _pairs(count: int) -> List[Pair]:
    return [(one, other) for one in range(count) for other in range(count) if one != other]


def _keys(things: Things) -> Mapping[str, str]:
    """The key of each label that is reported."""
    return dict(things, **{label_of(things, pair): key_of(things, pair) for pair in _pairs(len(things))})


def _in_child(
    things: Things,
    uuids: Sequence[str],
    alone: Sequence[Sequence[Pair]],
    without: Sequence[Pair],
    report: Report,
) -> Iterator[Union[Copied, Reading, str]]:
    """Why the host compares, then what each round gives. An error ends it."""
    label = "CUDA"

    def say(text: str) -> None:
        nonlocal label
        label = text
        report(text)

    try:
        apart.become(uuids)
        cuda = Cuda()
        cuda.shows(len(uuids))
        peers = PeerCopies(cuda, things, say, without)
        yield peers.by_host
        for pair in peers.apart_from:
            yield Copied(pair, False, None)
        for pairs in alone:
            yield from peers.round(pairs, False)
        for pairs in paths.shifted(len(things)):
            yield from peers.round(pairs, True)
    except NodeError as error:
        yield unmeasured(label, _keys(things).get(label, ""), error)


class PeerCopies:
    """Copies between all devices that this process sees, but for the pairs ``without``; each target asks for its copy.
    ``say`` is called with a label before each call that may hang."""

    def __init__(
        self,
        cuda: Cuda,
        things: Things,
        say: Callable[[str], None],
        without: Sequence[Pair] = (),
        most: int = _SIZE,
    ) -> None:
        self._things, self._say = things, say
        self._devices: List[Device] = []
        for number in range(len(things)):
            say(things[number][0])
            self._devices.append(cuda.open(number))
        self._size = copies.size_for(most, min(device.memory_sizes()[0] for device in self._devices))
        #: Why the host compares a sample of what arrives; "" where the GPUs compare all of it.
        self.by_host = ""
        self._contents: List[Union[Contents, Sample]] = []
        for kind in (Contents, Sample):
            try:
                self._contents = [self._content(kind, number) for number in range(len(things))]
                break
            except PtxRefused as error:
                self.by_host = error.reason
        #: The pairs of which the target cannot read from the source.
        self.apart_from: List[Pair] = []
        # Those that are not copied, and those for which the target has too many peers: nothing is known of them.
        self._beyond: List[Pair] = list(without)
        for one, source in enumerate(self._devices):
            for other, target in enumerate(self._devices):
                if (one, other) in self._beyond:
                    continue
                say(label_of(things, (one, other)) if one != other else things[one][0])
                try:
                    if one != other and not target.reaches(source):
                        self.apart_from.append((one, other))
                except CudaError as error:
                    if error.result != TOO_MANY_PEERS:
                        raise
                    self._beyond.append((one, other))

    def _content(self, kind: Type[Union[Contents, Sample]], number: int) -> Union[Contents, Sample]:
        self._say(self._things[number][0])
        return kind(self._devices[number], self._size, number)

    def round(self, pairs: Sequence[Pair], together: bool) -> Iterator[Copied]:
        """All pairs at the same time, of which each GPU is the target of one at the most."""
        pairs = [pair for pair in pairs if pair not in self.apart_from and pair not in self._beyond]
        asked = [self._copy(pair) for pair in pairs]
        for pair in pairs:
            self._say(self._things[pair[1]][0])
            self._contents[pair[1]].clear()
        rates = copies.rates(asked, copies.seconds(asked, self._say)) if asked else []
        for pair, rate in zip(pairs, rates):
            self._say(self._things[pair[1]][0])
            yield Copied(pair, together, rate, self._contents[pair[1]].changed(pair[0]))

    def _copy(self, pair: Pair) -> Copy:
        source, target = (self._devices[number] for number in pair)
        there, here = self._contents[pair[0]].sent, self._contents[pair[1]].received
        arguments = (here, target.context, there, source.context, self._size)
        return Copy(target, "cuMemcpyPeerAsync", arguments, self._size, label_of(self._things, pair))
