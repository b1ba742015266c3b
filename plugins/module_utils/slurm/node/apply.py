# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two things that are done to a node in Slurm."""

from __future__ import annotations

from ...core.resource import Action
from .. import drain
from .observe import Slurm
from .types import Drain


def apply(slurm: Slurm, name: str, action: Action) -> None:
    words = ["update", "NodeName=" + name]
    if isinstance(action, Drain):
        words += ["State=DRAIN", "Reason=" + action.reason]
    else:
        # Not RESUME, which would also end a DOWN that is not ours.
        words += ["State=UNDRAIN", "Reason=" + drain.RESUMED]
    slurm.run("scontrol", words)
