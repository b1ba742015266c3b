# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Slurm's own files say: their syntax, lists of hosts, gres.conf, slurm.conf. Pure, but for ``places``."""

from __future__ import annotations

#: The lock that a run of active checks holds while it loads the node. A job waits for it.
ACTIVE_LOCK = "health_active"
# Where Slurm's programs are beside the search path: /opt/slurm and /usr/local on clusters that build it themselves.
PROGRAM_FOLDERS = tuple(
    top + end for top in ("/opt/slurm", "/usr/local", "/usr/local/slurm", "/usr") for end in ("/bin", "/sbin")
)
