# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode lease``: until when this node may be used, and what happens at the end."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Any, Dict, List, Optional

from ..core import declaration, machine
from ..core import lease as leases
from ..core.host import Host
from ..core.lease import Memory, Phase, Settings, Stage
from ..core.resource import NodeError
from .exit_status import DONE, NOT_DONE
from .output import print_json, wrapped
from .version import VERSION

_PHASES = {
    Phase.NONE: "nothing was done yet",
    Phase.ENDED: "the node is drained",
    Phase.RESET: "what converges made is taken away",
    Phase.HANDED_BACK: "the node was handed back",
}


DETAILS = """status  until when this node may be used, and how far its end is (default)
follow  what the timer runs: warn and reserve; at the end drain, reset and
        hand back

The lease is declared by the resource node_lease; a run of site.yml with a later
node_lease_until extends it. docs/node_lease.md tells what happens at the end.

examples:
  gpunode lease                       until when, and what will be done then
  gpunode lease --json                the same for programs

exit status: 0 it runs, or there is none; 1 it is over; for follow 0 also while
the end waits for something, 1 it cannot be followed
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Tell until when this node may be used, and what becomes of it then."
    parser.epilog = DETAILS
    parser.add_argument("what", nargs="?", choices=["status", "follow"], default="status")


def run(host: Host, arguments: argparse.Namespace) -> int:
    if arguments.what == "follow":
        return _follow(host, arguments.json)
    from ..jobs.lease.follow import clock_is_right

    now = time.time()
    section = declaration.read(host).get(leases.SECTION)
    lease = leases.declared(section)
    if section and lease is None:
        raise NodeError("section {0} of {1}".format(leases.SECTION, declaration.PATH), "it has no time", "run site.yml")
    memory = leases.read(host)
    here = machine.identity(host)
    right = clock_is_right(host) and leases.confirmed(memory, leases.clocks(host, now))
    stage = None if lease is None else leases.stage(lease, memory, here, now, right)
    if arguments.json:
        print_json(_plain(lease, memory, stage, now))
    else:
        print("\n".join(_lines(lease, memory, stage, now, here is not None)))
    return DONE if stage in (None, Stage.RUNS) else NOT_DONE


def _plain(lease: Optional[Settings], memory: Memory, stage: Optional[Stage], now: float) -> Dict[str, Any]:
    if lease is None or stage is None:
        return {"stage": None}
    return {
        "stage": stage.value,
        "until": leases.utc(lease.ends),
        "left_seconds": round(lease.ends - now),
        "reset": lease.reset,
        "on_expiry": list(lease.on_expiry),
        "reservation": memory.reserved or None,
        "phase": memory.phase.value or None,
        "waits": memory.why or None,
    }


def _lines(lease: Optional[Settings], memory: Memory, stage: Optional[Stage], now: float, known: bool) -> List[str]:
    if lease is None or stage is None:
        return ["this node has no lease"]
    end = leases.utc(lease.ends)
    if stage is Stage.RUNS:
        found = ["it ends at {0}, in {1}".format(end, leases.left(lease, now))]
        held = "reservation {0} of Slurm lets no job outlive it".format(memory.reserved)
        found.append(held if memory.reserved else "no reservation of Slurm is known for it")
    elif stage is Stage.NEVER_RAN:
        why = "" if known else " (it can tell itself from no clone: it has neither a UUID nor a machine-id)"
        text = "it ended at {0}, before this machine was seen to run under it{1}: nothing is reset"
        found = [text.format(end, why), "extend node_lease_until and run site.yml, or end it: node_lease_state: absent"]
    elif stage is Stage.UNSURE:
        text = "it ended at {0} by the clock of this machine, which nothing synchronises: nothing is done by it"
        found = [text.format(end), "see 'timedatectl', and have a daemon such as chrony keep the time"]
    else:
        found = ["it ended at {0}: {1}".format(end, _PHASES[memory.phase])]
    if memory.why:
        found.append("it waits: {0}".format(memory.why))
    steps = ["drain"] + (["reset, and the scratch is lost"] if lease.reset else [])
    steps += ["run {0}".format(" ".join(lease.on_expiry))] if lease.on_expiry else []
    return [wrapped(one) for one in [*found, "at the end: {0}".format(", ".join(steps))]]


def _follow(host: Host, plain: bool) -> int:
    if os.geteuid() != 0:
        raise NodeError("gpunode lease follow", "only root may do that", "run it as root")
    from ..jobs.lease.follow import Follower
    from ..node import reset as resets

    def tell(text: str) -> None:
        print(text, file=sys.stderr if plain else sys.stdout, flush=True)

    report = Follower(host, tell, lambda but_lease: resets.for_lease(host, VERSION, but_lease)).once()
    if plain:
        print(json.dumps(report.to_dict(), indent=2, sort_keys=True))
    return DONE  # that it waits is told, and is no failure of the unit, which a health check would drain the node for
