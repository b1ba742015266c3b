# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode checkpoint``: put, get, list and plan."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import shlex
import signal
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

from ..checkpoints import access, advice, cores, destination, files, measured, store, whole, words, work
from ..checkpoints import get as getting
from ..checkpoints import plan as planned
from ..checkpoints import put as putting
from ..checkpoints.put import Done
from ..checkpoints.settings import FILES_RANGE, NODES_RANGE, SAS_FILE, SECTION, Settings
from ..core import declaration
from ..core.frozen import replaced
from ..core.host import Host
from ..core.options import of_section
from ..core.resource import Misuse, NodeError, printable
from ..facts.sysfs import format_cpulist, parse_cpulist
from .status import DONE
from .table import print_json, size, table

_WEEK_SECONDS = 7 * 86400.0
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}


def put(host: Host, arguments: argparse.Namespace) -> int:
    settings = store.named(_settings(host, arguments))
    name = destination.checkpoint_name(arguments.name)
    part = whole.Part() if arguments.part is None else whole.part(arguments.part)
    if name == getting.LATEST:
        reason = "'gpunode checkpoint get {0}' brings the newest one, whatever its name".format(name)
        raise Misuse("checkpoint " + name, reason, "give this one another name")
    _seconds("--limit", arguments.limit)
    keep = settings.keep if arguments.keep is None else arguments.keep
    if keep < 0:
        raise Misuse("option --keep", "{0} is less than 0".format(keep), "give 0 to keep all, or a number")
    sources = files.find(arguments.files)
    found, shape = _shape(host, arguments, settings, len(sources), settings.account_ingress_gbps)
    if arguments.dry_run:
        urls = [destination.joined(settings.destination, name, one.name) for one in sources]
        commands = [words.upload(one.path, url, shape.cap) for one, url in zip(sources, urls)]
        return _told(arguments, host, settings, shape, found, commands)
    rights = "rwcl" + ("d" if keep else "")
    return _run(
        host,
        arguments,
        "put",
        lambda: putting.put(
            _store(host, arguments, settings, shape, found, rights), name, part, sources, _tell, keep, arguments.limit
        ),
        "checkpoint {0}{1}".format(name, part.words),
    )


def get(host: Host, arguments: argparse.Namespace) -> int:
    settings = store.named(_settings(host, arguments))
    name = destination.checkpoint_name(arguments.name)
    part = None if arguments.part is None else whole.part(arguments.part)
    _seconds("--limit", arguments.limit)
    found, shape = _shape(host, arguments, settings, settings.files_per_node, settings.egress_gbps)
    if arguments.dry_run:
        url = destination.joined(settings.destination, name, "FILE")
        commands = [words.download(url, arguments.folder + "/FILE", shape.cap)]
        return _told(arguments, host, settings, shape, found, commands)

    def act() -> Done:
        opened = _store(host, arguments, settings, shape, found, "rl")
        chosen = getting.choose(opened, name)
        if chosen.name != name:
            _tell("the newest whole checkpoint is {0}".format(chosen.name))
        return getting.get(opened, chosen, os.path.abspath(arguments.folder), _tell, part, arguments.limit)

    return _run(host, arguments, "get", act, "checkpoint {0} in {1}".format(name, arguments.folder))


def listing(host: Host, arguments: argparse.Namespace) -> int:
    settings = store.named(_settings(host, arguments))
    shape = planned.shape(settings, cores.Cores(1, 1), 1, settings.account_ingress_gbps)
    every = whole.checkpoints(_store(host, arguments, settings, shape, cores.Cores(1, 1), "rl").listing())
    if arguments.json:
        content = [
            dict(name=one.name, whole=one.whole, files=one.files, bytes=one.size_bytes, time=one.modified)
            for one in every
        ]
        print_json({"checkpoints": content})
        return DONE
    rows = [
        (printable(one.name), "whole" if one.whole else _lack(one), one.files, size(one.size_bytes), one.modified)
        for one in every
    ]
    print("\n".join(table(("checkpoint", "state", "files", "size", "manifest of"), rows)) if rows else "none is there")
    return DONE


def plan(host: Host, arguments: argparse.Namespace) -> int:
    settings = _settings(host, arguments)
    total = _bytes(arguments.bytes)
    nothing = argparse.Namespace(cpus=None)
    dummy, shape = _shape(host, nothing, settings, settings.files_per_node, settings.account_ingress_gbps)
    rate = shape.cap * shape.at_once
    hours = advice.NODE_MTBF_HOURS if arguments.node_mtbf is None else arguments.node_mtbf
    for option in ("pause", "interval"):
        _seconds("--" + option, getattr(arguments, option))
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
        _tell(told.warning)
    return DONE


# What they share ----------------------------------------------------------------------------------------


def _settings(host: Host, arguments: argparse.Namespace) -> Settings:
    found = of_section(Settings, declaration.read(host).get(SECTION))
    changes: Dict[str, Any] = {}
    for option, field, bounds in (("nodes", "nodes", NODES_RANGE), ("at_once", "files_per_node", FILES_RANGE)):
        value = getattr(arguments, option, None)
        if value is None:
            continue
        if not bounds[0] <= value <= bounds[1]:
            name = "--nodes" if option == "nodes" else "--files"
            raise Misuse("option " + name, "{0} is out of range".format(value), "give {0} to {1}".format(*bounds))
        changes[field] = value
    if getattr(arguments, "destination", None):
        changes["destination"] = destination.checked(arguments.destination, "option --to")
    if getattr(arguments, "sas_file", None):
        changes.update(sas_file=os.path.abspath(os.path.expanduser(arguments.sas_file)), auth=SAS_FILE)
    if getattr(arguments, "work", None):
        changes["work_folder"] = os.path.abspath(arguments.work)
    return replaced(found, **changes)


def _shape(
    host: Host, arguments: argparse.Namespace, settings: Settings, count: int, gbps: float
) -> Tuple[cores.Cores, planned.Shape]:
    given: Optional[Tuple[int, ...]] = None
    if arguments.cpus is not None:
        given = parse_cpulist(arguments.cpus)
        if not given:
            raise Misuse("option --cpus", "{0!r} is no list of CPUs".format(arguments.cpus), "write one as in 40-47,90")
    found = cores.look(host, os.environ, given)
    return found, planned.shape(settings, found, count, gbps)


def _store(
    host: Host, arguments: argparse.Namespace, settings: Settings, shape: planned.Shape, found: cores.Cores, rights: str
) -> store.Store:
    granted = access.read(host, settings, rights, os.environ, time.time(), os.path.expanduser("~"))
    opened = work.opened(host, settings.work_folder)
    opened.tidy(time.time() - _WEEK_SECONDS)
    return store.opened(host, settings, granted, opened, shape, found, os.environ)


def _run(host: Host, arguments: argparse.Namespace, way: str, act: Any, what: str) -> int:
    """Do it, and write the figures in any case. A signal ends it as an error does: azcopy is stopped, one sentence."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _ended)
    metrics = arguments.metrics
    if metrics is None:
        folder = of_section(Settings, declaration.read(host).get(SECTION)).metrics_folder
        if folder and os.access(host.path(folder), os.W_OK):
            metrics = "{0}/gpu_node_checkpoint.prom".format(folder)
    metrics = metrics and os.path.abspath(metrics)
    try:
        done: Done = act()
    except BaseException:
        with contextlib.suppress(NodeError):  # why it failed is what counts
            if metrics:
                measured.write(host, metrics, way, None, time.time())
        raise
    if metrics:
        try:
            measured.write(host, metrics, way, done, time.time())
        except NodeError as error:
            if arguments.metrics is not None:
                raise
            _tell(str(error))  # nobody asked this command for it, and the copy is whole
    rate = planned.megabits(done.size_bytes, done.seconds)
    if arguments.json:
        print_json(
            {
                "files": done.files,
                "bytes": done.size_bytes,
                "seconds": round(done.seconds, 3),
                "already": done.already,
                "resumed": done.resumed,
                "retries": done.retries,
                "cap_mbps": done.cap,
                "halved": done.halved,
                "removed": list(done.removed),
            }
        )
        return DONE
    if done.already:
        print("{0}: it is there already, whole".format(what))
    else:
        text = "{0}: {1} file(s), {2} in {3:.1f} s ({4:.0f} Mb/s)"
        print(text.format(what, done.files, size(done.size_bytes), done.seconds, rate))
    for one in done.removed:
        print("removed: checkpoint {0}".format(printable(one)))
    return DONE


def _ended(number: int, dummy: object) -> None:
    raise NodeError(
        "gpunode checkpoint",
        "it was ended by signal {0}, and azcopy with it".format(signal.Signals(number).name),
        "run the same command again: it goes on with the files that are left",
    )


def _told(
    arguments: argparse.Namespace,
    host: Host,
    settings: Settings,
    shape: planned.Shape,
    found: cores.Cores,
    commands: List[Tuple[words.Word, ...]],
) -> int:
    """What would be done, for a person or a program."""
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


def _tell(text: str) -> None:
    print("gpunode: {0}".format(printable(text)), file=sys.stderr, flush=True)


def _lack(one: whole.Checkpoint) -> str:
    return "{0} of {1} parts".format(len(one.parts), one.of) if one.of else "no manifest"


def _bytes(text: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([KMGTP]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not found:
        raise Misuse("option --bytes", "{0!r} is no size".format(text), "write one as in 800G or 1.5T")
    return float(found.group(1)) * _UNITS[found.group(2).upper()]


def _seconds(option: str, value: Optional[float]) -> None:
    """:raises Misuse: it is given, and no length of time."""
    if value is not None and not 0 < value < math.inf:
        raise Misuse("option " + option, "{0:g} s is no length of time".format(value), "give a finite number above 0")


def _time(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return "{0:.1f} {1}".format(seconds / length, unit)
    return "{0:.1f} s".format(seconds)
