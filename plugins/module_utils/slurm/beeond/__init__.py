# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file system over the scratch disks of one job's nodes (BeeOND), from its prolog to its epilog.

``rules`` and ``remains`` decide and are pure, ``note`` is what a node remembers of it, ``node`` looks, ``others`` asks
the other nodes, ``start`` and ``stop`` do what their names say. Each of a job's nodes decides for itself; the one with
the lowest name starts the file system on all of them, by the program ``beeond`` of BeeGFS 7, and each node stops its
own part.
"""

from __future__ import annotations

SECTION = "beeond"
# Root's alone: ``beeond`` by itself has its status file in /var/tmp, and unmounts and removes what that names.
FOLDER = "/run/gpu_node/beeond"
