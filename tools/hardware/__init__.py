# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A check of this collection on a machine with a GPU: it only reads, and writes one archive without identities.

``__main__.py`` builds the file ``gpu-node-hardware.pyz`` and runs it. In that file, ``start.py`` is the main program;
:mod:`.run` has the steps, :mod:`.compare` and :mod:`.mask` decide (pure), :mod:`.cost` measures whole commands.
"""
