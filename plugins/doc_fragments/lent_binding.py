# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The argument of the modules that talk to NVML which is no option: said once, and on no page."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  _binding:
    description: No option. The controller sends NVIDIA's Python binding in it to a node that has none yet.
    type: str
"""
