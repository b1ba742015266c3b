# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens on a node before and after each Slurm job: prolog, epilog, and the way back into service.

Front ends use :func:`.run.prolog`, :func:`.run.epilog` and :func:`.run.resume`; each returns the exit status for slurmd
and a report. What decides lies in the room ``slurm`` (``drain``, ``leftovers``, ``gpus.resolve``) and is pure.
"""

from __future__ import annotations
