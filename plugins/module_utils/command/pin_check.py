# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode pin check``: where a running application runs, and what is wrong with that."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import Any, Dict, List, Sequence

from ..core.host import Host
from ..core.resource import printable
from ..facts import topology
from ..facts.sysfs import format_cpulist
from ..placement.running import State, choose, judge, observe
from ..placement.running.judge import launchers
from ..placement.running.places import Places
from ..placement.running.types import WARNING, Finding, Process
from .exit_status import DONE, WARNINGS
from .output import painter, print_json, table, wrapped

WIDTH = 80
HEAD = ("PID", "THR", "RUN", "LAST", "ALLOWED", "NUMA", "L3", "GPU", "COMMAND")
# A longer list of CPUs is cut in the table; JSON has all of it.
_LIST_WIDTH = {"LAST": 12, "ALLOWED": 15, "NUMA": 7, "L3": 8, "GPU": 8}


EXAMPLES = """examples:
  gpunode pin check train.py         processes whose command line matches a regular expression
  gpunode pin check --pid 4711 --pid 4712
  gpunode pin check --job 1234       the processes of a Slurm job
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("pattern", nargs="?", metavar="PATTERN", help="a regular expression for the command line")
    parser.add_argument("--pid", type=int, action="append", metavar="N", help="this process; may be given again")
    parser.add_argument("--job", metavar="ID", help="the processes of this Slurm job")


def run(host: Host, arguments: argparse.Namespace) -> int:
    pids = choose(host, arguments.pattern, arguments.pid, arguments.job)
    state = observe(host, pids)
    found = topology.look(host)
    findings = judge(state, found)
    places = Places.of(found)
    if arguments.json:
        print_json(to_dict(state, findings, places))
    else:
        show(state, findings, places)
    return WARNINGS if any(one.severity == WARNING for one in findings) else DONE


def to_dict(state: State, findings: Sequence[Finding], places: Places) -> Dict[str, Any]:
    started_by = launchers(state)
    return {
        "processes": [dict(_row(state, one, places), launcher=one.pid in started_by) for one in state.processes],
        "findings": [dataclasses.asdict(one) for one in findings],
        "warnings": sum(one.severity == WARNING for one in findings),
        "gpus": [dataclasses.asdict(gpu) for gpu in state.gpus],
        "gpus_message": state.gpus_reason,
        "ended": list(state.ended),
    }


def _row(state: State, one: Process, places: Places) -> Dict[str, Any]:
    return {
        "pid": one.pid,
        "name": one.name,
        "command": one.command,
        "threads": len(one.threads),
        "running_threads": len(one.running),
        "last_cpus": list(one.last_cpus),
        "allowed_cpus": list(one.allowed),
        "numa_nodes": sorted(places.nodes_of(one.allowed)),
        "l3_groups": sorted(places.caches_of(one.allowed)),
        "gpus": [gpu.index for gpu in state.gpus_of(one.pid)],
    }


def show(state: State, findings: Sequence[Finding], places: Places) -> None:
    paint = painter(sys.stdout)
    started_by = launchers(state)
    lines = [
        line[:WIDTH].rstrip() for line in table(HEAD, [_cells(_row(state, one, places)) for one in state.processes])
    ]
    warned = {pid for one in findings if one.severity == WARNING for pid in one.pids}
    print(paint(lines[0], "strong"))
    for line, one in zip(lines[1:], state.processes):
        kind = "faint" if one.pid in started_by else "warning" if one.pid in warned else ""
        print(paint(line, kind) if kind else line)
    for finding in findings:
        text = wrapped("{0}: {1}".format(finding.severity, finding.message))
        print(paint(text, "warning") if finding.severity == WARNING else text)
    if started_by:
        print(wrapped("note: not judged, because they only started the others: " + _numbers(sorted(started_by))))
    if state.ended:
        print(wrapped("note: ended meanwhile: " + _numbers(state.ended)))
    if state.gpus_reason:
        print(wrapped("note: GPUs were not all looked at: " + state.gpus_reason))
    if not any(finding.severity == WARNING for finding in findings):
        count = len(state.processes) - len(started_by)
        print(paint("well pinned: {0} process{1}".format(count, "" if count == 1 else "es"), "good"))


def _cells(row: Dict[str, Any]) -> List[object]:
    def numbers(head: str, key: str) -> str:
        text = format_cpulist(row[key])
        width = _LIST_WIDTH[head]
        return text if len(text) <= width else text[: width - 2].rpartition(",")[0] + ",+"

    return [
        row["pid"],
        row["threads"],
        row["running_threads"],
        numbers("LAST", "last_cpus"),
        numbers("ALLOWED", "allowed_cpus"),
        numbers("NUMA", "numa_nodes"),
        numbers("L3", "l3_groups"),
        numbers("GPU", "gpus"),
        # Names may have any character; a control character must not reach the terminal.
        printable(row["name"]),
    ]


def _numbers(pids: Sequence[int]) -> str:
    return ", ".join(str(pid) for pid in pids)
