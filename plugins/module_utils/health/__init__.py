# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health of a node: look (in child processes, under limits), judge (pure), and a verdict.

Nothing here changes the node; the baseline and the verdict files are written by the front ends.
"""

from __future__ import annotations
