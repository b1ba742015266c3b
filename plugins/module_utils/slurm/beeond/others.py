# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the other nodes of a job note of its file system, asked by ssh, many side by side."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from typing import IO, Dict, List, Mapping, Optional, Sequence, Tuple, cast

from ...core.frozen import frozen
from ...core.host import Host
from ...core.resource import NodeError
from . import note, rules
from .rules import Instance
from .stop import kill_group

_SSH_SECONDS = 10.0
_ASK_AGAIN_SECONDS = 1.0
_SIDE_BY_SIDE = 32
_GLANCE_SECONDS = 0.2
# Keys of hosts have to be known here, although beeond itself takes any: so it is never let loose on a stranger.
_SSH = ("-qq", "-oBatchMode=yes", "-oConnectTimeout=5")


@frozen
class Answer:
    """``wrong``: why there is no ``text``."""

    text: str = ""
    wrong: str = ""


class _Question:
    """One ssh that reads one file."""

    def __init__(self, ssh: str, node: str, path: str) -> None:
        self.node, self.until = node, time.monotonic() + _SSH_SECONDS
        self._text = b""
        self._process = subprocess.Popen(  # pylint: disable=consider-using-with  # closed by end()
            [ssh, *_SSH, node, "cat", path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(os.environ, LC_ALL="C"),
            start_new_session=True,
        )
        self._stream = cast(IO[bytes], self._process.stdout)
        self.handle = self._stream.fileno()

    def take_in(self) -> bool:
        """Whether there is more to come."""
        chunk = os.read(self.handle, 65536)
        self._text += chunk
        return bool(chunk)

    def answer(self) -> Answer:
        """After the last of its text."""
        try:
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return Answer(wrong="ssh to it does not end")
        if status == 255:
            return Answer(wrong="ssh to it fails")
        return Answer(self._text.decode("utf-8", "replace")) if status == 0 else Answer()

    def end(self) -> None:
        if self._process.poll() is None:
            kill_group(self._process.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)
        self._stream.close()


def ask(host: Host, path: str, nodes: Sequence[str], until: float) -> Mapping[str, Answer]:
    """This file of each node, empty where it is not there. ``until``: when to stop, on the monotonic clock; the nodes
    that were not asked by then are missing.

    :raises NodeError: there is no ssh.
    """
    ssh = host.which("ssh")
    if ssh is None:
        raise NodeError("ssh", "the program ssh is not installed", "")
    found: Dict[str, Answer] = {}
    waiting: List[str] = list(nodes)
    asked: List[_Question] = []
    with selectors.DefaultSelector() as selector:
        try:
            while (waiting or asked) and time.monotonic() < until:
                while waiting and len(asked) < _SIDE_BY_SIDE:
                    asked.append(_Question(ssh, waiting.pop(0), path))
                    selector.register(asked[-1].handle, selectors.EVENT_READ, asked[-1])
                ready = {key.data for key, dummy in selector.select(_GLANCE_SECONDS)}
                for one in tuple(asked):
                    late = time.monotonic() > one.until
                    if late or (one in ready and not one.take_in()):
                        limit = "ssh to it takes longer than {0:g} s".format(_SSH_SECONDS)
                        found[one.node] = Answer(wrong=limit) if late else one.answer()
                        selector.unregister(one.handle)
                        asked.remove(one)
                        one.end()
        finally:
            for one in asked:
                one.end()
    return found


def all_ready(host: Host, one: Instance, deadline: float) -> Tuple[Instance, ...]:
    """What the others note once all of them are ready.

    :raises NodeError: one takes no part, or has not begun in time.
    """
    theirs: Dict[str, Instance] = {}
    wrong: Dict[str, str] = {}
    left = one.nodes[1:]
    until = time.monotonic() + deadline - time.time()
    while True:
        for node, answer in ask(host, note.path(one.job), left, until).items():
            noted = note.parsed(answer.text, one.job)
            wrong[node] = answer.wrong
            if noted is not None:
                theirs[node] = noted
        refused, left = rules.agreement(one, theirs)
        if refused:
            raise NodeError(one.starter, refused, "")
        if not left:
            return tuple(theirs[node] for node in one.nodes[1:])
        if time.monotonic() + _ASK_AGAIN_SECONDS > until:
            raise NodeError(one.starter, rules.late(left, wrong), "")
        time.sleep(_ASK_AGAIN_SECONDS)


def starters(host: Host, one: Instance) -> Tuple[bool, Optional[Instance]]:
    """Whether the starter answered, and what it notes."""
    until = time.monotonic() + _SSH_SECONDS
    answer = ask(host, note.path(one.job), (one.starter,), until).get(one.starter, Answer(wrong="not asked"))
    return not answer.wrong, note.parsed(answer.text, one.job)
