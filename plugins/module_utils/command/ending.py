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
from typing import List, Optional, Sequence, Tuple

from ..core.host import LockHeld
from ..core.resource import Misuse, NodeError
from .status import BUSY, NOT_DONE, UNKNOWN, WRONG_USE


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
        from .health import print_undone  # loaded only where it is wanted

        return print_undone(form, level, fail_on, error, status)
    from .table import print_json

    parts = {"thing": error.thing, "reason": error.reason, "remedy": error.remedy, "message": str(error)}
    print_json({"error": parts})
    return status


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
        from .health_arguments import LEVEL, add_fail_on, add_forms, add_levels

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
