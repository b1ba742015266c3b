# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode clocks``: show the clocks of the GPUs, and hold or release them for now."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..core.host import Host
from ..core.resource import Action, NodeError, Refusal, Refused, Unfinished
from ..facts.nvml.session import CALL_TIMEOUT_SECONDS
from ..gpus.settings import clocks as rules
from ..gpus.settings import clocks_session
from ..gpus.settings.observe import observe
from ..gpus.settings.rules import live_claim
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
from ..gpus.settings.wish import Wish
from . import by_gpu
from .color import painter
from .gpu_argument import selectors as selectors_of
from .status import DONE, NOT_DONE
from .table import print_json, table, wrapped

NOT_KNOWN = "not known"
HEAD = ("GPU", "ADDRESS", "NOW", "HELD AT", "BY", "DEFAULT", "MAXIMUM")


def show(host: Host, arguments: argparse.Namespace) -> int:
    """Status 1 when a GPU does not answer, so that scripts notice."""
    state = observe(host, CALL_TIMEOUT_SECONDS, with_declaration=False)
    selectors = selectors_of(arguments.gpu)
    gpus, failed = by_gpu.selected(state.gpus, state.failed, selectors)
    rows = [row(state, gpu) for gpu in gpus]
    if arguments.json:
        print_json({"gpus": rows, "failed_gpus": by_gpu.plain_failed(failed), "message": state.absent})
        return NOT_DONE if failed else DONE
    if state.absent is not None:
        print(state.absent)
    if rows:
        _print_table(rows)
    by_gpu.print_failed(failed)
    return NOT_DONE if failed else DONE


def change(host: Host, arguments: argparse.Namespace) -> int:
    """Status 1 when a GPU could not be set; the others were set all the same."""
    selectors = selectors_of(arguments.gpu)
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
        _print_change(outcome, arguments.check, bool(gpus))
    return NOT_DONE if outcome.failed else DONE


def _set(host: Host, arguments: argparse.Namespace, selectors: Sequence[str]) -> clocks_session.Outcome:
    """Through the whole of gpu_settings: an unsupported clock on one GPU leaves all of them as they are."""
    clocks = {"graphics_mhz": arguments.graphics, "memory_mhz": arguments.memory}
    wish = Wish.from_section({"clocks": clocks, "gpus": list(selectors), "snap": arguments.snap})
    failed: Tuple[FailedGpu, ...] = ()
    try:
        done = set_gpus(host, wish, arguments.check)
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
    claim = live_claim(state, gpu)
    graphics, memory = rules.highest(gpu)
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
        return LOCKED, mhz, rules.contradicted(mhz, getattr(claim, kind + "_seen"), reading, gpu.event_reasons)
    if way == FIXED:
        return FIXED, getattr(claim, kind + "_mhz"), False
    if application is not None and application != default:
        return APPLICATION, application, False
    if way == DEFAULT or not lockable:
        return DEFAULT, default, False
    return NOT_KNOWN, None, False


# In print ---------------------------------------------------------------------------------------------


def _print_table(rows: Sequence[Dict[str, Any]]) -> None:
    paint = painter(sys.stdout)
    lines = table(HEAD, [_cells(one) for one in rows])
    print(paint(lines[0], "strong"))
    for line, one in zip(lines[1:], rows):
        print(paint(line, "warning") if _contradicted(one) else line)
    print(paint("MHz: graphics (SM) + memory", "faint"))
    notes = []
    if any(_held_text(one)[1] == NOT_KNOWN for one in rows):
        notes.append(
            "not known: NVML cannot tell of a lock, and gpunode set or lifted none since the driver was loaded"
        )
    notes += [
        "GPU {0}: its clock speaks against the lock that was set; 'gpunode clocks max' sets it again".format(
            one["index"]
        )
        for one in rows
        if _contradicted(one)
    ]
    notes += by_gpu.grouped((str(one["index"]), text) for one in rows for text in _overridden(one))
    for note in notes:
        print(wrapped("note: " + note))


def _overridden(one: Dict[str, Any]) -> List[str]:
    """Locks that do not show where people look for them: other tools print the application clock, which stays."""
    told = []
    for kind in ("graphics", "memory"):
        clock = one[kind]
        reads = clock["application_mhz"]
        if clock["held_by"] == LOCKED and reads is not None and reads == clock["default_mhz"] != clock["held_mhz"]:
            told.append(
                "the {0} clock is locked at {1} MHz; the application clock reads its default, {2} MHz, and the lock "
                "overrides it".format(kind, clock["held_mhz"], reads)
            )
    return told


def _contradicted(one: Dict[str, Any]) -> bool:
    return bool(one["graphics"]["contradicted"] or one["memory"]["contradicted"])


def _cells(one: Dict[str, Any]) -> List[object]:
    def pair(key: str) -> Optional[str]:
        values = [one[kind][key] for kind in ("graphics", "memory")]
        return None if values == [None, None] else "+".join("-" if mhz is None else str(mhz) for mhz in values)

    held, how = _held_text(one)
    return [one["index"], one["pci_address"], pair("now_mhz"), held, how, pair("default_mhz"), pair("max_mhz")]


def _held_text(one: Dict[str, Any]) -> Tuple[Optional[str], str]:
    clocks = (one["graphics"], one["memory"])
    holding = [clock["held_by"] for clock in clocks if clock["held_by"] in (LOCKED, APPLICATION)]
    if not holding:
        ways = {clock["held_by"] for clock in clocks}
        return None, NOT_KNOWN if NOT_KNOWN in ways else DEFAULT
    told = [clock["held_mhz"] if clock["held_by"] in (LOCKED, APPLICATION, FIXED) else None for clock in clocks]
    text = "+".join("-" if mhz is None else str(mhz) for mhz in told)
    return text, "+".join(dict.fromkeys(holding))


def _print_change(outcome: clocks_session.Outcome, check_mode: bool, any_gpu: bool) -> None:
    paint = painter(sys.stdout)
    if outcome.skipped:
        print(outcome.skipped)
    for line in _by_gpu(outcome.actions, "would " if check_mode else ""):
        print(line)
    if not outcome.actions and any_gpu and not outcome.skipped:
        print("as asked already, nothing to do")
    if outcome.actions and not check_mode:
        print(paint("until reset, reboot or 'gpunode apply gpu_settings'; nothing was declared", "faint"))
    for note in by_gpu.grouped(by_gpu.labelled(note) for note in outcome.notes):
        print(wrapped("note: " + note))
    by_gpu.print_failed(outcome.failed)


def _by_gpu(actions: Sequence[Action], verb: str) -> List[str]:
    labelled = [by_gpu.labelled(action.describe()) for action in actions]
    return [wrapped(line) for line in by_gpu.grouped((number, verb + text) for number, text in labelled)]
