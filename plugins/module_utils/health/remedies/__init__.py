# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remedies on request: what this node tries by itself on a part that failed, once no job runs on it.

All are off by default. ``plan`` decides and is pure: at most one remedy at a time, with all its steps, or a sentence
why not. ``apply`` has the steps, ``run`` goes through them. What was tried, and whether the breaker is latched, is in
:mod:`..attempts`. Nothing here resumes a node: that is for the gate to do.
"""
