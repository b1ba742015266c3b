# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``gpunode`` ends with, and how it tells an error: one rule for all commands.

A status says what became of the command, never what an error of the program might mean for the node: a declaration
that cannot be read, and a bug of ours, leave a node unknown. Programs that read the status of ``gpunode health`` have
numbers of their own (Nagios, node-problem-detector); its formats know them, and tell the error in their form.
"""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import sys
from typing import Any, List, Optional, Sequence, Tuple

from ..core.host import Host, LockHeld
from ..core.resource import Misuse, NodeError

DONE = 0
NOT_DONE = 1  # not done, or not in order
WRONG_USE = 2
WARNINGS = 3  # looked at, and there are warnings
UNKNOWN = 4  # of a command whose status is a verdict: nothing is known to be wrong, and something is not known
BUSY = 75  # another run is at it; as EX_TEMPFAIL of sysexits.h

# Of gpunode health. They are here and not in its module: an error is told in the form that was asked for, also where
# that module cannot be loaded.
FORMATS = ("text", "json", "nagios", "npd", "prometheus", "nfd", "azure")
LEVEL = "passive"
FAIL_ON = ("warn", "unknown", "fail")


def failed(words: Sequence[str], error: Exception) -> int:
    """Tell why a command ended early, in the form that was asked for. ``words`` are its arguments."""
    known = error if isinstance(error, NodeError) else _bug(words, error)
    return _tell(words, known, _status(words, known))


def _status(words: Sequence[str], error: NodeError) -> int:
    if isinstance(error, Misuse):
        return WRONG_USE
    if _judges(words):
        return UNKNOWN
    return BUSY if isinstance(error, LockHeld) else NOT_DONE


def _judges(words: Sequence[str]) -> bool:
    return _of_health(words) or _command(words) == ["hook", "health"]


def _of_health(words: Sequence[str]) -> bool:
    return _command(words)[:1] == ["health"]


def _command(words: Sequence[str]) -> List[str]:
    """The first words that are no options: ``--json`` may stand before them."""
    return [word for word in words if not word.startswith("-")][:2]


def _bug(words: Sequence[str], error: Exception) -> NodeError:
    where, trace = "", error.__traceback__
    while trace is not None:
        where = ", {0}:{1}".format(trace.tb_frame.f_code.co_filename.rpartition("/")[2], trace.tb_lineno)
        trace = trace.tb_next
    reason = "it failed ({0}: {1}{2})".format(type(error).__name__, error, where)
    return NodeError(" ".join(["gpunode", *_command(words)[:1]]), reason, "report this as a bug")


def _tell(words: Sequence[str], error: NodeError, status: int) -> int:
    """A form for programs is one document on standard output, where the answer would have been."""
    form, level, fail_on = _asked(words)
    if form == "text":
        # Who speaks is told once.
        print(error if error.thing == "gpunode" else "gpunode: {0}".format(error), file=sys.stderr)
        # Nothing is known to be wrong, and that alone was to be a failure.
        return 0 if fail_on == "fail" and status == UNKNOWN else status
    if _of_health(words) and "--list" not in words:
        return _print_undone(form, level, fail_on, error, status)
    from .output import print_json

    parts = {"thing": error.thing, "reason": error.reason, "remedy": error.remedy, "message": str(error)}
    print_json({"error": parts})
    return status


def _print_undone(form: str, level: str, fail_on: Optional[str], error: NodeError, status: int) -> int:
    """No verdict could be made: told as one of which nothing is known but this, in the form that was asked for."""
    from .. import health  # loaded only where it is wanted
    from ..health import formats
    from ..slurm import this_node

    verdict = health.undone(this_node.here(Host()).node_name, error, health.Cost(level))
    print(formats.render(form, verdict), end="")
    if form in formats.OF_PROGRAMS:
        status = formats.exit_status(form, verdict)
    elif form != "json":  # these have no place for a sentence
        print("gpunode: {0}".format(error), file=sys.stderr)
    return status if isinstance(error, Misuse) else status_of(verdict, fail_on, status)


def status_of(verdict: Any, fail_on: Optional[str], status: int) -> int:
    """``status``, unless the verdict is better than the outcome that is to be a failure."""
    from .. import health

    return status if fail_on is None or health.reached(verdict.outcome, fail_on) else DONE


def _asked(words: Sequence[str]) -> Tuple[str, str, Optional[str]]:
    """The form, the level and what is a failure, as they were asked for, also where the arguments as a whole are not
    understood."""
    import argparse
    import contextlib
    import io

    parser = argparse.ArgumentParser(add_help=False)
    parser.set_defaults(json=False, form="text", level="", fail_on=None)
    parser.add_argument("--json", action="store_true")
    if _of_health(words):
        parser.set_defaults(level=LEVEL)
        add_forms(parser, "form")
        add_levels(parser)
        add_fail_on(parser)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            found = parser.parse_known_args(list(words))[0]
    except SystemExit:
        return "text", "", None
    return "json" if found.json else str(found.form), str(found.level), found.fail_on


def add_levels(parser: Any) -> None:
    parser.add_argument("--quick", action="store_const", dest="level", const="quick", help="what is done before a job")
    parser.add_argument("--active", action="store_const", dest="level", const="active", help="measure too, for minutes")


def add_fail_on(parser: Any) -> None:
    parser.add_argument(
        "--fail-on", choices=FAIL_ON, metavar="OUTCOME", help="end with 0 but for this outcome and worse ones"
    )


def add_forms(parser: Any, name: str) -> None:
    """The arguments that choose a form, into the attribute ``name``."""
    parser.add_argument("--format", dest=name, choices=FORMATS, default="text", metavar="FORM", help=", ".join(FORMATS))
    for form, what in (("nagios", "Nagios and Icinga"), ("npd", "node-problem-detector")):
        parser.add_argument("--" + form, action="store_const", dest=name, const=form, help="for " + what)
