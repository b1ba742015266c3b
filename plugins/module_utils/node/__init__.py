# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that converges itself from an offline bundle: what was unpacked, the run, and its record.

Nothing is imported here: a check before each job reads the record alone.
"""
