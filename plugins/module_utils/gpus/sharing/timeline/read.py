# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The events of a trace (Chrome's JSON array of objects), one after another and in little memory.

Horovod writes tensors' names as they are, quotes and all, older versions write no closing bracket, and a job that was
killed leaves half an event: an object that is none is passed over and counted.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import stat
from typing import Any, Callable, Dict, Iterator, Optional

from ....core.resource import NodeError

_CHUNK = 2**20
# A whole event has some hundred bytes; what is longer is none.
_EVENT_MAX = 2**17
# With more of them it is no timeline, and each may take long to be found out.
_DAMAGED_MAX = 10000
_NEXT = re.compile(r"[\n,\[\]}][ \t\r]{0,8}\{")
_BETWEEN = " \t\r\n,[]"


class Damage:
    """``objects``: so many could not be read. ``truncated``: the file ends in the middle of one. ``unread``: so many
    bytes were left."""

    def __init__(self) -> None:
        self.objects = 0
        self.truncated = False
        self.unread = 0


def events(path: str, most: int, damage: Damage) -> Iterator[Dict[str, Any]]:
    """The objects of a file, of its first ``most`` bytes.

    :raises NodeError: it cannot be read, or is no file.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        remedy = "name the file that HOROVOD_TIMELINE named"
        raise NodeError(path, "it cannot be opened ({0})".format(error.strerror), remedy) from error
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise NodeError(path, "it is no file", "name the file that HOROVOD_TIMELINE named")
    with os.fdopen(handle, "rb") as stream:
        left = most

        def more() -> bytes:
            nonlocal left
            try:
                piece = stream.read(min(_CHUNK, left))
            except OSError as error:
                reason = "it cannot be read ({0})".format(error.strerror)
                raise NodeError(path, reason, "copy it elsewhere, then run it again") from error
            left -= len(piece)
            return piece

        yield from parsed(more, damage)
        damage.unread = max(0, found.st_size - stream.tell())


def parsed(more: Callable[[], bytes], damage: Damage) -> Iterator[Dict[str, Any]]:
    """``more`` gives the next piece, empty at the end."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    scanner = json.JSONDecoder(parse_int=_number, parse_constant=float).raw_decode
    text, place, ended = "", 0, False
    while True:
        while place < len(text) and text[place] in _BETWEEN:
            place += 1
        one: Optional[Any] = None
        if place < len(text):
            try:
                one, place = scanner(text, place)
            except (ValueError, RecursionError):
                if ended or len(text) - place > _EVENT_MAX:
                    following = _NEXT.search(text, place + 1)
                    damage.truncated = ended and following is None
                    damage.objects += 1
                    if damage.objects >= _DAMAGED_MAX:
                        return
                    place = following.end() - 1 if following is not None else len(text)
                    continue
            else:
                if isinstance(one, dict):
                    yield one
                else:
                    damage.objects += 1
                continue
        if ended:
            return
        piece = more()
        ended = not piece
        text, place = text[place:] + decode(piece, ended), 0


def _number(digits: str) -> float:
    """What is longer than any time is none, and takes long to be read."""
    return int(digits) if len(digits) <= 18 else float("nan")
