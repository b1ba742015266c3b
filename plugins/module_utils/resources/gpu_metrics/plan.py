# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from ...core import folder_given, managed_files
from ...core.managed_files import RemoveFile
from ...core.options import as_section
from ...core.resource import Action, Plan, Refusal, sentence
from ...core.systemd.timer import touched
from ...core.systemd.units import ReloadSystemd
from ...facts import dcgm
from ...metrics.settings import AUTO, DCGM, NVML, SECTION, Settings
from . import texts
from .options import Desired
from .types import EXPORTERS, TABLE, TMPFILES, UNIT, StartExporter, State

_NOBODY = (
    "nobody would read the metrics: there is no dcgm-exporter here, and no folder of Prometheus' node exporter "
    "(install prometheus-node-exporter, or give gpu_metrics_textfile)"
)
_DROP_INS = tuple(texts.drop_in_path(one) for one in EXPORTERS)


def source(state: State, desired: Desired) -> str:
    """Who tells of the GPUs."""
    if desired.source != AUTO:
        return desired.source
    return DCGM if state.exporter.unit else NVML


def plan(state: State, desired: Desired) -> Plan:
    if not desired.present:
        return _gone(state)
    if source(state, desired) == DCGM:
        return _dcgm(state, desired)
    if not state.textfile:
        gone = _gone(state)
        if gone.actions or gone.notes:
            return Plan(gone.actions, notes=(*gone.notes, _NOBODY))
        return Plan(skipped=_NOBODY)
    return _nvml(state, desired)


def _nvml(state: State, desired: Desired) -> Plan:
    refusals = _refused(state, (state.textfile, state.owners))
    if state.textfile == state.owners:
        reason = "it is also the file of the metrics of the GPUs"
        refusals.append(Refusal(state.owners, reason, "give another name as gpu_metrics_owners_textfile"))
    wanted, section = (*texts.of_nvml(desired), *texts.of_owners(state.owners)), _section(state, desired, NVML)
    more = [RemoveFile(one) for one in state.left if one not in (state.textfile, state.owners)]
    found = UNIT.present(state.files, state.declared, state.timer, wanted, section, refusals, more)
    if found.refusals:
        return found
    missing = () if state.folder is None else folder_given.missing(SECTION + "_textfile", state.folder)
    return Plan((*found.actions, *_released(state, found.actions)), notes=missing or _no_folder(state))


def _dcgm(state: State, desired: Desired) -> Plan:
    exporter = state.exporter
    if not exporter.unit:
        remedy = "install NVIDIA's package datacenter-gpu-manager-exporter, or set gpu_metrics_source to nvml"
        return Plan(refusals=(Refusal("dcgm-exporter", "it is not installed", remedy),))
    wanted = texts.of_dcgm(state, desired)
    refusals = (*managed_files.refusals(state.files, wanted, "move it away"), *_refused(state, (state.owners,)))
    if exporter.taken:
        reason = "another program listens there, and {0} does not run".format(exporter.unit)
        refusals += (Refusal("port " + desired.listen, reason, "stop that one, or set gpu_metrics_listen"),)
    if refusals:
        return Plan(refusals=refusals)
    actions = UNIT.declare(state.files, state.declared, wanted, _section(state, desired, DCGM))
    actions += UNIT.stopped(state.timer)
    actions += [RemoveFile(one) for one in state.left if one != state.owners]
    actions += managed_files.write(state.files, wanted)
    changed = touched(actions, [one.path for one in wanted])
    running = state.timer.running
    if running and (exporter.stale or UNIT.touched(actions, _DROP_INS)):
        actions.append(ReloadSystemd())
    if running and (changed or exporter.stale or not (exporter.active and exporter.enabled)):
        actions.append(StartExporter(exporter.unit, desired.listen, not desired.web_config))
    notes = _notes(state, desired) if not actions else _paired(state)
    return Plan(tuple(actions), notes=(*notes, *_no_folder(state)))


def _refused(state: State, paths: Sequence[str]) -> List[Refusal]:
    reason, remedy = "it is there and is not ours", "move it away, or give another path"
    return [Refusal(path, reason, remedy) for path in state.foreign if path in paths]


def _no_folder(state: State) -> Tuple[str, ...]:
    folder = state.owners_folder
    return () if folder is None else folder_given.missing(SECTION + "_owners_textfile", folder)


def _gone(state: State) -> Plan:
    """Nothing of it is wanted, or nobody reads it."""
    more: List[Action] = [RemoveFile(path) for path in state.left]
    more += _released(state, managed_files.remove(state.files, _DROP_INS))
    return UNIT.absent(state.files, state.declared, state.timer, more, (TABLE, TMPFILES, *_DROP_INS))


def _released(state: State, actions: Sequence[Action]) -> List[Action]:
    """An exporter without our drop-in is as its package has it."""
    if not state.timer.running or not touched(actions, _DROP_INS):
        return []
    return [ReloadSystemd(), *([StartExporter(state.exporter.unit)] if state.exporter.unit else [])]


def _section(state: State, desired: Desired, chosen: str) -> Dict[str, Any]:
    return dict(
        as_section(Settings, desired),
        source=chosen,
        textfile=state.textfile if chosen == NVML else "",
        owners_textfile=state.owners,
    )


def _notes(state: State, desired: Desired) -> Tuple[str, ...]:
    """Of an exporter that has had time to tell."""
    exporter, found = state.exporter, list(_paired(state))
    if exporter.told is not None:
        left_out = dcgm.missing(dcgm.chosen(desired.fields, state.profiling), exporter.told)
        if left_out:
            reason = "it does not tell {0}".format(", ".join(left_out))
            remedy = "see 'dcgmi profile --list' for what this GPU has, and leave out the rest (gpu_metrics_fields)"
            found.append(sentence("dcgm-exporter", reason, remedy))
    elif exporter.active and exporter.why:
        remedy = "ask {0} yourself which fields it tells".format(desired.listen)
        found.append(sentence("dcgm-exporter", exporter.why, remedy))
    return tuple(found)


def _paired(state: State) -> Tuple[str, ...]:
    made_for, there = state.exporter.unpaired
    if not made_for:
        return ()
    reason = "it was made with DCGM {0}, and DCGM {1} is installed".format(made_for, there)
    return (sentence("dcgm-exporter", reason, "install the two of one version, or fields may be left out in silence"),)
