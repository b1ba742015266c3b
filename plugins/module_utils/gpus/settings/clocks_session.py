# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Set the clocks of GPUs to their maximum or back to the default, in one visit to each.

A prolog does this before every job. A run of the resource opens NVML three times (observe, apply, observe), because
any setting of any GPU may refuse the whole plan. ``max`` and ``default`` can refuse nothing, so here each GPU is read,
planned by the same rules, set and read again in one child process: opening NVML is the expensive part on a real
node. A GPU that nothing keeps open is read once more after NVML was closed, since its driver may forget then.
"""

from __future__ import annotations

import os
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from ...core.frozen import frozen, replaced
from ...core.host import Host
from ...core.resource import NodeError
from ...facts.daemons import holds_persistence_mode
from ...facts.nvml.call import Gpu as OpenGpu
from ...facts.nvml.selectors import ALL, matches_any
from ...facts.nvml.session import CALL_TIMEOUT_SECONDS, Survey, survey
from ...facts.nvml.status import Status
from . import record
from .apply import apply_one
from .observe import read_gpu
from .options import SECTION
from .plan import one_gpu
from .settings import CLOCKS, FORGOT_CLOCKS, Ways
from .types import Decision, Entry, FailedGpu, Gpu, GpuAction, State


@frozen
class Visited:
    """One GPU: the steps that were (check mode: would be) taken, and how it was found or left."""

    gpu: Gpu
    actions: Tuple[GpuAction, ...]
    notes: Tuple[str, ...]
    entry: Optional[Entry]  # what the record is to say of it; None: as it was


@frozen
class Outcome:
    """``state`` is how the GPUs were left, ``skipped`` why there was none to set."""

    state: State
    actions: Tuple[GpuAction, ...] = ()
    notes: Tuple[str, ...] = ()
    failed: Tuple[FailedGpu, ...] = ()
    skipped: Optional[str] = None


def run(
    host: Host,
    word: str,
    selectors: Sequence[str] = (ALL,),
    check_mode: bool = False,
    call_timeout_seconds: float = CALL_TIMEOUT_SECONDS,
) -> Outcome:
    """Bring the selected GPUs to ``word`` (``max`` or ``default``); the others are not touched.

    :raises NodeError: not root, no driver, a selector that means no GPU. GPUs that fail are in the outcome.
    """
    if check_mode:
        return _run(host, word, selectors, True, call_timeout_seconds)
    if os.geteuid() != 0:
        raise NodeError("GPU clocks", "only root may change them", "run it as root, or with --check to see the plan")
    with host.lock(SECTION):  # two jobs that start at the same moment take turns
        return _run(host, word, selectors, False, call_timeout_seconds)


def _run(host: Host, word: str, selectors: Sequence[str], check_mode: bool, timeout: float) -> Outcome:
    remembered = State(entries=record.read(host), persistenced=holds_persistence_mode(host))

    def visitor(gpu: OpenGpu) -> Iterator[Visited]:
        yield _visit(host, gpu, word, selectors, remembered, check_mode)

    found: Survey[Visited] = survey(visitor, selectors, timeout, host=host)
    found.require_driver()
    load = record.driver_load(host, found.system.driver_version.value)
    if found.status is Status.NO_GPU:
        return Outcome(replaced(remembered, driver_load=load), skipped=found.message)
    done = [part for visit in found.visits for part in visit.parts]
    if not check_mode:
        changed = [(one.gpu.uuid, one.entry) for one in done if one.actions]
        if changed or record.read(host) != remembered.entries:
            kept = [(one.gpu.uuid, remembered.entry(one.gpu.uuid)) for one in done if not one.actions]
            record.write(host, changed + kept)
    failed = _failed(found)
    loose = [one for one in done if one.actions and one.gpu.loose]
    if loose and not check_mode:
        failed += _forgotten(host, loose, word, load, timeout)
    state = State(
        gpus=tuple(one.gpu for one in done),
        failed=failed,
        entries=record.read(host),
        driver_load=load,
        persistenced=remembered.persistenced,
    )
    return Outcome(
        state=state,
        actions=tuple(action for one in done for action in one.actions),
        notes=tuple(note for one in done for note in one.notes)
        + ((found.message,) if found.status is Status.PARTIAL and not found.faults else ()),
        failed=failed,
    )


def _failed(found: Survey[Visited]) -> Tuple[FailedGpu, ...]:
    return tuple(
        FailedGpu(
            visit.identity.index,
            visit.identity.uuid,
            visit.identity.pci_address,
            "this GPU told nothing" if visit.fault is None else str(visit.fault),
        )
        for visit in found.visits
        if not visit.parts
    )


def _forgotten(host: Host, loose: Sequence[Visited], word: str, load: str, timeout: float) -> Tuple[FailedGpu, ...]:
    """Those GPUs that lost their clocks when NVML was closed; the record then claims nothing of them."""
    again: Survey[Gpu] = survey(read_gpu, [one.gpu.uuid for one in loose], timeout, host=host)
    state = State(gpus=tuple(p for v in again.visits for p in v.parts), entries=record.read(host), driver_load=load)
    lost: List[FailedGpu] = []
    withdrawn: List[Tuple[str, Optional[Entry]]] = []
    for gpu in state.gpus:
        if _decide(state, gpu, word).actions:
            message = str(NodeError(gpu.label, *FORGOT_CLOCKS))
            lost.append(FailedGpu(gpu.index, gpu.uuid, gpu.pci_address, message))
            entry = state.entry(gpu.uuid)
            if entry is not None:
                withdrawn.append((gpu.uuid, replaced(entry, clocks=None)))
    if withdrawn:
        record.write(host, withdrawn)
    return tuple(lost)


def _decide(state: State, gpu: Gpu, word: str) -> Decision:
    return one_gpu(state, gpu, {CLOCKS.option: word}, snap=False)


# In the child process ---------------------------------------------------------------------------------


def _visit(
    host: Host, gpu: OpenGpu, word: str, selectors: Sequence[str], remembered: State, check_mode: bool
) -> Visited:
    version = gpu.nvml.read("NVML", "nvmlSystemGetDriverVersion").map(_text).value
    state = replaced(remembered, driver_load=record.driver_load(host, version))
    before = next(read_gpu(gpu))
    decision = _decide(state, before, word)
    actions, notes = tuple(decision.actions), tuple(decision.notes)
    if check_mode or not actions:
        return Visited(before, actions, notes, None)
    _withdraw(host, gpu, selectors)
    ways: Ways = {}
    for action in actions:
        ways.update(apply_one(gpu, action) or {})
    entry = decision.late
    if entry.clocks is not None and ways:
        entry = replaced(entry, clocks=replaced(entry.clocks, **ways))
    after = next(read_gpu(gpu))
    stated = replaced(state, entries=((after.uuid, entry),))
    rest = _decide(stated, after, word)
    if rest.actions:
        raise NodeError(
            after.label,
            "it was set and still differs from what was asked: " + "; ".join(one.describe() for one in rest.actions),
            "see with gpunode info what holds it, then run it again",
        )
    return Visited(after, actions, notes, entry)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _withdraw(host: Host, gpu: OpenGpu, selectors: Sequence[str]) -> None:
    """Before the first setter, take back what the record says of all selected GPUs, in one write.

    A crash then leaves them unstated, never stated wrongly; those that need no change get their entry back at the end.
    """
    identities = [one.identity for one in (gpu,) + gpu.peers]
    chosen = {one.uuid for one in identities if matches_any(one, selectors)}
    stated: Dict[str, Entry] = {
        uuid: replaced(entry, clocks=None)
        for uuid, entry in record.read(host)
        if uuid in chosen and entry.clocks is not None
    }
    if stated:
        record.write(host, stated.items())
