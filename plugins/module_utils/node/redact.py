# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of variables files are kept out of the output, where Ansible shows the place of an error with its lines.

A key that stands in such a file would go into the journal with the line below it that has the error.
"""

# pylint: disable=ansible-bad-function  # the library has no AnsibleModule
from __future__ import annotations

import re
from typing import Callable, Iterable, List, Tuple

# Shorter ones tell nothing, and stand anywhere.
_LENGTH = 8
_NUMBER = re.compile(r"^\s*\d*\s*")
# What Ansible puts where it cuts a line.
_CUT = re.compile(r"\s*(\.\.\.|\u2026)$")


def without_lines_of(paths: Iterable[str]) -> Callable[[str], str]:
    """Gives what shows a line of output: as it is, or the name of the file that it was taken from."""
    known: List[Tuple[str, str]] = []
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                known += [(line.strip(), path) for line in stream if len(line.strip()) >= _LENGTH]
        except OSError:
            continue  # Ansible says so

    def shown(line: str) -> str:
        bare = _CUT.sub("", _NUMBER.sub("", line).rstrip())
        for text, path in known:
            if text in line or (len(bare) >= _LENGTH and text.startswith(bare)):
                return "  (a line of {0}, not shown)".format(path)
        return line

    return shown
