# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole node: the registry of resources, the declaration, the converge of all of it, and a node that does so by
itself at each boot.

Nothing is imported here: a check before each job reads the record alone.
"""

from __future__ import annotations
