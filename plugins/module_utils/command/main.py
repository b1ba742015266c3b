# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of all commands, and the start of one. How it reports an error is in :mod:`.exit_status`."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional

from ..core import own_directories
from ..core.host import Host
from ..core.resource import NodeError
from . import exit_status
from .exit_status import DONE, NOT_DONE
from .parser import Parser
from .version import VERSION

EXAMPLES = """examples:
  gpunode info                   the GPUs: load, memory, power, processes
  gpunode info --watch           the same, again every 2 seconds
  gpunode topo                   NUMA nodes with cores, GPUs, InfiniBand, NVMe
  gpunode topo --draw            the same as a drawing; --svg FILE as a picture
  gpunode clocks list            clocks: now, held at, default, maximum
  gpunode clocks max             hold all GPUs at their highest clocks, for now
  gpunode mig list               GPU instances (MIG), and who uses them
  gpunode mig plan 3g+2x2g       what would be done for this
  gpunode pin --ranks 8          where 8 ranks belong, and the launcher's line
  gpunode pin check PATTERN      whether a running job is pinned so
  gpunode share advise           how each GPU can be shared, after a minute
  gpunode timeline FILE          where the time of a Horovod job went
  gpunode board --logdir DIR     TensorBoard here, and the ssh line to reach it
  gpunode health                 what is wrong with this node, and what to do
  gpunode diagnose -o FILE       all that it tells of itself, in one archive
  gpunode metrics                what the GPUs do, for Prometheus
  gpunode labels                 what it has, as labels of a Kubernetes node
  gpunode image                  what is installed, and what does not fit
  gpunode checkpoint put NAME F  files of a checkpoint into a store of blobs
  gpunode history                what happened to it, and what it owes
  gpunode events                 what the cloud has announced for this machine
  gpunode remedy --check         what would be tried on a part that failed
  gpunode profile suggest        a profile of this machine, to be checked
  gpunode scratch status         the scratch: mount, size, members, geometry
  gpunode converge --check       what would be done to this node
  gpunode converge               bring it to its declaration
  gpunode boot status            how the converge of this boot ended
  gpunode declaration show       what is wanted of this node
  gpunode undo --check           what an undo would take away
  gpunode cleanup --check        what jobs and users left here
  gpunode lease                  until when this node may be used
  gpunode reset --check          what a reset would take away, after a drain
  gpunode apply                  put the scratch and the GPUs' settings in force
                                 again (the boot units run this)

exit status:
  0  done, and all is well
  1  not done, or not in order; one sentence says why
  2  wrong usage: an argument, check, GPU or launcher that there is not
  3  pin check, health: looked at, and there are warnings; diagnose: written,
     and something could not be collected
  4  health: something could not be checked, or nothing at all
  75 converge, undo, reset, boot: another converge of this node runs; remedy:
     another remedy
"""


NAMED = "gpunode (trainyard.gpu_node) " + VERSION

#: What each command does, in the order of --help. A command is the module of its name beside this one, with
#: ``add_arguments(parser)`` and ``run(host, arguments)``.
COMMANDS: Mapping[str, str] = {
    "converge": "bring this node to its declaration",
    "undo": "take away what a converge made",
    "boot": "a node that converges itself at each boot",
    "reset": "drain this node, and take away all that converges made",
    "lease": "until when this node may be used",
    "cleanup": "remove what jobs and users left on this node",
    "declaration": "what is wanted of this node",
    "apply": "put the scratch and the GPUs' settings in force again",
    "scratch": "the local scratch",
    "info": "the GPUs of this node, and what runs on them",
    "topo": "what hangs on which NUMA node",
    "clocks": "show, raise and reset the clocks of the GPUs",
    "mig": "show how GPUs are divided (MIG), and what a wish would do",
    "pin": "place the ranks of a job, and check those of a running one",
    "share": "how the GPUs can be shared, from how they are used",
    "timeline": "where the time of a Horovod job went",
    "board": "TensorBoard on this node, with the ssh line to reach it",
    "health": "what is wrong with this node, and what to do",
    "diagnose": "all that this node tells of itself, as one archive",
    "metrics": "what the GPUs do, as metrics for Prometheus",
    "labels": "what this node has, as labels of a Kubernetes node",
    "image": "what software is installed, and whether it fits together",
    "checkpoint": "bring checkpoints into a store of blobs and back",
    "history": "what happened to this node and its parts, and what it owes",
    "events": "what the cloud has announced for this machine",
    "remedy": "what this node tries by itself on a part that failed",
    "profile": "what a machine of this type must look like",
    "hook": "what Slurm runs before and after each job",
    "help": "the options and examples of a command",
    # Of programs: it is in no list.
    "module": "",
}


def parser(listed: Iterable[str] = tuple(COMMANDS), loaded: Optional[Iterable[str]] = None) -> Parser:
    """With the names of ``listed``, and the arguments of those of ``loaded`` (default: all of them).

    A hook before each job pays for every import and every parser: it makes only its own.
    """
    top = Parser(
        prog="gpunode",
        description="Look at this GPU node, and bring it to what was declared for it in\n"
        "/etc/gpu_node/declaration.json.",
        epilog=EXAMPLES,
    )
    top.add_argument("--version", action="version", version=NAMED, help="print the version of this command")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in listed:
        texts: Dict[str, Any] = {"help": COMMANDS[name]} if COMMANDS[name] else {}
        one = commands.add_parser(name, **texts)
        if loaded is None or name in loaded:
            _module(name).add_arguments(one)

    # Suppressed: an inner parser's own default would undo "pin --json check …".
    top.set_defaults(json=False)
    for command in every(top):
        command.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON for programs")
        command.set_defaults(parser=command)
        if command.epilog:  # its lines are as they are to be
            command.formatter_class = argparse.RawDescriptionHelpFormatter
    return top


def _module(name: str) -> Any:
    return importlib.import_module("." + name, __package__)


def every(one: Parser) -> Iterator[Parser]:
    """This parser and those of all commands below it."""
    yield one
    below = one.commands()
    for command in below.choices.values() if below is not None else ():
        yield from every(command)


def _parsed(words: List[str]) -> argparse.Namespace:
    if words and words[0] in COMMANDS:
        top = parser(words[:1])
    else:  # gpunode itself has no option with a value, so the first other word is the command
        top = parser(loaded=[word for word in words if not word.startswith("-")][:1])
    arguments, left = top.parse_known_args(words)
    if left:
        arguments.parser.refuse(left)
    return arguments  # type: ignore[no-any-return]  # argparse has no name for what a parser of its own gives


def _run(words: List[str]) -> int:
    if sorted(words) == ["--json", "--version"]:
        from .output import print_json

        print_json({"version": VERSION})
        return DONE
    arguments = _parsed(words)  # version and help end here, whatever the state of the node is
    if os.geteuid() == 0 and arguments.command != "help":
        _close(words, arguments)
    status: int = _module(arguments.command).run(Host(), arguments)
    return status


def _drop_output() -> None:
    """What is still to be written goes nowhere, or the end of Python would try it again, and end with 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _cannot_write(error: OSError) -> bool:
    """Is it the answer that cannot be written? Then nothing can be."""
    try:
        print(flush=True)
        return False
    except OSError as again:
        return again.errno == error.errno


def _close(words: List[str], arguments: argparse.Namespace) -> None:
    """:raises NodeError: the node is not to be trusted; a converge at boot records why."""
    try:
        for sentence in own_directories.close(Host(), refuse=not (_of_a_job(words) or arguments.command == "boot")):
            print("gpunode: " + sentence, file=sys.stderr)
    except NodeError as error:
        if arguments.command == "converge" and arguments.boot:
            from ..node import own  # seldom wanted

            own.refused(Host(), VERSION, error)
        raise


def _of_a_job(words: List[str]) -> bool:
    """If a hook fails before a job, Slurm drains the node with a reason that the health gate does not remove."""
    return [word for word in words if not word.startswith("-")][:2] in (["hook", "prolog"], ["hook", "epilog"])


def main(argv: Optional[List[str]] = None) -> int:
    if os.geteuid() == 0:
        # root's umask (077 on a hardened system, 000 in a service) has no effect: users can read and enter what is
        # created for them, and cannot write to it. Modules, units and hooks all start here. For other users the umask
        # does not change.
        os.umask(0o022)
    words = sys.argv[1:] if argv is None else argv
    if isinstance(sys.stdout, io.TextIOWrapper):  # names may have letters that the locale lacks
        sys.stdout.reconfigure(errors="replace")
    try:
        status = _run(words)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # "gpunode info | head" is no error
        _drop_output()
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if isinstance(error, OSError) and _cannot_write(error):
            _drop_output()
            reason = "gpunode: standard output: the answer could not be written: {0}; make room, or write it elsewhere."
            print(reason.format(error.strerror), file=sys.stderr)
            return NOT_DONE
        return exit_status.failed(words, error)
