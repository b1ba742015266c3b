# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the lease of a node."""

from __future__ import annotations

from typing import Any, Dict, Tuple

from ...core import lease, program_words
from ...core.options import option, options, state


@options
class Desired:
    """:raises NodeError: something of it cannot be."""

    _for_absent = ()

    present: bool = state("V(absent) ends the lease without a hand-back: the node stays, and so does its drain.")
    until: str = option(
        "",
        [
            "Until when this node may be used, with the time zone, such as V(2026-12-01T18:00Z). Quote it in YAML.",
            "Empty is no lease: one that was declared before is taken away.",
        ],
    )
    reset: bool = option(
        True,
        "Take away at the end what converges made, as C(reset.yml) does. The data on the scratch are lost then.",
    )
    on_expiry: Tuple[str, ...] = option(
        (),
        "Program with its arguments that is run as root at the end, without a shell, after the reset. It is run again "
        "until it ends with status 0.",
        form=(
            r"[^\x00-\x1f\x7f]+",
            "word of a command",
            "give each word by itself, as " + program_words.EXAMPLE,
        ),
        example=["/usr/bin/jetpack", "shutdown"],
        private=True,
    )
    reservation: bool = option(
        True,
        "Reserve the node in Slurm from the end on (flag MAINT), so that no job starts that would outlive the lease.",
    )
    motd: bool = option(True, "Tell users at login (C(/etc/motd.d)) during the last 7 days.")
    slurm_node: str = option(
        "",
        "Its NodeName, where that is not the name of slurm.conf for this host.",
        form=(r"|[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", "NodeName of Slurm", "give one node"),
    )

    @property
    def ends(self) -> float:
        return lease.seconds(self.until)

    def section(self) -> Dict[str, Any]:
        names = ("until", "reset", "reservation", "motd", "slurm_node")
        found: Dict[str, Any] = {name: getattr(self, name) for name in names}
        return dict(found, on_expiry=list(self.on_expiry))

    def __post_init__(self) -> None:
        if not self.present or not self.until:
            return
        lease.seconds(self.until)
        program_words.check("option on_expiry", self.on_expiry)
