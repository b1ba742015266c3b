# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hooks of Slurm are set up before the clocks are chosen, as gpu_settings looks for hooks that raise them for jobs."""

from __future__ import annotations

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import registry


def test_the_hooks_are_there_before_the_clocks_are_chosen():
    assert registry.NAMES.index("slurm_hooks") < registry.NAMES.index("gpu_settings")
