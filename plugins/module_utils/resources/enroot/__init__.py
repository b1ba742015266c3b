# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""enroot on this node: its packages, its settings for many users on one scratch, and what the kernel must allow.

Front ends use ``converge.run``, and ``converge.facts`` and ``converge.text`` for results. The hooks of Slurm use
``user_folders`` alone, so nothing is imported here: each import costs every job.
"""
