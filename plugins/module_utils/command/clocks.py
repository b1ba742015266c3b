# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode clocks``: show the clocks of the GPUs, and hold or release them for now."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
from typing import Any, Dict, Optional, Sequence, Tuple

from ..core.host import Host
from ..core.options import of
from ..core.resource import NodeError, Refusal, Refused, Unfinished
from ..facts.nvml.session import CALL_TIMEOUT_SECONDS
from ..gpus.settings import clocks_session, held_clocks
from ..gpus.settings.clocks import highest
from ..gpus.settings.observe import observe
from ..gpus.settings.options import Settings
from ..gpus.settings.run import set_gpus
from ..gpus.settings.types import (
    APPLICATION,
    DEFAULT,
    FIXED,
    LOCKED,
    ClockClaim,
    FailedGpu,
    Gpu,
    GpuAction,
    State,
)
from . import by_gpu, clocks_lines
from .arguments import add_gpu, gpu_selectors
from .clocks_lines import NOT_KNOWN
from .exit_status import DONE, NOT_DONE
from .output import print_json

TEMPORARY = """Temporary: nothing is declared. A reboot, a reload of the driver or
'gpunode clocks reset' ends it, and 'gpunode apply gpu_settings' brings back
what was declared for this node. Only the GPUs named by --gpu are touched, so
two jobs on one node do not undo each other's clocks.
"""

EXAMPLES = """examples:
  gpunode clocks list                 now, held at, by default, and at most
  gpunode clocks max                  all GPUs at their highest clocks
  gpunode clocks max --gpu 0,1        these two only, as for a job that has them
  gpunode clocks reset --gpu 0,1      these two back to the driver's default
  gpunode clocks set --graphics 1095  all GPUs at this graphics clock
"""


def _whole(text: str) -> int:
    number = int(text)
    if number <= 0:
        raise ValueError
    return number


_whole.__name__ = "clock in MHz"  # argparse: "invalid clock in MHz value"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show the clocks of the GPUs, or set them for now."
    parser.epilog = EXAMPLES + "\n" + TEMPORARY
    commands = parser.add_subparsers(dest="what", metavar="ACTION", required=True)
    for name, summary in (
        ("list", "clocks of each GPU: now, held at, default and maximum"),
        ("max", "hold the graphics and memory clock at their maximum (temporary)"),
        ("reset", "return the clocks to the driver's default (temporary)"),
        ("set", "hold the clocks at these values (temporary)"),
    ):
        one = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=None if name == "list" else TEMPORARY,
        )
        add_gpu(one)
        if name == "set":
            one.add_argument(
                "--graphics", type=_whole, metavar="MHZ", required=True, help="graphics (SM) clock to hold"
            )
            one.add_argument("--memory", type=_whole, metavar="MHZ", help="memory clock to hold; left alone without it")
            one.add_argument("--snap", action="store_true", help="take the nearest supported clock instead of refusing")
        if name != "list":
            one.add_argument("--check", action="store_true", help="tell what would be done; change nothing")


def run(host: Host, arguments: argparse.Namespace) -> int:
    return _show(host, arguments) if arguments.what == "list" else _change(host, arguments)


def _show(host: Host, arguments: argparse.Namespace) -> int:
    """Status 1 when a GPU does not answer, so that scripts notice."""
    state = observe(host, CALL_TIMEOUT_SECONDS, with_declaration=False)
    selectors = gpu_selectors(arguments.gpu)
    gpus, failed = by_gpu.selected(state.gpus, state.failed, selectors)
    rows = [row(state, gpu) for gpu in gpus]
    if arguments.json:
        print_json({"gpus": rows, "failed_gpus": by_gpu.plain_failed(failed), "message": state.absent})
        return NOT_DONE if failed else DONE
    if state.absent is not None:
        print(state.absent)
    if rows:
        clocks_lines.print_table(rows)
    by_gpu.print_failed(failed)
    return NOT_DONE if failed else DONE


def _change(host: Host, arguments: argparse.Namespace) -> int:
    """Status 1 when a GPU could not be set; the others were set all the same."""
    selectors = gpu_selectors(arguments.gpu)
    if arguments.what == "set":
        outcome = _set(host, arguments, selectors)
    else:
        word = {"max": "max", "reset": "default"}[arguments.what]
        outcome = clocks_session.run(host, word, selectors, arguments.check)
    gpus, dummy = by_gpu.selected(outcome.state.gpus, outcome.state.failed, selectors)
    if arguments.json:
        print_json(
            {
                "action": arguments.what,
                "check": arguments.check,
                "changed": bool(outcome.actions),
                "actions": [action.to_dict() for action in outcome.actions],
                "notes": list(outcome.notes),
                "message": outcome.skipped,
                "gpus": [row(outcome.state, gpu) for gpu in gpus],
                "failed_gpus": by_gpu.plain_failed(outcome.failed),
            }
        )
    else:
        clocks_lines.print_change(outcome, arguments.check, bool(gpus))
    return NOT_DONE if outcome.failed else DONE


def _set(host: Host, arguments: argparse.Namespace, selectors: Sequence[str]) -> clocks_session.Outcome:
    """Through the whole of gpu_settings: an unsupported clock on one GPU leaves all of them as they are."""
    clocks = {"graphics_mhz": arguments.graphics, "memory_mhz": arguments.memory}
    settings = of(Settings, {"clocks": clocks, "gpus": list(selectors), "snap": arguments.snap})
    failed: Tuple[FailedGpu, ...] = ()
    try:
        done = set_gpus(host, settings, arguments.check)
    except Unfinished as error:
        done = error.outcome
        failed = (FailedGpu(None, None, None, str(error)),)
    except Refused as error:
        state = observe(host, CALL_TIMEOUT_SECONDS, with_declaration=False)
        by_gpu.selected(state.gpus, state.failed, selectors)  # a GPU that is not there
        raise _one_sentence(error.refusals) from error
    setters = tuple(one for one in done.plan.actions if isinstance(one, GpuAction))
    return clocks_session.Outcome(done.after, setters, done.plan.notes, failed, done.plan.skipped)


def _one_sentence(refusals: Sequence[Refusal]) -> NodeError:
    """What is refused for the same reason on many GPUs is told once."""
    first = refusals[0]
    numbers = [by_gpu.labelled(one.thing + ": ")[0] for one in refusals if one.reason == first.reason]
    known = [number for number in numbers if number is not None]
    thing = first.thing if len(known) < 2 else "GPU {0}".format(by_gpu.ranges(known))
    return NodeError(thing, first.reason, first.remedy.replace("set snap to take", "add --snap to take"))


# What is told of a GPU --------------------------------------------------------------------------------


def row(state: State, gpu: Gpu) -> Dict[str, Any]:
    claim = state.known(gpu).claim
    graphics, memory = highest(gpu)
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "pci_address": gpu.pci_address,
        "name": gpu.name,
        "persistence": gpu.persistence,
        "graphics": _clock(
            gpu.graphics_clock_mhz,
            _held(gpu, claim, "graphics"),
            gpu.application_graphics_mhz,
            gpu.default_application_graphics_mhz,
            graphics,
        ),
        "memory": _clock(
            gpu.memory_clock_mhz,
            _held(gpu, claim, "memory"),
            gpu.application_memory_mhz,
            gpu.default_application_memory_mhz,
            memory,
        ),
    }


def _clock(
    now: Optional[int],
    held: Tuple[str, Optional[int], bool],
    application: Optional[int],
    default: Optional[int],
    maximum: Optional[int],
) -> Dict[str, Any]:
    return {
        "now_mhz": now,
        "held_by": held[0],
        "held_mhz": held[1],
        "contradicted": held[2],
        "application_mhz": application,
        "default_mhz": default,
        "max_mhz": maximum,
    }


def _held(gpu: Gpu, claim: Optional[ClockClaim], kind: str) -> Tuple[str, Optional[int], bool]:
    """How a clock is held (a way of gpu_settings, or ``not known``), at what, and whether its reading contradicts that.

    NVML tells application clocks and cannot tell locks; what gpunode itself locked stands in its record.
    """
    application = getattr(gpu, "application_{0}_mhz".format(kind))
    default = getattr(gpu, "default_application_{0}_mhz".format(kind))
    lockable = gpu.can_lock_graphics if kind == "graphics" else gpu.can_lock_memory
    way = None if claim is None else getattr(claim, kind + "_way")
    if claim is not None and way == LOCKED:
        mhz = getattr(claim, kind + "_mhz")
        reading = getattr(gpu, kind + "_clock_mhz")
        return LOCKED, mhz, held_clocks.contradicted(mhz, getattr(claim, kind + "_seen"), reading, gpu.event_reasons)
    if way == FIXED:
        return FIXED, getattr(claim, kind + "_mhz"), False
    if application is not None and application != default:
        return APPLICATION, application, False
    if way == DEFAULT or not lockable:
        return DEFAULT, default, False
    return NOT_KNOWN, None, False
