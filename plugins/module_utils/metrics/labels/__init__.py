# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels of a Kubernetes node that say what it has, as a file for the local source of Node Feature Discovery.

``look`` reads the node; ``own`` and ``gfd`` make labels of it, purely; ``file`` is how they are written.
"""
