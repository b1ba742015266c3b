# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode checkpoint``: put, get, list and plan."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from typing import Any, Dict, Optional, Tuple

from ..checkpoints import access, cores, destination, files, measured, store, whole, words, work
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
from ..facts.sysfs import parse_cpulist
from . import checkpoint_plan
from .arguments import positive
from .exit_status import DONE
from .output import print_json, size, table

_WEEK_SECONDS = 7 * 86400.0
DETAILS = """What is not given is taken from the declaration (section checkpoint of
/etc/gpu_node/node.json; role checkpoint). A checkpoint counts when its manifest
is in the store, which is written last. The same put again goes on with what a
killed one left. A shared access signature comes from a file, and is on no
command line.

examples:
  gpunode checkpoint put step-1000 model-*.pt    copy files, then the manifest
  gpunode checkpoint put step-1000 DIR --part 0/4
                                                 one of four nodes
  gpunode checkpoint put step-1000 DIR --dry-run caps, cores, command lines
  gpunode checkpoint list                        what is there, and is it whole
  gpunode checkpoint get latest /scratch/restore
  gpunode checkpoint plan --bytes 800G --nodes 4 --pause 20
                                                 how long, and how often

exit status: 0 done; 1 not done, one sentence says why; 2 wrong usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Bring checkpoints into a store of blobs and back, by azcopy."
    parser.epilog = DETAILS
    commands = parser.add_subparsers(dest="what", metavar="put, get, list or plan", required=True)
    put = commands.add_parser(
        "put", help="copy files, then write the manifest", description="Bring a checkpoint into the store."
    )
    put.add_argument("name", metavar="NAME", help="name of the checkpoint, such as step-1000")
    put.add_argument("files", nargs="+", metavar="FILE", help="files, or folders of files")
    put.add_argument("--part", metavar="I/N", help="this node's part, counted from 0: 0/4 to 3/4 on four nodes")
    put.add_argument("--keep", type=int, metavar="N", help="then remove whole ones of this run beside the last N")
    get = commands.add_parser(
        "get", help="bring a checkpoint back", description="Bring a checkpoint back from the store."
    )
    get.add_argument("name", metavar="NAME", help="name of the checkpoint; latest: the newest whole one")
    get.add_argument("folder", metavar="FOLDER", help="where it goes")
    get.add_argument("--part", metavar="I/N", help="only what that part wrote")
    for one in (put, get):
        one.add_argument("--dry-run", action="store_true", help="tell what would be done; ask the store nothing")
        one.add_argument("--cpus", metavar="LIST", help="run azcopy on these, such as 40-47; else off the ranks' cores")
        one.add_argument("--limit", type=float, metavar="SECONDS", help="stop after so long; the same command goes on")
        one.add_argument(
            "--metrics", metavar="FILE", help="write figures for the textfile collector, also of a failure"
        )
    listing = commands.add_parser(
        "list", help="the checkpoints in the store", description="Tell which checkpoints are in the store."
    )
    for one in (put, get, listing):
        one.add_argument("--to", dest="destination", metavar="URL", help="the container, or a folder in it")
        one.add_argument("--sas-file", metavar="FILE", help="file with a shared access signature, of yours alone")
        one.add_argument("--work", metavar="FOLDER", help="for plans and logs; else the scratch")
    plan = commands.add_parser(
        "plan", help="caps, how long a copy takes, how often to write one", description="Tell what a checkpoint costs."
    )
    checkpoint_plan.add_arguments(plan)
    for one in (put, get, plan):
        one.add_argument("--nodes", type=int, metavar="N", help="nodes that copy to this account at the same time")
        one.add_argument("--files", dest="at_once", type=int, metavar="N", help="files that each copies at a time")


def run(host: Host, arguments: argparse.Namespace) -> int:
    return {"put": _put, "get": _get, "list": _list, "plan": _plan}[arguments.what](host, arguments)


def _put(host: Host, arguments: argparse.Namespace) -> int:
    settings = store.named(_settings(host, arguments))
    name = destination.checkpoint_name(arguments.name)
    part = whole.Part() if arguments.part is None else whole.part(arguments.part)
    if name == getting.LATEST:
        reason = "'gpunode checkpoint get {0}' brings the newest one, whatever its name".format(name)
        raise Misuse("checkpoint " + name, reason, "give this one another name")
    positive("--limit", arguments.limit)
    keep = settings.keep if arguments.keep is None else arguments.keep
    if keep < 0:
        raise Misuse("option --keep", "{0} is less than 0".format(keep), "give 0 to keep all, or a number")
    sources = files.find(arguments.files)
    found, shape = _shape(host, arguments, settings, len(sources), settings.account_ingress_gbps)
    if arguments.dry_run:
        urls = [destination.joined(settings.destination, name, one.name) for one in sources]
        commands = [words.upload(one.path, url, shape.cap) for one, url in zip(sources, urls)]
        return checkpoint_plan.dry_run(arguments, host, settings, shape, found, commands)
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


def _get(host: Host, arguments: argparse.Namespace) -> int:
    settings = store.named(_settings(host, arguments))
    name = destination.checkpoint_name(arguments.name)
    part = None if arguments.part is None else whole.part(arguments.part)
    positive("--limit", arguments.limit)
    found, shape = _shape(host, arguments, settings, settings.files_per_node, settings.egress_gbps)
    if arguments.dry_run:
        url = destination.joined(settings.destination, name, "FILE")
        commands = [words.download(url, arguments.folder + "/FILE", shape.cap)]
        return checkpoint_plan.dry_run(arguments, host, settings, shape, found, commands)

    def act() -> Done:
        opened = _store(host, arguments, settings, shape, found, "rl")
        chosen = getting.choose(opened, name)
        if chosen.name != name:
            _tell("the newest whole checkpoint is {0}".format(chosen.name))
        return getting.get(opened, chosen, os.path.abspath(arguments.folder), _tell, part, arguments.limit)

    return _run(host, arguments, "get", act, "checkpoint {0} in {1}".format(name, arguments.folder))


def _list(host: Host, arguments: argparse.Namespace) -> int:
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


def _plan(host: Host, arguments: argparse.Namespace) -> int:
    settings = _settings(host, arguments)
    nothing = argparse.Namespace(cpus=None)
    dummy, shape = _shape(host, nothing, settings, settings.files_per_node, settings.account_ingress_gbps)
    return checkpoint_plan.run(arguments, settings, shape)


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


def _tell(text: str) -> None:
    print("gpunode: {0}".format(printable(text)), file=sys.stderr, flush=True)


def _lack(one: whole.Checkpoint) -> str:
    return "{0} of {1} parts".format(len(one.parts), one.of) if one.of else "no manifest"
