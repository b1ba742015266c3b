# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the events of a cloud."""

from __future__ import annotations

from ...core.options import option, options, state
from ...core.resource import NodeError
from ...health.events.settings import PROVIDERS, Settings

AUTO = "auto"


@options
class Desired(Settings):
    """:raises NodeError: something of it cannot be."""

    _for_absent = ("textfile",)

    present: bool = state(
        [
            "V(absent) removes the service, its section of the declaration and what it remembers.",
            "A node that is drained for an event stays drained; a note tells of it.",
        ]
    )
    provider: str = option(
        AUTO,
        [
            "Whom the node asks for events.",
            "V(auto) is V(azure) where the firmware says that the machine is of Azure, and V(none) elsewhere.",
            "V(azure) asks the metadata service of Azure for Scheduled Events. V(command) runs O(command).",
        ],
        choices=(AUTO, *PROVIDERS),
    )

    def __post_init__(self) -> None:
        if not self.present:
            return
        if (self.provider == "command") != bool(self.command):
            reason = "it is empty" if self.provider == "command" else "provider is {0}".format(self.provider)
            raise NodeError("option command", reason, "give a command together with provider: command, or neither")
        if self.command and not self.command[0].startswith("/"):
            raise NodeError("option command", "{0!r} is no whole path".format(self.command[0]), "begin it with a slash")
        if self.approve and self.provider in ("command", "none"):
            raise NodeError(
                "option approve", "only Azure can be told that", "set provider to auto or azure, or approve to false"
            )
