# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the archive, for its owner alone."""

from __future__ import annotations

import io
import os
import tarfile
from typing import Mapping

from ...core import given_file


def write(path: str, top: str, files: Mapping[str, str], now: float) -> int:
    """An archive with these texts in the folder ``top``; returns its size in bytes.

    :raises NodeError: it could not be written, and nothing is left of it.
    """
    with given_file.written(path, 0o600) as stream:
        with tarfile.open(mode="w:gz", fileobj=stream, compresslevel=6, format=tarfile.PAX_FORMAT) as archive:
            for file, text in files.items():
                _add(archive, "{0}/{1}".format(top, file), text, now)
        stream.flush()
        return os.fstat(stream.fileno()).st_size


def _add(archive: tarfile.TarFile, name: str, text: str, now: float) -> None:
    data = text.encode("utf-8", "replace")
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(data), int(now), 0o600
    archive.addfile(entry, io.BytesIO(data))
