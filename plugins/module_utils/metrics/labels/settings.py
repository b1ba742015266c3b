# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Places, names and bounds of the labels; what the options of the resource need and a look does not."""

from __future__ import annotations

FOLDER = "/etc/kubernetes/node-feature-discovery/features.d"
NAME = "trainyard"
INTERVAL_SECONDS = 300
INTERVAL_RANGE = (30, 86400)
VALID_RANGE = (60, 7 * 86400)
#: Strategies of MIG, as NVIDIA's device plugin has them.
STRATEGIES = MIG_NONE, MIG_SINGLE, MIG_MIXED = ("none", "single", "mixed")
# GPU feature discovery.
GFD_PREFIX = "nvidia.com/"
TIMESTAMP = GFD_PREFIX + "gfd.timestamp"
GFD_FILE = "gfd"
