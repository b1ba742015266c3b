# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode events``: what the cloud has announced for this machine, for a person, and the service that acts on it."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import os
import sys
import syslog
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..core import declaration
from ..core.host import Host
from ..core.options import of_section
from ..core.resource import NodeError, printable
from ..facts import sysfs
from ..health.events import ask, memory
from ..health.events.follow import Follower
from ..health.events.settings import AZURE, NONE, SECTION, Settings
from ..health.events.types import Answer, utc
from .exit_status import DONE, NOT_DONE
from .output import print_json, table

_NOBODY = "nobody is asked for events: this is no virtual machine of Azure, and nothing else is declared (cloud_events)"
_NOTES = 10
DETAILS = """show    the events that are pending for this node, whether it is drained for
        them, and what happened lately; changes nothing, and waits a second
        at most
once    ask and act once: drain, resume, or leave the node
follow  the same, again and again; gpu-node-cloud_events.service runs it

examples:
  gpunode events                what is pending
  gpunode events --json         the same, for programs
  gpunode events once           act on it now, as where no service runs

exit status: 0 asked and answered, or nobody is to be asked; 1 no answer, or a
file of this node that cannot be read
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show what the cloud has announced for this machine, or act on it."
    parser.epilog = DETAILS
    parser.add_argument("what", nargs="?", choices=["show", "once", "follow"], default="show")
    parser.add_argument("--node", metavar="NAME", default="", help="name of this node in slurm.conf")


def run(host: Host, arguments: argparse.Namespace) -> int:
    if arguments.what == "show":
        return _show(host, arguments.json)
    if os.geteuid() != 0:
        raise NodeError("gpunode events " + arguments.what, "only root may run it", "run it as root")
    if arguments.what == "once":
        return _once(host, arguments)
    follower = Follower(host, _tell(), arguments.node, patient=True)
    follower.follow(_replaced(sys.argv[0]))
    return DONE


def _tell() -> Callable[[str], None]:
    """Into the journal by standard error, and into the log of the other parts of this collection."""
    syslog.openlog("gpu_node", syslog.LOG_PID, syslog.LOG_DAEMON)

    def tell(text: str) -> None:
        line = printable("events: " + text)
        print("gpunode: " + line, file=sys.stderr, flush=True)
        syslog.syslog(syslog.LOG_WARNING, line)

    return tell


def _replaced(path: str) -> Callable[[], bool]:
    """Whether the node command is another file by now: parts of it that are loaded later would not fit this one. The
    service ends then, and systemd starts the new one."""

    def now() -> Optional[Tuple[int, int, int]]:
        try:
            found = os.stat(path)
        except OSError:
            return None
        return (found.st_dev, found.st_ino, found.st_mtime_ns)

    begun = now()
    return lambda: now() != begun


def _once(host: Host, arguments: argparse.Namespace) -> int:
    follower = Follower(host, _tell(), arguments.node)
    done = follower.once(follower.settings())
    if arguments.json:
        pending = [one.to_dict() for one in done.answer.events] if done.answer is not None else None
        print_json({"events": pending, "error": done.error or None, "action": done.action, "why": done.why})
    elif not done.error:
        print("{0}: {1}".format(done.action, done.why))
    return NOT_DONE if done.error else DONE


def _show(host: Host, as_json: bool) -> int:
    settings = of_section(Settings, declaration.read(host).get(SECTION))
    provider = settings.provider
    if provider == NONE and ask.is_azure(sysfs.dmi(host)):
        provider = AZURE
    known, lost = memory.load(host)
    lost = "{0}: {1}".format(memory.PATH, lost) if lost else ""
    answer, why = None, ""
    try:
        if provider != NONE:
            answer = ask.azure() if provider == AZURE else ask.program(host, settings.command)
    except NodeError as error:
        why = str(error)
    if as_json:
        print_json(_document(provider, answer, why, known, lost))
    else:
        print("\n".join(_lines(provider, answer, why, known, lost)))
    return NOT_DONE if why or lost else DONE


def _document(provider: str, answer: Optional[Answer], why: str, known: memory.Memory, lost: str) -> Dict[str, Any]:
    return {
        "provider": provider,
        "answered": answer is not None,
        "why": why or None,
        "events": [one.to_dict() for one in answer.events] if answer is not None else None,
        "notes": list(answer.notes) if answer is not None else [],
        "unreadable": lost or None,
        "machine_name": known.name or None,
        "drained_for": list(known.drained),
        "history": [{"time": utc(one.time), "text": one.text} for one in known.notes],
    }


def _lines(provider: str, answer: Optional[Answer], why: str, known: memory.Memory, lost: str) -> List[str]:
    lines: List[str] = []
    if lost:
        lines.append("what this node is drained for cannot be read: {0}".format(printable(lost)))
    if provider == NONE:
        return [*lines, _NOBODY]
    if answer is None:
        lines.append("no answer: {0}".format(why))
    elif not answer.events:
        lines.append("no event is pending")
    else:
        head = ("TYPE", "ID", "WHEN", "FOR")
        rows = [(one.word, one.id, one.when, ",".join(one.resources) or "this machine") for one in answer.events]
        lines += table(head, rows)
    lines += list(answer.notes) if answer is not None else []
    if known.drained:
        lines.append("drained by us for: {0}".format(", ".join(known.drained)))
    if known.notes:
        lines.append("lately:")
        lines += ["  {0}  {1}".format(utc(one.time), printable(one.text)) for one in known.notes[-_NOTES:]]
    return lines
