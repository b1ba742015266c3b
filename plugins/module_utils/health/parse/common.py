# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all parsers share: the error, and numbers that are numbers."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Dict, Iterator, Tuple

from ...core.resource import NodeError

_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)


class ParseError(NodeError):
    """The output of a tool that is not what it writes when it ends well."""

    def __init__(self, tool: str, reason: str) -> None:
        super().__init__("output of " + tool, reason, "run {0} by hand on the node and look at it".format(tool))
        self.tool = tool

    def __reduce__(self) -> Any:
        return type(self), (self.tool, self.reason)

    def beside(self, words: str) -> ParseError:
        """The same error that also tells how the tool ended."""
        return ParseError(self.tool, "{0}: {1}".format(self.reason, words))


def number(tool: str, text: str) -> float:
    """A finite number with a decimal point, as the C locale writes it.

    :raises ParseError: for anything else; a decimal comma is named.
    """
    word = text.strip()
    if not _NUMBER.fullmatch(word):
        shown = word if len(word) <= 30 else word[:27] + "..."
        if re.fullmatch(r"[0-9]+,[0-9]+", word):
            raise ParseError(tool, "{0} has a decimal comma: it was not run in the C locale".format(shown))
        raise ParseError(tool, "{0!r} is no number".format(shown))
    value = float(word)
    if not math.isfinite(value):
        raise ParseError(tool, "{0} is no finite number".format(word))
    return value


def whole(tool: str, text: str) -> int:
    """:raises ParseError: when it is no whole number of a size that occurs."""
    if not re.fullmatch(r"-?[0-9]{1,18}", text.strip(), re.ASCII):
        raise ParseError(tool, "{0!r} is no whole number".format(text.strip()[:30]))
    return int(text)


def plain_number(tool: str, name: str, value: Any) -> float:
    """A number of a JSON document.

    :raises ParseError: when it is none (also true, false, a text, NaN, and what no machine reaches).
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e30 < value < 1e30:
        raise ParseError(tool, "its {0} is no number".format(name))
    return float(value)


def whole_lines(text: str) -> Tuple[str, ...]:
    """The lines without the space around them; a last one that has no end may be half of something and is left out."""
    return tuple(line.strip() for line in text.splitlines(keepends=True) if line.endswith(("\n", "\r")))


# Open MPI's mpirun --tag-output (-tag-output): [job,rank]<stdout>: before each line, see orte/mca/iof of its sources;
# of 5.0 on with the words of PRRTE: [host:1.0]<stdout>:. Launchers (Ray, kubectl) put words of their own before it.
_TAG = re.compile(r"^.{0,80}?\[[^\]\s]{1,80}\]<(stdout|stderr|stddiag)>: ?", re.ASCII)


def untagged(text: str) -> str:
    """An output of which mpirun tagged each line, without the tags, and without what is not of its standard output.

    Text without tags is as it was.
    """
    if ">:" not in text:
        return text
    lines = []
    for line in text.splitlines(keepends=True):
        tag = _TAG.match(line)
        if tag is None or tag.group(1) == "stdout":
            lines.append(line if tag is None else line[tag.end() :])
    return "".join(lines)


def same(one: float, other: float, relative: float, absolute: float = 0.0) -> bool:
    return abs(one - other) <= absolute + relative * max(abs(one), abs(other))


def document(tool: str, text: str) -> Dict[str, Any]:
    """The JSON object in an output; lines before and after it (warnings, notes) are passed over.

    :raises ParseError: when there is none, or it is cut short.
    """
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    reason = "it is empty" if not text.strip() else "there is no JSON object in it"
    for start in _braces(text):
        try:
            found, dummy = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            reason = "its JSON does not end well ({0})".format(str(error)[:80])
            continue
        if isinstance(found, dict) and found:
            return found
    raise ParseError(tool, reason)


def _braces(text: str) -> Iterator[int]:
    """Where an object that stands for itself can begin: at the first visible character of a line, the first few."""
    for count, match in enumerate(re.finditer(r"^[ \t]*\{", text, re.MULTILINE)):
        if count == 8:
            return
        yield match.end() - 1


def _no_constant(name: str) -> Any:
    raise ValueError(name + " is no JSON")
