# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node has to prove after an event of its cloud, before it takes jobs again.

This is the one place that says it. A machine that was only paused has lost nothing: the passive checks have to find
nothing. One that was started anew, or is another one, is converged first. What its health owes beside (active checks of
parts that failed before) says :mod:`..gate.owing` alone, and the gate has it proved.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Optional

from ...core import converge_record, declaration
from ...core.converge_record import Standing
from ...core.frozen import frozen
from ...core.host import Host
from ...core.resource import NodeError, printable
from ...facts.nvml.binding import RUNTIME

#: `gpunode converge` ends itself after an hour (node/own.py), the passive checks in under a minute.
_CONVERGE_SECONDS, _HEALTH_SECONDS = 3700.0, 300.0
_BUSY = 75
_CLEAN = ("pass", "warn")


@frozen
class Proof:
    """``why``: what is wrong, in a few words; "" where it is well."""

    why: str = ""

    @property
    def well(self) -> bool:
        return not self.why


Prove = Callable[[Host, bool, bool], Proof]


def prove(host: Host, converge: bool, another: bool) -> Proof:
    """``converge``: it may have been started anew. ``another``: it is another machine than the one that was drained.

    All runs in processes of their own: neither a crash of theirs nor their memory is that of the service.
    """
    try:
        if converge:
            why = _converged(host)
            if why:
                return Proof(why)
        return Proof(_looked(host))
    except NodeError as error:
        return Proof(str(error))


def _converged(host: Host) -> str:
    if not host.exists(declaration.WISH):
        return ""  # nobody wants anything of it that a converge could make
    if converge_record.each_boot(host):
        standing = converge_record.known(host).standing
        if standing in (Standing.READY, Standing.RUNNING):
            return "" if standing is Standing.READY else "the converge of this boot still runs"
    done = host.run([RUNTIME, "converge"], _CONVERGE_SECONDS, accept=(0, 1, _BUSY))
    if done.returncode == _BUSY:
        return "another converge of this node runs"
    return "" if done.returncode == 0 else "converge: {0}".format(done.message)


def _looked(host: Host) -> str:
    done = host.run([RUNTIME, "health", "--record", "--json"], _HEALTH_SECONDS, accept=(0, 1, 3, 4))
    try:
        verdict: Any = json.loads(done.stdout)
        outcome = verdict["outcome"]
    except (ValueError, KeyError, TypeError):
        return "its health cannot be told"
    return "" if outcome in _CLEAN else _worst(verdict, outcome) or "its verdict is {0}".format(printable(str(outcome)))


def _worst(verdict: Any, outcome: str) -> Optional[str]:
    """The first finding of that outcome."""
    try:
        found = [one for result in verdict["results"] for one in result["findings"] if one["outcome"] == outcome]
        return printable("{0}: {1}".format(found[0]["thing"], found[0]["reason"])) if found else None
    except (KeyError, TypeError):
        return None
