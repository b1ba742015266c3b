# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of systemd's units. That of a mount point: ``systemd-escape --path``, systemd.unit(5)."""

from __future__ import annotations

import os
import re

#: As systemd.unit(5) has names; what goes into a unit file is never more than a word.
UNIT = (
    r"[A-Za-z0-9:_.\\@-]+\.(service|socket|target|mount|path|slice|timer)",
    "name of a unit",
    "give one such as slurmd.service",
)


def of_path(path: str, kind: str) -> str:
    """``kind``: mount or automount. The path is absolute, without ``..``."""
    plain = os.fsencode(re.sub(r"/+", "/", path).strip("/"))
    if not plain:
        return "-." + kind

    def escaped(number: int, first: bool) -> str:
        char = chr(number)
        if char == "/":
            return "-"
        if re.match(r"[A-Za-z0-9:_.]", char) and not (first and char == "."):
            return char
        return "\\x{0:02x}".format(number)

    return "".join(escaped(number, index == 0) for index, number in enumerate(plain)) + "." + kind
