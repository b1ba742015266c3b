# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Grafana boards as code: ``python -m tools.boards`` writes them."""

NAMES = ("fleet", "health", "node", "job", "capacity", "usage", "fabric", "mig")
FOLDER = "roles/monitoring/files/boards"
