# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The exit statuses of ``gpunode``."""

from __future__ import annotations

DONE = 0
NOT_DONE = 1  # not done, or not in order
WRONG_USE = 2
WARNINGS = 3  # looked at, and there are warnings
UNKNOWN = 4  # of a command whose status is a verdict: nothing is known to be wrong, and something is not known
BUSY = 75  # another run is at it; as EX_TEMPFAIL of sysexits.h
