# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of the last copy, for the textfile collector of Prometheus."""

from __future__ import annotations

import os
import re
import stat
from typing import Optional

from ..core import safe_files
from ..core.exposition import GAUGE, Exposition
from ..core.host import Host
from ..core.resource import NodeError
from .put import Done

_SUCCESS = "checkpoint_last_success_timestamp_seconds"


def text(before: str, way: str, done: Optional[Done], now: float) -> str:
    """``before``: the file as it was, whose last success stays where this copy failed. ``way``: put or get. Pure."""
    found = Exposition("Written by gpunode checkpoint.")
    own = {"way": way}
    # The other way's figures are of another command; only the moment of its last success is kept.
    moments = [({"way": name}, float(value)) for name, value in _moments(before) if name != way or done is None]
    if done is not None:
        for name, what, value in (
            ("bytes", "Bytes of the last checkpoint on this node.", float(done.size_bytes)),
            ("seconds", "Seconds that copying it took.", done.seconds),
            ("retries", "Files of it that were begun again.", float(done.retries)),
            ("cap_mbps", "Cap of each copy at its end, in megabits per second.", done.cap),
        ):
            found.add("checkpoint_" + name, GAUGE, what, [(own, value)])
        moments.append((own, now))
    found.add("checkpoint_failed", GAUGE, "Whether the last copy failed.", [(own, float(done is None))])
    found.add(_SUCCESS, GAUGE, "When a checkpoint was last copied whole.", moments)
    return found.text()


def _moments(before: str) -> "list[tuple[str, str]]":
    return re.findall(r'^gpu_node_{0}{{way="(put|get)"}} ([0-9.]+)$'.format(_SUCCESS), before, re.MULTILINE)


def write(host: Host, path: str, way: str, done: Optional[Done], now: float) -> None:
    """:raises NodeError: it cannot be written."""
    target = host.path(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        reason = "there is no folder {0}".format(os.path.dirname(path))
        raise NodeError("metrics " + path, reason, "give the folder of the textfile collector")
    try:
        above = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # All users may write there, and one may have put a link.
            with safe_files.replaced_in(above, os.path.basename(target), 0o644) as stream:
                os.fchmod(stream.fileno(), 0o644)
                stream.write(text(_before(target), way, done, now).encode("utf-8"))
        finally:
            os.close(above)
    except OSError as error:
        reason = "it cannot be written ({0})".format(error.strerror or error)
        raise NodeError("metrics " + path, reason, "give a file of yours by --metrics") from error


def _before(path: str) -> str:
    """Of a file, and nothing that is waited for."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(handle, encoding="utf-8", errors="replace") as stream:
        return stream.read(1 << 16) if stat.S_ISREG(os.fstat(handle).st_mode) else ""
