# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two files of a run: its record, and the hosts that are not done for ``--limit @FILE``."""

from __future__ import annotations

import contextlib
import json
import os

from .record import Run


def limit_path(record: str) -> str:
    return os.path.splitext(record)[0] + ".limit"


def write(path: str, run: Run) -> None:
    """Both as they are now. For ansible an empty list of hosts means all hosts, so there is no file with one.

    :raises OSError: when one cannot be written.
    """
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    _replace(path, json.dumps(run.to_dict(), indent=1) + "\n")
    if run.not_done:
        _replace(limit_path(path), "\n".join(run.not_done) + "\n")
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(limit_path(path))


def _replace(path: str, content: str) -> None:
    """Whoever reads it sees the old or the new one, whole."""
    fresh = "{0}.{1}".format(path, os.getpid())
    try:
        with open(fresh, "w", encoding="utf-8") as stream:
            stream.write(content)
        os.replace(fresh, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
