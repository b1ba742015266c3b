# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is collected, and what came of it."""

from __future__ import annotations

from typing import Any, Callable, Tuple, Union

from ...core.frozen import frozen
from ...core.host import Host

MIB = 2**20


@frozen
class Context:
    """``hours``: how far back logs are told. ``now`` in seconds since 1970. ``version`` of gpunode."""

    node: str
    now: float
    hours: float
    version: str

    @property
    def since(self) -> float:
        return self.now - self.hours * 3600


@frozen
class Files:
    """Files of the node by patterns of :mod:`glob`; no link is followed in the last place."""

    patterns: Tuple[str, ...]


@frozen
class Commands:
    """Programs with their arguments, one after another; those that there are not are passed over."""

    argvs: Tuple[Tuple[str, ...], ...]


@frozen
class Told:
    """A text as it was read. ``reason``: why there is not all of it. ``cut_bytes``: so many did not fit."""

    text: str
    reason: str = ""
    cut_bytes: int = 0


@frozen
class Call:
    """What the library tells: a :class:`Told`, :class:`Files` that are to be read, or a document that becomes JSON.
    None: there is nothing of it on this node."""

    function: Callable[[Host, Context], Any]


@frozen
class Part:
    """One file of the archive. Parts of a lane wait for each other, lanes run side by side.

    ``seconds`` is its time limit, ``most`` how many bytes of it are kept: the last ones where ``tail``. ``named``:
    processes of users may be named in it, and their names are hidden.
    """

    name: str
    file: str
    title: str
    lane: str
    source: Union[Files, Commands, Call]
    seconds: float = 20.0
    most: int = MIB
    tail: bool = False
    named: bool = False


# ``partly``: it broke off, or a piece of it could not be read. ``none``: this node has no such thing.
WHOLE, CUT, NONE, PARTLY, FAILED = "whole", "cut", "none", "partly", "failed"
INCOMPLETE = (PARTLY, FAILED)


@frozen
class Collected:
    """What came of a part; its text is clean. ``reason`` says why it is not whole. ``hidden`` counts secrets."""

    part: Part
    status: str
    text: str = ""
    reason: str = ""
    cut_bytes: int = 0
    hidden: int = 0
    seconds: float = 0.0
