# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The syntax that slurm.conf, gres.conf and cgroup.conf share, as Slurm's ``src/common/parse_config.c`` reads it. Pure.

A line is a row of ``Key=value``, keys in any case, values with blanks in double quotes. ``#`` begins a comment unless a
backslash stands before it, and a backslash at the end joins the next line. ``Include FILE`` puts another file in place
of the line, by a name that counts from the folder of slurm.conf, wherever the file with the line lies. ``%c`` in that
name is the ClusterName of an earlier line, in small letters.
"""

from __future__ import annotations

import posixpath
import re
from typing import Callable, Dict, List, Optional, Tuple

from ..core.frozen import frozen

_DEEPEST = 8  # files that include one another
_INCLUDE = re.compile(r"include[ \t]+(\S+)", re.IGNORECASE)
# scontrol numbers the values of a key that slurm.conf has more than once: ``Prolog[0]``.
_NUMBERED = re.compile(r"^(\s*\w+)\[\d+\](?=\s*=)")
_PAIR = re.compile(r"\s*([A-Za-z0-9_.]+)\s*[-*+/]?=\s*(?:\"([^\"]*)\"|(\S+))(?=\s|$)")


@frozen
class Text:
    """Logical lines with includes in their place; ``missing``: included files that are not there (fatal to Slurm)."""

    lines: Tuple[str, ...] = ()
    missing: Tuple[str, ...] = ()
    included: Tuple[str, ...] = ()


def read(path: str, look: Callable[[str], Optional[str]], folder: Optional[str] = None) -> Optional[Text]:
    """A file with its includes; ``folder`` is that of slurm.conf. None when there is no such file."""
    text = look(path)
    if text is None:
        return None
    lines: List[str] = []
    missing: List[str] = []
    included: List[str] = []
    _expand(text, folder or posixpath.dirname(path), look, (path,), lines, missing, included)
    return Text(tuple(lines), tuple(missing), tuple(included))


def of(text: str) -> Text:
    """A text without its includes, such as the output of scontrol."""
    return Text(tuple(_NUMBERED.sub(r"\1", line) for line in _logical(text) if not _INCLUDE.match(line)))


def _expand(
    text: str,
    folder: str,
    look: Callable[[str], Optional[str]],
    chain: Tuple[str, ...],
    lines: List[str],
    missing: List[str],
    included: List[str],
) -> None:
    for line in _logical(text):
        found = _INCLUDE.match(line)
        if found is None:
            lines.append(line)
            continue
        path = posixpath.normpath(posixpath.join(folder, _with_cluster(found.group(1), lines)))
        inner = None if path in chain or len(chain) > _DEEPEST else look(path)
        if inner is None:
            missing.append(path)
            continue
        included.append(path)
        _expand(inner, folder, look, (*chain, path), lines, missing, included)


def _with_cluster(name: str, lines: List[str]) -> str:
    """``%c`` stays if no earlier line has a ClusterName; Slurm reports an error then (``_parse_for_format``)."""
    clusters = values(Text(tuple(lines)), "clustername") if "%c" in name else ()
    return name.replace("%c", clusters[-1].lower()) if clusters else name


def _logical(text: str) -> List[str]:
    found: List[str] = []
    joined = ""
    for physical in text.split("\n"):
        line = re.sub(r"(?<!\\)((?:\\\\)*)#.*", r"\1", physical).rstrip()
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            joined += line[:-1]
            continue
        whole = re.sub(r"\\(.?)", r"\1", joined + line)
        joined = ""
        if whole.strip():
            found.append(whole)
    whole = re.sub(r"\\(.?)", r"\1", joined)
    return [*found, whole] if whole.strip() else found


def pairs(line: str) -> Tuple[Tuple[Tuple[str, str], ...], str]:
    """(keys in small letters with their values, what Slurm cannot read behind them)."""
    found: List[Tuple[str, str]] = []
    place = 0
    while True:
        match = _PAIR.match(line, place)
        if match is None:
            return tuple(found), line[place:].strip()
        value = match.group(2) if match.group(2) is not None else match.group(3)
        found.append((match.group(1).lower(), value))
        place = match.end()


def values(text: Text, key: str) -> Tuple[str, ...]:
    """The values of a key of its own line, such as ``PrologFlags``, in their order; the key in small letters.

    Slurm takes one key from such a line and rejects a file with a second one (``_parse_next_key``, 22.05 to 26.05).
    """
    return tuple(value for value, dummy in records(text, key))


def records(text: Text, key: str) -> Tuple[Tuple[str, Dict[str, str]], ...]:
    """The lines that begin with this key, such as ``nodename``: its value and the other keys of the line."""
    rows = [pairs(line)[0] for line in text.lines]
    return tuple((row[0][1], dict(row[1:])) for row in rows if row and row[0][0] == key)
