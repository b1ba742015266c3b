# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machine this is, and which start of it.

In a cloud a node's name outlives its machine: Slurm powers a node down, and the next machine of that name may be the
same one, started again, or another one. What was found on one machine says nothing of another.
"""

from __future__ import annotations

from ..core import machine
from ..core.host import Host

_BOOT = "/proc/sys/kernel/random/boot_id"


def identity(host: Host) -> str:
    """The same for all starts of a machine, another one for another machine; "" where the firmware does not tell."""
    import hashlib  # as in core/safe_files.py

    uuid = machine.hardware(host)
    return "" if uuid is None else hashlib.sha256(uuid.encode()).hexdigest()[:16]


def boot(host: Host) -> str:
    return (host.read_line(_BOOT) or "").strip()
