# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the events of a cloud."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Tuple

from ...core.options import option, options, state
from ...core.resource import NodeError
from ..events.settings import ACTIONS, DEFAULTS, RANGES, Settings

AUTO = "auto"
_NAME = (r"|[A-Za-z0-9_][A-Za-z0-9._-]{0,79}", "name of a machine", "use letters, digits and ._-")
_FILE = (
    r"|/(?!(?:.*/)?\.\.(?:/|$))[A-Za-z0-9._/+@-]*[A-Za-z0-9._+@-]\.prom",
    "absolute path of a file .prom",
    "use letters, digits and ._/+@- after a slash, and end it with .prom, as node exporter reads no other",
)


@options
class Desired:
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
        choices=(AUTO, "azure", "command", "none"),
    )
    command: Tuple[str, ...] = option(
        (),
        [
            "A program, as a list with its arguments, that prints the events of this machine as JSON, for a cloud that "
            "is not known here or a scheduler of maintenance of the site. For O(provider=command).",
            "It is run by root every O(interval_seconds) and may take 20 seconds.",
        ],
        private=True,
    )
    freeze: str = option(
        DEFAULTS["freeze"], "What a pause of the machine for some seconds does. Jobs go on after it.", choices=ACTIONS
    )
    reboot: str = option(
        DEFAULTS["reboot"],
        [
            "What a reboot does.",
            "V(drain) drains the node in Slurm before, with a reason that begins with C(gpu_node: event:), and resumes "
            "it after. V(tell) writes it into the log and the metrics. V(ignore) does nothing.",
        ],
        choices=ACTIONS,
    )
    redeploy: str = option(
        DEFAULTS["redeploy"], "What a move to another host does. The local disks are lost with it.", choices=ACTIONS
    )
    preempt: str = option(
        DEFAULTS["preempt"],
        "What the end of a spot machine does. The cloud tells 30 seconds before.",
        choices=ACTIONS,
    )
    terminate: str = option(DEFAULTS["terminate"], "What the deletion of the machine does.", choices=ACTIONS)
    other: str = option(DEFAULTS["other"], "What an event of a type does that is not known here.", choices=ACTIONS)
    lead_minutes: int = option(
        1440,
        [
            "How long before its time an event drains. One that is announced later drains at once.",
            "A host that is predicted to fail is announced up to a week before. With V(0) the node is drained when the "
            "event has started.",
        ],
        bounds=RANGES["lead_minutes"],
        unit="minutes",
    )
    approve: bool = option(
        False,
        [
            "Tell Azure that an event may start before its time, once the node is drained for it by us and no job is "
            "on it any more. It is only done for an event of this machine alone, since it counts for all of them.",
            "An event that is told or ignored is never approved.",
        ],
    )
    interval_seconds: int = option(5, "Time between two looks.", bounds=RANGES["interval_seconds"], unit="seconds")
    machine_name: str = option(
        "", "What events call this machine. Empty asks Azure; the host name counts in any case.", form=_NAME
    )
    slurm_node: str = option("", "NodeName of this node. Empty finds it by slurmd's own rules.", form=_NAME)
    textfile: str = option(
        "",
        "File for the textfile collector of Prometheus' node exporter, in a folder that is there. Empty for none.",
        form=_FILE,
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

    def section(self, provider: str) -> Dict[str, Any]:
        """What the service goes by, with the provider that was found."""
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(Settings)}
        return dict(given, provider=provider, command=list(self.command))
