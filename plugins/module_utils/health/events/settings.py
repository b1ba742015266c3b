# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Section ``cloud_events`` of the declaration: whom this node asks for events, and what they do."""

from __future__ import annotations

from typing import Mapping, Tuple

from ...core.options import option, options

SECTION = "cloud_events"
DRAIN, TELL, IGNORE = ACTIONS = ("drain", "tell", "ignore")
AZURE, COMMAND, NONE = PROVIDERS = ("azure", "command", "none")
#: A job on GPUs outlives a pause of some seconds; nothing outlives the others.
DEFAULTS: Mapping[str, str] = {
    "freeze": TELL,
    "reboot": DRAIN,
    "redeploy": DRAIN,
    "preempt": DRAIN,
    "terminate": DRAIN,
    "other": TELL,
}
_NAME = (r"|[A-Za-z0-9_][A-Za-z0-9._-]{0,79}", "name of a machine", "use letters, digits and ._-")
_FILE = (
    r"|/(?!(?:.*/)?\.\.(?:/|$))[A-Za-z0-9._/+@-]*[A-Za-z0-9._+@-]\.prom",
    "absolute path of a file .prom",
    "use letters, digits and ._/+@- after a slash, and end it with .prom, as node exporter reads no other",
)


@options
class Settings:
    """The options that the service needs."""

    provider: str = option(NONE, "Whom the node asks, as a converge found it.", choices=PROVIDERS)
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
        bounds=(0, 20160),
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
    interval_seconds: int = option(5, "Time between two looks.", bounds=(1, 3600), unit="seconds")
    machine_name: str = option(
        "", "What events call this machine. Empty asks Azure; the host name counts in any case.", form=_NAME
    )
    slurm_node: str = option("", "NodeName of this node. Empty finds it by slurmd's own rules.", form=_NAME)
    textfile: str = option(
        "",
        "File for the textfile collector of Prometheus' node exporter, in a folder that is there. Empty for none.",
        form=_FILE,
    )

    def action(self, kind: str) -> str:
        found: str = getattr(self, kind)
        return found
