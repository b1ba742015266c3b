# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What checks share that hold a part of the machine against its profile.

Each key of a profile has one check that owns it, so that nothing is judged twice: ``cpus`` cpu_count, ``numa_nodes``
and ``gpu_numa`` numa_layout, ``memory`` memory_size, ``nvme`` nvme_count, ``infiniband`` ib_ports. ``gpus`` belongs
to the checks of GPUs. How a part is compared, and how bad a difference is, is that of :mod:`...profile.compare`; the
quick checks say the same in their own words, because its import alone would take as long as they do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Tuple

from ..types import Expected, Outcome

if TYPE_CHECKING:
    from ...facts.profile.types import Difference
    from ...facts.topology.types import Topology


def differences(expected: Expected, key: str, topology: Topology) -> Tuple[Difference, ...]:
    """How one part of the machine is not what its profile says; nothing for a machine without a profile."""
    if key not in expected.profile:
        return ()
    from ...facts.profile.compare import compare

    return compare({key: expected.profile[key]}, topology)


def outcome(difference: Difference) -> Outcome:
    """``warn`` or ``fail``, as the profile's comparison has it."""
    return Outcome(difference.severity)
