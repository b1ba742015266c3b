# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read an XML file by the rules of NCCL's own small parser (src/graph/xml.cc), which are stricter than XML's. Pure."""

from __future__ import annotations

import dataclasses
import re
from typing import Iterator, List, Optional, Tuple, Union

# Blanks and line ends part elements, one blank parts attributes; a tab, a declaration (<?xml) or text is an error.
_TAG = re.compile(r'<(/?)([A-Za-z0-9_]+)((?: +[A-Za-z0-9_]+=(?:"[^"]*"|\'[^\']*\'))*)(?: *(/))?>')
_ATTRIBUTE = re.compile(r' +([A-Za-z0-9_]+)=(?:"([^"]*)"|\'([^\']*)\')')
LONGEST_VALUE = 253  # MAX_STR_LEN of xml.h is 254, with its end
_MOST_ATTRIBUTES = 16
_MOST_INSIDE = 640


class Malformed(Exception):
    """NCCL could not read this; the text says where and why."""


@dataclasses.dataclass
class Element:
    name: str
    attributes: Tuple[Tuple[str, str], ...]
    inside: List["Element"]

    def get(self, key: str) -> Optional[str]:
        return dict(self.attributes).get(key)

    def walk(self) -> Iterator["Element"]:
        """This element and all below it, in the order of the file."""
        rest = [self]
        while rest:
            one = rest.pop()
            yield one
            rest += reversed(one.inside)


def read(text: str) -> Element:
    """The first element on the top level.

    :raises Malformed: where NCCL would give up.
    """
    top = Element("", (), [])
    open_ones = [top]
    for found, line in _tokens(text):
        closing, name, attributes, single = found
        if closing:
            if len(open_ones) == 1 or open_ones[-1].name != name:
                raise Malformed("line {0}: </{1}> closes nothing that is open".format(line, name))
            open_ones.pop()
            continue
        element = Element(name, attributes, [])
        open_ones[-1].inside.append(element)
        if len(open_ones[-1].inside) > _MOST_INSIDE:
            raise Malformed("line {0}: more than {1} elements in one".format(line, _MOST_INSIDE))
        if not single:
            open_ones.append(element)
    if len(open_ones) > 1:
        raise Malformed("<{0}> is never closed".format(open_ones[-1].name))
    if not top.inside:
        raise Malformed("there is no element in it")
    return top.inside[0]


_Token = Tuple[Union[str, bool], str, Tuple[Tuple[str, str], ...], bool]


def _tokens(text: str) -> Iterator[Tuple[_Token, int]]:
    place = 0
    while True:
        while place < len(text) and text[place] in " \n\r":
            place += 1
        if place == len(text):
            return
        line = text.count("\n", 0, place) + 1
        if text.startswith("<!--", place):
            end = text.find("-->", place + 4)
            if end < 0:
                raise Malformed("line {0}: the comment never ends".format(line))
            place = end + 3
            continue
        found = _TAG.match(text, place)
        if found is None:
            shown = text[place : place + 30].splitlines()[0]
            raise Malformed("line {0}: NCCL cannot read {1!r}".format(line, shown))
        attributes = tuple((key, one or other) for key, one, other in _ATTRIBUTE.findall(found.group(3)))
        if len(attributes) > _MOST_ATTRIBUTES:
            raise Malformed("line {0}: more than {1} attributes".format(line, _MOST_ATTRIBUTES))
        if any(len(value) > LONGEST_VALUE for dummy, value in attributes):
            raise Malformed("line {0}: a value of more than {1} characters".format(line, LONGEST_VALUE))
        yield (bool(found.group(1)), found.group(2), attributes, bool(found.group(4))), line
        place = found.end()
