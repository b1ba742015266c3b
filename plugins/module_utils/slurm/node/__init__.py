# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node of Slurm, taken out of service for work on it and put back: observe, plan, apply.

Only our own drain is ever taken back: its reason begins with ``gpu_node: rolling: ``. Nothing is imported here, so that
the module for a node of Kubernetes carries no client of Slurm.
"""

from __future__ import annotations
