# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leftovers on a node: look (:mod:`.look`), a pure judgement (:mod:`.judge`), and their removal (:mod:`.remove`)."""
