# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the bundle's wheels this Python on this machine takes."""

from __future__ import annotations

import re
from typing import List, Mapping, Optional, Sequence, Tuple

from ..core.frozen import frozen
from ..core.resource import NodeError

INDEX = "wheels/index.json"
_LIBC = re.compile(r"manylinux_(\d+)_(\d+)_")
# PEP 600: the older names of two of them.
_OLD_NAMES = (("manylinux2014_", (2, 17)), ("manylinux2010_", (2, 12)))


@frozen
class Interpreter:
    """``version`` is (3, 11); ``machine`` as uname tells it; ``libc`` (2, 36), None where that is not GNU's."""

    version: Tuple[int, int]
    machine: str
    libc: Optional[Tuple[int, int]]

    @property
    def tag(self) -> str:
        """As in the name of a wheel: ``cp311-x86_64``."""
        return "cp{0}{1}-{2}".format(*self.version, self.machine)


def choose(index: Mapping[str, Sequence[str]], interpreter: Interpreter) -> List[str]:
    """The names of the wheels for it.

    :raises NodeError: the bundle has none for this Python, machine or C library.
    """
    names = index.get(interpreter.tag)
    if names is None:
        raise NodeError(
            "Python {0}.{1} on {2}".format(*interpreter.version, interpreter.machine),
            "this bundle has no wheels for it",
            "it has them for {0}".format(", ".join(sorted(index))),
        )
    for name in names:
        needed = libc_of(name)
        if needed is not None and (interpreter.libc is None or interpreter.libc < needed):
            raise NodeError(
                "wheel {0}".format(name),
                "it needs version {0}.{1} of the GNU C library".format(*needed),
                "use a newer distribution on this node",
            )
    return list(names)


def libc_of(name: str) -> Optional[Tuple[int, int]]:
    """The oldest GNU C library that a wheel runs with; None: it is the same for all machines."""
    platform = name.rpartition("-")[2]
    if platform == "any.whl":
        return None
    found = [(int(major), int(minor)) for major, minor in _LIBC.findall(platform)]
    found += [version for old, version in _OLD_NAMES if old in platform]
    return min(found, default=(99, 0))
