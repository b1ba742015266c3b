# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hide what names this machine, its GPUs, its users and its network. Pure.

A value of a fixed form (UUID, MAC and IP address, GUID) is found by its form; the name of the host, those of users,
and serial numbers are known from the machine.
"""

from __future__ import annotations

import re
from typing import Iterable, List, Mapping, Match, Pattern, Tuple

# Accounts of images and of the system, which tell nothing about anybody.
COMMON_USERS = frozenset(
    "root ubuntu debian centos fedora rocky almalinux opc azureuser ec2-user cloud-user admin nobody user slurm".split()
)
COMMON_HOSTS = frozenset(("localhost", "localhost.localdomain", "none", "(none)"))
# Words of the archive itself. A user or a host of that name (nvidia is the user of many images) names nobody, and would
# be masked in each product, path and command.
VOCABULARY = frozenset("nvidia cuda gpu gpus gpunode mig nvml nvlink driver node local cluster internal test".split())
_HEX = "[0-9A-Fa-f]"
_FORMS: Tuple[Pattern[str], ...] = (
    re.compile(r"\b{0}{{8}}(?:-{0}{{4}}){{3}}-{0}{{12}}\b".format(_HEX)),
    # As machine-id has it, and as a fabric has its cluster.
    re.compile(r"(?<![\w.]){0}{{32}}(?!\w|\.\w)".format(_HEX)),
    # MAC and InfiniBand addresses: six or more pairs.
    re.compile(r"(?<![\w:]){0}{{2}}(?::{0}{{2}}){{5,19}}(?![\w:])".format(_HEX)),
    # GUIDs and IPv6 addresses. A PCI address has two colons and then a dot.
    re.compile(r"(?<![\w:.])(?:{0}{{1,4}}:){{3,7}}{0}{{1,4}}(?![\w:])".format(_HEX)),
    re.compile(r"(?<![\w:.])(?:{0}{{1,4}}:){{1,6}}(?::{0}{{1,4}}){{1,6}}(?![\w:])".format(_HEX)),
    re.compile(r"(?<![\w.-])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w-]|\.\w)"),
)
# A name, and a value behind it that is somebody's: outputs of NVIDIA's tools, JSON, and lines of a table.
_NAMED = re.compile(
    r"((?:serial(?:[ _]?number)?|guid|pdi|board[ _]?id|host[ _]?id|cluster[ _]?uuid|asset[ _]?tag)\"?[ \t]*[:=][ \t]*)"
    r"(\"?)([\w][\w.-]*)",
    re.IGNORECASE,
)
# Of a silence, as JSON has it.
_OWNER = re.compile(r'("owner": ")(?:[^"\\]|\\.)*("(?:,\s*"reason": "(?:[^"\\]|\\.)*")?)')
_REASON = re.compile(r'("reason": ")(?:[^"\\]|\\.)*')
_HOME = re.compile(r"(/(?:home|users|Users)/)[^/\s:\"']+")


class Mask:
    """``known``: values by what they are, such as ``{"host": ["gpu07"]}``. ``masked`` counts."""

    def __init__(self, known: Mapping[str, Iterable[str]]) -> None:
        self.masked = 0
        self._known: List[Tuple[Pattern[str], str]] = []
        for kind, values in known.items():
            for value in sorted({one for one in values if len(one) > 1}, key=lambda one: (-len(one), one)):
                # A name is a word: in another one it is something else.
                pattern = r"(?<![A-Za-z0-9_]){0}(?![A-Za-z0-9_])".format(re.escape(value))
                self._known.append((re.compile(pattern, re.IGNORECASE), "[{0}]".format(kind)))

    def text(self, text: str) -> str:
        for pattern, shown in self._known:
            text, count = pattern.subn(shown.replace("\\", r"\\"), text)
            self.masked += count
        for pattern in _FORMS:
            text = pattern.sub(self._shape, text)
        text = _HOME.sub(r"\g<1>[user]", text)
        text = _OWNER.sub(self._owner, text)
        return _NAMED.sub(self._value, text)

    def _owner(self, found: Match[str]) -> str:
        self.masked += 1
        return found.group(1) + "[owner]" + _REASON.sub(r"\g<1>[reason]", found.group(2))

    def _shape(self, found: Match[str]) -> str:
        self.masked += 1
        return re.sub(r"[0-9A-Za-z]", "x", found.group(0))

    def _value(self, found: Match[str]) -> str:
        value = found.group(3)
        if value.lower() in ("n", "none", "null", "unknown", "not", "true", "false", "xxxx") or not re.search(
            r"\d", value
        ):
            return found.group(0)
        self.masked += 1
        return found.group(1) + found.group(2) + re.sub(r"[0-9A-Za-z]", "0", value)
