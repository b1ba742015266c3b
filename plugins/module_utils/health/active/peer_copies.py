# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies between GPUs, in one child process that sees all of them: rounds of pairs, then all GPUs at once.

After each round the data that arrived is compared with the data that was sent.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Callable, Iterator, List, Mapping, Optional, Sequence, Tuple, Type, Union

from ...core.child import ChildDied, Report, at, collect
from ...core.resource import NodeError
from . import apart, copies, paths
from .contents import Contents, Sample
from .copies import Copy
from .cuda import TOO_MANY_PEERS, Cuda, CudaError, Device, PtxRefused
from .readings import Reading, unmeasured

_STEP_SECONDS = 30.0  # of one call: a context on a machine with much memory takes some seconds
_SIZE = 256 * 2**20
_STUCK = "look at the kernel log for an Xid of either GPU, then reset both; the pairs after it were not measured"
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


def copy_all(
    things: Things, uuids: Sequence[str], alone: Sequence[Sequence[Pair]]
) -> Tuple[Tuple[Copied, ...], Tuple[Reading, ...], str]:
    """What was copied by then, what could not be, and why the host compares."""
    task = functools.partial(_in_child, things, uuids, alone)
    at(apart.together([name for name, dummy in things], len(things)))
    try:
        done = collect(task, _STEP_SECONDS)
    except ChildDied as error:
        items, reason, label = error.items, "the process that copied died", error.thing
    else:
        items, label = done.items, done.hung_at or ""
        reason = "copying did not end within {0:g} s".format(_STEP_SECONDS)
    finally:
        at("")
    copied = tuple(item for item in items if isinstance(item, Copied))
    silent = tuple(item for item in items if isinstance(item, Reading))
    if label:
        silent += (Reading(label, _keys(things).get(label, ""), reason=reason, remedy=_STUCK),)
    return copied, silent, next((item for item in items if isinstance(item, str)), "")


def _keys(things: Things) -> Mapping[str, str]:
    """The key of each label that is reported."""
    both = [(one, other) for one in range(len(things)) for other in range(len(things)) if one != other]
    return dict(things, **{label_of(things, pair): key_of(things, pair) for pair in both})


def _in_child(
    things: Things, uuids: Sequence[str], alone: Sequence[Sequence[Pair]], report: Report
) -> Iterator[Union[Copied, Reading, str]]:
    """Why the host compares, then what each round gives.

    An error ends it: after most of them CUDA answers nothing more in this process.
    """
    label = "CUDA"

    def say(text: str) -> None:
        nonlocal label
        label = text
        report(text)

    try:
        apart.become(uuids)
        cuda = Cuda()
        cuda.shows(len(uuids))
        peers = PeerCopies(cuda, things, say)
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
    """Copies between all devices that this process sees; each target asks for its copy. ``say`` is called with a label
    before each call that may hang."""

    def __init__(self, cuda: Cuda, things: Things, say: Callable[[str], None], most: int = _SIZE) -> None:
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
        # Those for which the target has too many peers already: nothing is known of them.
        self._beyond: List[Pair] = []
        for one, source in enumerate(self._devices):
            for other, target in enumerate(self._devices):
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
            self._contents[pair[1]].clear()
        rates = copies.rates(asked, copies.seconds(asked, self._say)) if asked else []
        for pair, rate in zip(pairs, rates):
            self._say(label_of(self._things, pair))
            yield Copied(pair, together, rate, self._contents[pair[1]].changed(pair[0]))

    def _copy(self, pair: Pair) -> Copy:
        source, target = (self._devices[number] for number in pair)
        there, here = self._contents[pair[0]].sent, self._contents[pair[1]].received
        arguments = (here, target.context, there, source.context, self._size)
        return Copy(target, "cuMemcpyPeerAsync", arguments, self._size, label_of(self._things, pair))
