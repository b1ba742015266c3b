# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a bundle lies on a node once it is unpacked."""

from __future__ import annotations

FOLDER = "/opt/gpu_node/bundle"
#: The unpacked bundle that the boot unit runs.
CURRENT = FOLDER + "/current"
#: Temporary files of a run: in a place of root's own where programs may be executed, as /run and /tmp may forbid it.
WORK = FOLDER + "/.run"
VARIABLES = "/etc/gpu_node/site.yml"
VAULT_PASSWORD = "/etc/gpu_node/vault_password"  # noqa: S105 a path
