# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this node owes now, and the verdicts of others than the gate that prove some of it."""

from __future__ import annotations

from typing import Tuple

from ...core import declaration, machine
from ...core.frozen import frozen
from ...core.host import Host
from ...core.options import of_section
from ...core.resource import NodeError
from ..types import Cost, Verdict
from . import history, kept, plan, proof
from .settings import SECTION, Settings, applied

LOCK = "health_gate_run"
LOCK_SECONDS = 20.0


def checks(host: Host, node: str, now: float) -> Tuple[str, ...]:
    """The active checks that have to pass.

    :raises NodeError: the declaration cannot be read.
    """
    declared = declaration.read(host)
    settings = applied(of_section(Settings, declared.get(SECTION)), declared, node, now)
    known = history.read(host).of(machine.fingerprint(host))
    return proof.left(known.debt, settings.left_out).checks if settings.proof else ()


class NotOurs(NodeError):
    """A clear answer: this node is not ours to work on, or not now."""


class NotKnown(NodeError):
    """Nobody can tell now whether it is."""


@frozen
class Held:
    """``why``: what this node has to prove before jobs come here again, or "". ``reason``: to drain it with until then,
    by which the gate proves it and puts it back."""

    why: str = ""
    reason: str = ""


FREE = Held()


def held(host: Host, node: str, now: float) -> Held:
    """Whether this node may come back: asked by each who had it out of service for something else than its health.

    :raises NodeError: the declaration cannot be read.
    """
    declared = declaration.read(host)
    if SECTION not in declared:
        return FREE  # nobody would ever put it back
    settings = applied(of_section(Settings, declared[SECTION]), declared, node, now)
    known = history.read(host).of(machine.fingerprint(host))
    left = proof.left(known.debt, settings.left_out)
    if not settings.proof or left == proof.Left():
        return FREE
    why = left.person or "it owes a passing {0}".format(", ".join(left.checks))
    return Held(why, plan.reason_of(known, settings))


def others(wanted: Tuple[str, ...]) -> Tuple[str, ...]:
    """The active checks that are not among these."""
    from ..registry import checks as every  # not wanted by the service that follows events

    return tuple(one.id for one in every(Cost.ACTIVE) if one.cost is Cost.ACTIVE and one.id not in wanted)


def tell(host: Host, verdict: Verdict) -> str:
    """Let a verdict count for the gate, which decides at its next look. Returns a sentence about a damaged history.

    :raises NodeError: the history cannot be written.
    """
    settings = of_section(Settings, declaration.read(host).get(SECTION))
    with host.lock(LOCK, LOCK_SECONDS):
        known, damaged = history.taken(host)
        known = known.of(machine.fingerprint(host)).added(history.Entry.of(verdict))
        history.write(host, plan.charged(known, settings))
    kept.keep(host, verdict)
    return damaged
