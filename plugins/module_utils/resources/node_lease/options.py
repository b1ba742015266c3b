# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the lease of a node."""

from __future__ import annotations

from ...core import lease, program_words
from ...core.options import options, state


@options
class Desired(lease.Settings):
    """:raises NodeError: something of it cannot be."""

    _for_absent = ()

    present: bool = state("V(absent) ends the lease without a hand-back: the node stays, and so does its drain.")

    def __post_init__(self) -> None:
        if not self.present or not self.until:
            return
        lease.seconds(self.until)
        program_words.check("option on_expiry", self.on_expiry)
