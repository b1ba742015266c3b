# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events that a cloud announces for this machine, such as a reboot of its host, and what they do to the node.

``ask`` asks the cloud, or a program of the site, and ``read`` makes one form of what it says; ``plan`` decides and is
pure; ``memory`` is what has to be known from one look to the next; ``follow`` carries out. ``settle`` is what a node
has to prove after an event. The resource (options, unit, declaration) is ``resources/cloud_events``.
"""

from __future__ import annotations
