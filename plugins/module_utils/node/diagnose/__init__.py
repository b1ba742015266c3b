# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person sends to whoever is to find out what is wrong with a node: all that it tells, in one archive.

:mod:`.parts` says what is collected, :mod:`.secrets` and :mod:`.processes` what is hidden in it, :mod:`.fit` how much
of it there may be, :mod:`.page` how it is shown: these are pure, or data. :mod:`.gather` reads, each part in a child
process under its own time limit, and :mod:`.archive` writes.
"""
