# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of the last converge of this node by itself, in ``/var/lib/gpu_node/converge.json``.

A run that says ``running`` and holds no lock any more was interrupted. Only a run that came to its end in this boot may
call the node ready.
"""

from __future__ import annotations

import enum
from typing import Any, Dict, Optional

from . import processes, systemd
from .frozen import frozen
from .host import Host
from .state_file import StateFile, document

PATH = "/var/lib/gpu_node/converge.json"
UNIT = "gpu-node-converge.service"
LOCK = "converge"
_STATUSES = ("running", "ready", "not_ready")


@frozen
class Record:
    """``status`` is running, ready or not_ready. Times are in seconds since 1970.

    ``outcome`` is that of the verdict on the node (pass, warn, unknown, fail), None where the run did not come so far.
    ``in_service``: slurmd ran when the run began.
    """

    status: str
    reason: str
    started: float
    ended: Optional[float]
    boot_id: str
    version: str
    outcome: Optional[str] = None
    in_service: bool = False


class Standing(enum.Enum):
    """What a record means now."""

    READY = "ready"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    NOT_READY = "not_ready"
    OTHER_BOOT = "other_boot"
    NONE = "none"
    DAMAGED = "damaged"


@frozen
class Known:
    """``reason`` tells why, where the standing is not ``ready``."""

    standing: Standing
    reason: str
    record: Optional[Record] = None


def _parse(content: Dict[str, Any]) -> Record:
    record = document(Record, content, ("outcome", "in_service"))
    if record.status not in _STATUSES:
        raise ValueError("no status")
    return record


FILE = StateFile("converge", PATH, _parse, mode=0o644)


def write(host: Host, record: Record) -> None:
    """:raises NodeError: it cannot be written."""
    FILE.write(host, record)


def each_boot(host: Host) -> bool:
    """Whether each boot converges this node: a unit that somebody disabled or masked promises nothing about one."""
    return systemd.is_enabled(host, UNIT) and not systemd.link(host, UNIT)


def admits(known: Known, each_boot: bool) -> bool:
    """Pure. Whether slurmd may start.

    While a converge runs it may where it ran before, for a role that restarts it. One that was refused is tried again
    and again by systemd (Restart=), and must not slip in before the verdict.
    """
    if not each_boot or known.standing is Standing.READY:
        return True
    return known.standing is Standing.RUNNING and known.record is not None and known.record.in_service


def known(host: Host) -> Known:
    # The lock is asked first: a run that ends in between has then left a record that says so.
    busy = host.locked(LOCK)
    record, damage = FILE.read(host)
    return judge(record, bool(record or damage), processes.boot_id(host), busy)


def judge(record: Optional[Record], there: bool, boot: str, busy: bool) -> Known:
    """Pure. ``there``: a file lies in its place; ``boot``: the id of this boot; ``busy``: somebody holds the lock."""
    if record is None:
        if not there:
            return Known(Standing.NONE, "this node has not converged itself yet")
        return Known(Standing.DAMAGED, "its record {0} cannot be understood".format(PATH))
    if record.status == "running":
        if busy and record.boot_id == boot:
            return Known(Standing.RUNNING, "its converge still runs", record)
        return Known(Standing.INTERRUPTED, "its last converge was interrupted", record)
    if record.status == "not_ready":
        return Known(Standing.NOT_READY, record.reason or "its last converge failed", record)
    if not boot or record.boot_id != boot:
        return Known(Standing.OTHER_BOOT, "it has not converged since it was started", record)
    return Known(Standing.READY, "", record)
