# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every check there is, in the order of a report."""

from __future__ import annotations

import fnmatch
from typing import Any, Sequence, Tuple

from ..core.resource import Misuse
from .types import LEVELS, Check, Cost

#: Checks that an earlier release had, and what replaced them. A declaration on a node still names them after an upgrade
#: of the node command; to leave one out, or to silence it, leaves no hole.
REPLACED = {"gpu_gemm": "gpu_compute"}


def checks(level: Cost) -> Tuple[Check, ...]:
    """The checks of a level and of the cheaper ones. What a level does not want is not imported."""
    from .checks import of_gpus, of_node

    gpus, node = of_gpus.CHECKS, of_node.CHECKS
    if level is not Cost.QUICK:
        from .checks import of_gpus_passive, of_node_passive, remedies, silences

        gpus += of_gpus_passive.CHECKS
        node += of_node_passive.CHECKS + (remedies.CHECK, silences.CHECK)
    found = gpus + node
    if level is Cost.ACTIVE:
        from .active import checks as active

        found += active.CHECKS
    return tuple(check for check in found if check.cost in LEVELS[level])


def chosen(level: Cost, only: Sequence[str] = (), without: Sequence[str] = ()) -> Tuple[Check, ...]:
    """Those that a person chose by id or pattern (``gpu_*``).

    :raises Misuse: a name means no check at all, none of this level was asked for by it, or none is left: a gate with
        a hole nobody knows of is worse than none.
    """
    found = checks(level)
    for pattern in (*only, *without):
        # The other levels are imported only for what this one does not have.
        if not _has(found, pattern):
            known((pattern,))
        if pattern in only and pattern in REPLACED:
            raise Misuse(
                "check {0!r}".format(pattern), "this release does not have it", "use {0}".format(REPLACED[pattern])
            )
        if pattern in only and not _has(found, pattern):
            raise Misuse(
                "check {0!r}".format(pattern),
                "a run of level {0} does not make it".format(level.value),
                "ask for its level; 'gpunode health --active --list' has it",
            )
    kept = tuple(
        check
        for check in found
        if (not only or any(fnmatch.fnmatchcase(check.id, pattern) for pattern in only))
        and not any(fnmatch.fnmatchcase(check.id, pattern) for pattern in without)
    )
    if not kept:
        raise Misuse(
            "checks to make",
            "none of level {0} is left by {1}".format(level.value, "only and without" if only else "without"),
            "leave out fewer",
        )
    return kept


def patterns(given: Any) -> Tuple[Tuple[str, ...], Tuple[Any, ...]]:
    """Of a declared list of checks to leave out: its texts, and what cannot be read as one."""
    if not isinstance(given, (list, tuple)):
        return (), (given,)
    return tuple(one for one in given if isinstance(one, str)), tuple(one for one in given if not isinstance(one, str))


def known(patterns: Sequence[str]) -> None:
    """:raises Misuse: one of them means no check of any level, nor one of an earlier release."""
    for pattern in patterns:
        # Active checks are imported only for what no other level has.
        if pattern not in REPLACED and not any(_has(checks(level), pattern) for level in (Cost.PASSIVE, Cost.ACTIVE)):
            from ..core.nearest import nearest

            raise Misuse(
                "check {0!r}".format(pattern),
                "there is none of this name",
                nearest(pattern, [check.id for check in checks(Cost.ACTIVE)])
                + "'gpunode health --active --list' has them",
            )


def _has(found: Sequence[Check], pattern: str) -> bool:
    return any(fnmatch.fnmatchcase(check.id, pattern) for check in found)
