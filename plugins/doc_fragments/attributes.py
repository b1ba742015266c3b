# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attributes that modules share.

Use ``extends_documentation_fragment: [trainyard.gpu_node.attributes]`` for the platform alone, and add
``trainyard.gpu_node.attributes.info_module`` for a module that only reads.
"""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  platform:
    description: Where the module runs.
    platforms: linux
    support: full
    details: Linux with Python 3.8 or newer on the node.
"""

    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and tell the same without changing anything.
    support: full
    details: This module only reads.
  diff_mode:
    description: Shows what changes when run in diff mode.
    support: N/A
    details: This module only reads.
  idempotent:
    description: A second run in a row changes nothing.
    support: full
    details: This module only reads.
  facts:
    description: Sets facts of the host.
    support: none
    details: Register the result.
"""
