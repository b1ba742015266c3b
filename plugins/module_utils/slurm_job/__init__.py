# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens on a node before and after each Slurm job: prolog, epilog, and the way back into service.

Front ends use :func:`prolog`, :func:`epilog` and :func:`resume`; each returns the exit status for slurmd and a report.
:func:`prepare` is for the boot and the converge. ``drain``, ``leftovers`` and ``gpus.resolve`` decide and are pure;
``scratch``, ``clocks``, ``processes``, ``jobs``, ``running`` and ``slurm`` act.
"""

from __future__ import annotations

from .run import Report, epilog, prepare, prolog, resume
from .types import SECTION, Job, Settings

__all__ = ["SECTION", "Job", "Report", "Settings", "epilog", "prepare", "prolog", "resume"]
