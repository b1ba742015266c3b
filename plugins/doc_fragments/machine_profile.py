# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The argument of the modules with figures of the machine's profile which is no option: said once, and on no page."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  _profile:
    description: No option. A role hands over the profile that was chosen a moment ago, which may be declared nowhere.
    type: dict
"""
