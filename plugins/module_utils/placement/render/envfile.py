# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command of a launcher as a file that shell scripts source: MPI_LAUNCHER, MPI_NP, MPI_ARGS."""

from __future__ import annotations

import shlex
from typing import List

from ...core.resource import Misuse
from ..types import Placement
from .rendered import Rendered
from .wrapper import path_of

_HEAD = """# Written by gpunode pin for {ranks} rank(s) on one node. Source it, then start the program with
#   {usage}
"""


def environment_file(rendered: Rendered, placement: Placement) -> str:
    """No word holds a space, so scripts use ``$MPI_ARGS`` unquoted.

    :raises Misuse: when a path would make a word with a space.
    """
    ranks = len(placement.ranks)
    if not rendered.program and not rendered.files:
        return "\n".join(rendered.lines) + "\n"
    words = rendered.arguments if rendered.program else (path_of(rendered.files[0]),)
    for word in words:
        if len(word.split()) != 1:
            raise Misuse(word, "a word of MPI_ARGS cannot hold a space", "give a path without one to --write")
    usage = "$MPI_LAUNCHER {0}$MPI_ARGS {1}".format(_count(rendered), rendered.application)
    lines: List[str] = []
    if rendered.program:
        lines.append("MPI_LAUNCHER=" + shlex.quote(rendered.program))
    else:
        usage = "mpirun --bind-to none -np $MPI_NP $MPI_ARGS PROGRAM"
    lines.append("MPI_NP={0}".format(ranks))
    lines.append("MPI_ARGS=" + shlex.quote(" ".join(words)))
    lines += ["export {0}={1}".format(name, shlex.quote(value)) for name, value in rendered.environment]
    return _HEAD.format(ranks=ranks, usage=usage) + "\n".join(lines) + "\n"


def _count(rendered: Rendered) -> str:
    """The words that tell the number of ranks, with the variable in the number's place."""
    words = []
    for word in rendered.count:
        name, equals, number = word.partition("=")
        if equals and number.isdigit():
            words.append(name + "=$MPI_NP")
        else:
            words.append("$MPI_NP" if word.isdigit() else word)
    return " ".join(words) + " " if words else ""
