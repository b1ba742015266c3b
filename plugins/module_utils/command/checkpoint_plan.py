# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode checkpoint plan``: caps, how long a copy takes, how often to write one; and what a copy would do."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from typing import Any, Dict, List, Tuple

from ..checkpoints import access, advice, cores, words, work
from ..checkpoints import plan as planned
from ..checkpoints.settings import Settings
from ..core.host import Host
from ..core.resource import Misuse
from ..facts.sysfs import format_cpulist
from .arguments import positive
from .exit_status import DONE
from .output import print_json, size

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bytes", required=True, metavar="SIZE", help="of the whole checkpoint: 800G, 1.5T")
    parser.add_argument("--interval", type=float, metavar="SECONDS", help="how often it is written now")
    parser.add_argument(
        "--pause", type=float, metavar="SECONDS", help="how long training stops for one; else for the whole copy"
    )
    parser.add_argument("--node-mtbf", type=float, metavar="HOURS", help="mean time between failures of one node")


def run(arguments: argparse.Namespace, settings: Settings, shape: planned.Shape) -> int:
    total = _bytes(arguments.bytes)
    rate = shape.cap * shape.at_once
    hours = advice.NODE_MTBF_HOURS if arguments.node_mtbf is None else arguments.node_mtbf
    for option in ("pause", "interval"):
        positive("--" + option, getattr(arguments, option))
    told = advice.advise(total / settings.nodes, rate, settings.nodes, hours, arguments.pause, arguments.interval)
    content: Dict[str, Any] = {
        "nodes": settings.nodes,
        "files_per_node": shape.at_once,
        "cap_mbps": shape.cap,
        "total_gbps": shape.total_gbps,
        "connections": shape.connections,
        "threads": shape.threads,
        "copy_seconds": round(told.copy_seconds, 1),
        "stop_seconds": round(told.stop_seconds, 1),
        "job_mtbf_hours": round(told.job_mtbf_seconds / 3600, 1),
        "best_interval_seconds": round(told.best_seconds),
        "lost_percent_at_best": round(told.least_percent, 2),
        "interval_seconds": told.interval_seconds,
        "lost_percent": None if told.lost_percent is None else round(told.lost_percent, 2),
        "warning": told.warning,
    }
    if arguments.json:
        print_json(content)
        return DONE
    source = advice.NODE_MTBF_SOURCE if arguments.node_mtbf is None else "--node-mtbf"
    rows = [
        ("cap of each file", "{0} Mb/s, {1} at a time on {2} node(s)".format(shape.cap, shape.at_once, settings.nodes)),
        ("together", "{0:g} of {1:g} Gb/s".format(shape.total_gbps, settings.account_ingress_gbps)),
        ("azcopy", "{0} requests, {1} core(s) each".format(shape.connections, shape.threads)),
        ("copy", "{0} in {1}".format(size(int(total)), _time(told.copy_seconds))),
        ("training stops", _time(told.stop_seconds)),
        ("a failure of the job", "each {0} in the mean".format(_time(told.job_mtbf_seconds))),
        ("", source),
        ("best interval", "{0}: {1:.2f} % of the time is lost".format(_time(told.best_seconds), told.least_percent)),
    ]
    if told.interval_seconds is not None and told.lost_percent is not None:
        rows.append(("interval now", "{0}: {1:.2f} %".format(_time(told.interval_seconds), told.lost_percent)))
    width = max(len(row[0]) for row in rows) + 2
    print("\n".join((name.ljust(width) + text).rstrip() for name, text in rows))
    if told.warning:
        print("gpunode: {0}".format(told.warning), file=sys.stderr, flush=True)
    return DONE


def dry_run(
    arguments: argparse.Namespace,
    host: Host,
    settings: Settings,
    shape: planned.Shape,
    found: cores.Cores,
    commands: List[Tuple[words.Word, ...]],
) -> int:
    """What put and get would do, for a person or a program."""
    place = work.Work(work.place(host, settings.work_folder, os.geteuid()))
    environment = {**place.environment(), **planned.environment(shape), **dict(access.public(settings))}
    lines = [" ".join(shlex.quote(one) for one in ["azcopy", *words.shown(each)]) for each in commands]
    if arguments.json:
        cpus = None if found.cpus is None else format_cpulist(found.cpus)
        print_json({"cap_mbps": shape.cap, "cpus": cpus, "environment": environment, "commands": lines})
        return DONE
    print("{0} file(s), {1} at a time, each with at most {2} Mb/s".format(len(lines), shape.at_once, shape.cap))
    cpus = "" if found.cpus is None else "CPUs {0}: ".format(format_cpulist(found.cpus))
    print("cores: {0}{1}".format(cpus, found.how))
    print("\n".join("{0}={1}".format(name, shlex.quote(value)) for name, value in sorted(environment.items())))
    print("\n".join(lines))
    return DONE


def _bytes(text: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([KMGTP]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not found:
        raise Misuse("option --bytes", "{0!r} is no size".format(text), "write one as in 800G or 1.5T")
    return float(found.group(1)) * _UNITS[found.group(2).upper()]


def _time(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return "{0:.1f} {1}".format(seconds / length, unit)
    return "{0:.1f} s".format(seconds)
