# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verdict does: the node is drained, left, or put back into service, and other programs are told.

``plan`` decides and is pure; ``gate`` acts on Slurm, ``record`` writes files for others. ``hooks`` is what slurmd's
hooks and HealthCheckProgram run. The files of the resource (units, scripts, declaration) are in ``resource``.
"""

from __future__ import annotations
