# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments in, library call, text or JSON out. What a command ends with is in :mod:`.ending`."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from ..core import own_directories
from ..core.host import Host
from ..core.registry import AT_BOOT
from ..core.resource import NodeError
from . import (
    board_arguments,
    checkpoint_arguments,
    cleanup_arguments,
    clocks_arguments,
    converge_arguments,
    diagnose_arguments,
    ending,
    events_arguments,
    health_arguments,
    history_arguments,
    hook_arguments,
    image_arguments,
    info_arguments,
    labels_arguments,
    lease_arguments,
    metrics_arguments,
    mig_arguments,
    pin_arguments,
    remedy_arguments,
    share_arguments,
    timeline_arguments,
)
from .parser import Parser
from .status import DONE, NOT_DONE
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


def _apply(parser: argparse.ArgumentParser) -> None:
    parser.description = "Put the scratch and the GPUs' settings in force again, as the boot units do."
    parser.add_argument("what", nargs="?", choices=["all", *AT_BOOT], default="all")
    parser.add_argument("--check", action="store_true", help="tell what would be done; change nothing")
    parser.set_defaults(function="apply.run")


def _scratch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=["status"])
    parser.set_defaults(function="show_scratch.run")


def _topology(parser: argparse.ArgumentParser) -> None:
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--draw", action="store_true", help="as a drawing of at most 80 columns, in place of the table")
    how.add_argument("--svg", nargs="?", const="-", metavar="FILE", help="as an SVG picture, into FILE or printed")
    parser.set_defaults(function="show_topology.run")


def _profile(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(metavar="suggest", required=True)
    told = "write a profile of this machine, for a person to check"
    one = what.add_parser("suggest", help=told, description="Write a profile of this machine, for a person to check.")
    one.add_argument("--name", metavar="NAME", help="the name of the profile, and of its file without .yml")
    one.add_argument("--vm-size", metavar="SIZE", help="the VM size; without it the cloud is asked, if this is one")
    one.set_defaults(function="suggest_profile.run")


def _help(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="the command, such as: clocks max")
    parser.set_defaults(function="show_help.run")


COMMANDS: Dict[str, Tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "converge": ("bring this node to its declaration", converge_arguments.converge),
    "undo": ("take away what a converge made", converge_arguments.undo),
    "boot": ("a node that converges itself at each boot", converge_arguments.boot),
    "reset": ("drain this node, and take away all that converges made", lease_arguments.reset),
    "lease": ("until when this node may be used", lease_arguments.lease),
    "cleanup": ("remove what jobs and users left on this node", cleanup_arguments.add),
    "declaration": ("what is wanted of this node", converge_arguments.declaration),
    "apply": ("put the scratch and the GPUs' settings in force again", _apply),
    "scratch": ("the local scratch", _scratch),
    "info": ("the GPUs of this node, and what runs on them", info_arguments.add),
    "topo": ("what hangs on which NUMA node", _topology),
    "clocks": ("show, raise and reset the clocks of the GPUs", clocks_arguments.add),
    "mig": ("show how GPUs are divided (MIG), and what a wish would do", mig_arguments.add),
    "pin": ("place the ranks of a job, and check those of a running one", pin_arguments.add),
    "share": ("how the GPUs can be shared, from how they are used", share_arguments.add),
    "timeline": ("where the time of a Horovod job went", timeline_arguments.add),
    "board": ("TensorBoard on this node, with the ssh line to reach it", board_arguments.add),
    "health": ("what is wrong with this node, and what to do", health_arguments.add),
    "diagnose": ("all that this node tells of itself, as one archive", diagnose_arguments.add),
    "metrics": ("what the GPUs do, as metrics for Prometheus", metrics_arguments.add),
    "labels": ("what this node has, as labels of a Kubernetes node", labels_arguments.add),
    "image": ("what software is installed, and whether it fits together", image_arguments.add),
    "checkpoint": ("bring checkpoints into a store of blobs and back", checkpoint_arguments.add),
    "history": ("what happened to this node and its parts, and what it owes", history_arguments.add),
    "events": ("what the cloud has announced for this machine", events_arguments.add),
    "remedy": ("what this node tries by itself on a part that failed", remedy_arguments.add),
    "profile": ("what a machine of this type must look like", _profile),
    "hook": ("what Slurm runs before and after each job", hook_arguments.add),
    "help": ("the options and examples of a command", _help),
    # Of programs: it is in no list.
    "module": ("", converge_arguments.module),
}


def parser(only: Optional[str] = None) -> Parser:
    """The parser of all commands, or of one: to make the others costs a hook as much as all its checks."""
    top = Parser(
        prog="gpunode",
        description="Look at this GPU node, and bring it to what was declared for it in\n"
        "/etc/gpu_node/declaration.json.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=NAMED, help="print the version of this command")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)

    for name, (what, add) in COMMANDS.items():
        if only in (None, name):
            told: Dict[str, Any] = {"help": what} if what else {}
            add(commands.add_parser(name, **told))

    # Suppressed: an inner parser's own default would undo "pin --json check …".
    top.set_defaults(json=False)
    for command in every(top):
        command.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON for programs")
        command.set_defaults(parser=command)
    return top


def every(one: Parser) -> Iterator[Parser]:
    """This parser and those of all commands below it."""
    yield one
    below = one.commands()
    for command in below.choices.values() if below is not None else ():
        yield from every(command)


def _parsed(words: List[str]) -> argparse.Namespace:
    arguments, left = parser(words[0] if words and words[0] in COMMANDS else None).parse_known_args(words)
    if left:
        arguments.parser.refuse(left)
    return arguments  # type: ignore[no-any-return]  # argparse has no name for what a parser of its own gives


def _run(words: List[str]) -> int:
    if sorted(words) == ["--json", "--version"]:
        from .table import print_json

        print_json({"version": VERSION})
        return DONE
    arguments = _parsed(words)  # version and help end here, whatever the state of the node is
    if os.geteuid() == 0 and arguments.command != "help":
        _close(words, arguments)
    # Only what a command needs is loaded: a hook before each job pays for every import.
    part, dummy, function = arguments.function.partition(".")
    module = importlib.import_module("." + part, __package__)
    status: int = getattr(module, function)(Host(), arguments)
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
        return ending.failed(words, error)
