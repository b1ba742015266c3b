# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read one part, and clean it. All of this happens in a child process: what is not clean never leaves it."""

from __future__ import annotations

import glob
import json
import os
import stat
from typing import Any, List, Optional, Tuple

from ...core.host import Host
from ...core.resource import NodeError
from . import tool
from .processes import texts_without_names, without_names
from .secrets import Filter, after_cut, before_cut
from .types import CUT, FAILED, NONE, PARTLY, WHOLE, Call, Collected, Commands, Context, Files, Part, Told

_FILES_MAX = 200
# A moment before the limit of the part, so that what a tool had printed by then is not lost.
_BEFORE_SECONDS = 3.0


def collect(host: Host, part: Part, context: Context, known: Tuple[str, ...]) -> Collected:
    """Nothing is raised: a part that fails costs itself."""
    clean = Filter(known)
    try:
        return _collected(host, part, context, clean)
    except NodeError as error:
        reason = str(error)
    except Exception as error:
        reason = "it failed ({0}: {1})".format(type(error).__name__, error)
    return Collected(part, FAILED, reason=clean.text(" ".join(reason.split())), hidden=clean.hidden)


def _collected(host: Host, part: Part, context: Context, clean: Filter) -> Collected:
    source: Any = part.source
    if isinstance(source, Call):
        source = source.function(host, context)
    if source is None:
        return Collected(part, NONE)
    if isinstance(source, Files):
        told = _files(host, part, source, clean)
    elif isinstance(source, Commands):
        told = _commands(host, part, source, clean)
    elif isinstance(source, Told):
        told = _cleaned(part, source, clean)
    else:
        told = Told(_document(part, source, clean))
    if told is None:
        return Collected(part, NONE)
    status = PARTLY if told.reason else CUT if told.cut_bytes else WHOLE
    status = FAILED if told.reason and not told.text.strip() else status
    reason = clean.text(" ".join(told.reason.split()))
    return Collected(part, status, told.text, reason, told.cut_bytes, clean.hidden)


def _document(part: Part, value: Any, clean: Filter) -> str:
    return json.dumps(clean.tree(texts_without_names(value) if part.named else value), indent=2, sort_keys=True) + "\n"


def _cleaned(part: Part, told: Told, clean: Filter) -> Told:
    """A text that was cut begins and ends with whole lines, or half a key would be no key to the filter."""
    text, cut = told.text, told.cut_bytes
    if cut:
        text = after_cut(text) if part.tail else before_cut(text)
    if len(text) > part.most:
        cut += len(text) - part.most
        text = after_cut(text[-part.most :]) if part.tail else before_cut(text[: part.most])
    return Told(clean.text(without_names(text) if part.named else text), told.reason, cut)


def _commands(host: Host, part: Part, source: Commands, clean: Filter) -> Optional[Told]:
    there = [argv for argv in source.argvs if host.which(argv[0]) is not None]
    if not there:
        return None
    texts, reasons, cut = [], [], 0
    for argv in there:
        # What is left of the time is shared out, so that one that hangs leaves some for the others.
        seconds = (part.seconds - _BEFORE_SECONDS) / len(there)
        done = tool.run([host.which(argv[0]) or argv[0], *argv[1:]], seconds, part.most // len(there), part.tail)
        name = " ".join(argv)
        told = _cleaned(part, done, clean)
        texts.append("==> {0} <==\n{1}".format(name[:200], told.text))
        if told.reason:
            reasons.append("{0}: {1}".format(name[:60], told.reason))
        cut += told.cut_bytes
    return Told("\n".join(texts), "; ".join(reasons), cut)


def _files(host: Host, part: Part, source: Files, clean: Filter) -> Optional[Told]:
    paths: List[str] = []
    for pattern in source.patterns:
        found = sorted(glob.glob(host.path(pattern)))
        paths += [path for path in found if path not in paths]
    if not paths:
        return None
    texts, reasons, cut, room = [], [], 0, part.most
    prefix = "" if host.root == "/" else host.root.rstrip("/")
    for path in paths[:_FILES_MAX]:
        name = path[len(prefix) :]
        told, reason = _file(path, room, part.tail)
        if told is None:
            reasons.append("{0}: {1}".format(name, reason))
            continue
        room -= min(room, len(told.text))
        cut += told.cut_bytes
        texts.append("==> {0} <==\n{1}".format(clean.text(name), _content(part, told, clean)))
    if len(paths) > _FILES_MAX:
        reasons.append("{0} more files".format(len(paths) - _FILES_MAX))
    return Told("\n".join(texts), "; ".join(reasons), cut)


def _content(part: Part, told: Told, clean: Filter) -> str:
    """Of JSON each text by itself, which hides what is under a name and leaves the rest."""
    if told.text[:1] in ("{", "[") and not told.cut_bytes:
        try:
            return _document(part, json.loads(told.text), clean)
        except (ValueError, RecursionError):
            pass
    return _cleaned(part, told, clean).text


def _file(path: str, most: int, tail: bool) -> Tuple[Optional[Told], str]:
    """(text, why there is none). Nothing but a file is opened, no link is followed, and nothing is waited for."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return None, "it is a link" if os.path.islink(path) else str(error.strerror)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return None, "it is no file"
        cut = 0
        with os.fdopen(handle, "rb", closefd=False) as stream:
            if tail and found.st_size > most:
                cut = found.st_size - most
                stream.seek(cut)
            data = stream.read(most + 1)
    except OSError as error:
        return None, str(error.strerror)
    finally:
        os.close(handle)
    if len(data) > most:
        cut += max(1, found.st_size - cut - most)
        data = data[:most]
    return Told(data.decode("utf-8", "replace"), "", cut), ""
