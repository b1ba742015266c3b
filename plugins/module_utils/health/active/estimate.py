# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the active checks take on this node: the facts that decide it, and the plan made of them."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from ...core.child import Report, collect
from ...core.frozen import replaced
from ...core.resource import NodeError
from ...facts import gpu_info
from ...slurm import scratch as mounts
from .. import budget
from ..data.tools import TOOLS
from ..evidence import Evidence
from ..types import Check, Machine, Span
from . import tools

_SECONDS = 20.0


def plan(checks: Sequence[Check], evidence: Evidence, seconds: Optional[float]) -> budget.Plan:
    """``seconds``: the budget, None without one.

    :raises Misuse: it is too short for every check.
    """
    machine = look(evidence)
    if machine is None:
        return budget.plan([(check.id, _unknown(check)) for check in checks], seconds)
    return budget.plan([(check.id, span_of(check, machine)) for check in checks], seconds, machine.gpus)


def span_of(check: Check, machine: Machine) -> Optional[Span]:
    """Pure. With a setting that cannot be used the check reports just that, and its defaults tell the time."""
    if check.span is None:
        return None
    for settings in (machine.settings, {}):
        try:
            return check.span(replaced(machine, settings=settings))
        except NodeError:
            continue
        except Exception:  # a bug in an estimate stops no check
            break
    return _unknown(check)


def _unknown(check: Check) -> Span:
    """Any share of the budget, since nothing says that the check has nothing to measure."""
    return Span(1.0, min(60.0, check.seconds))


def look(evidence: Evidence) -> Optional[Machine]:
    """What cannot be read counts as missing: the checks themselves report it. None: the node did not answer in time,
    as GPUs without persistence mode do, and nothing is known of it."""
    try:
        found = collect(lambda report: _look(report, evidence), _SECONDS).items
    except NodeError:
        found = ()
    return found[0] if found else None


def _look(report: Report, evidence: Evidence) -> Iterator[Machine]:
    """In a child: a tool may be on a file system that hangs."""
    gpus = [
        one
        for one in gpu_info.gather(gpu_info.Options(groups=("memory", "settings")), evidence.host).gpus
        if one.fault is None and not getattr(one.groups.get("settings"), "mig_current", False)
    ]
    sizes = [getattr(one.groups.get("memory"), "total_bytes", None) or 0 for one in gpus]
    ports = [
        port
        for device in evidence.topology.infiniband
        for port in device.ports
        if port.link_layer == "InfiniBand" and not device.placement.virtual_function
    ]
    yield Machine(
        gpus=len(gpus),
        memory_bytes=max(sizes, default=0),
        ports=len(ports),
        scratch=bool(mounts.places(evidence.declared.get(mounts.SECTION))),
        tools=tuple(name for name in TOOLS if _installed(evidence, name)),
        settings=evidence.settings,
    )


def _installed(evidence: Evidence, name: str) -> bool:
    try:
        return tools.find(evidence.host, evidence.settings, name) is not None
    except NodeError:
        return False
