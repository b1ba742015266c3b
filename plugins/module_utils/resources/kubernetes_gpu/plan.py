# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import Iterator, List

from ...core import managed_files
from ...core.resource import Action, Plan, Refusal, apart
from ...kubernetes.helm import Release
from . import changes, chart, files, told
from .options import Desired
from .types import State, UpgradeRelease
from .values import unsettled, values

# States of a release in which no other helm is at work.
_AT_REST = ("deployed", "failed", "superseded", "uninstalled")


def plan(state: State, desired: Desired) -> Plan:
    if not desired.present:
        return _absent(state, desired)
    refusals: List[Refusal] = []
    if desired.folder or desired.apply == "helm":
        errors = unsettled(desired, changes.others(state.cluster, desired))
        refusals += [one for error in errors for one in apart(error)]
    wanted = () if refusals else files.wanted(desired)
    refusals += managed_files.refusals(state.files, wanted, "move it away, or give another folder")
    if desired.apply == "helm" and not refusals and state.release is not None:
        refusals += _of_release(state.release, desired)
    if refusals:
        return Plan(refusals=tuple(refusals))
    actions: List[Action] = managed_files.write(state.files, wanted)
    if state.cluster is None:
        return Plan(tuple(actions), notes=tuple(told.of_values(desired)))
    # The operator first: with the taint there before its tolerations, its pods could not come back to a node.
    actions += _release(state, desired)
    actions += changes.of_nodes(state.cluster, desired)
    return Plan(tuple(actions), notes=(*told.of_values(desired), *told.notes(state.cluster, desired)))


def _of_release(release: Release, desired: Desired) -> Iterator[Refusal]:
    thing = "release {0}/{1}".format(desired.namespace, desired.release)
    if release.state not in _AT_REST:
        reason = "it is {0}, so another helm is at work or was cut off".format(release.state)
        yield Refusal(thing, reason, "wait for it, or end it with 'helm rollback'")
    elif not release.ours and not desired.take_over:
        asked = chart.flat(values(desired))
        lost = [key for key in chart.flat(release.values) if key not in asked]
        if lost:
            reason = "somebody else made it, and these values of it would be lost: {0}".format(", ".join(sorted(lost)))
            yield Refusal(thing, reason, "add them to option values, or give take_over")


def _release(state: State, desired: Desired) -> List[Action]:
    if desired.apply != "helm":
        return []
    wanted, seen = values(desired), state.release
    if seen is None or seen.state == "uninstalled":
        return [UpgradeRelease(desired.release, desired.namespace, "", desired.chart_version, ())]
    keys = sorted({*chart.differences(wanted, seen.values), *chart.differences(seen.values, wanted)})
    if not keys and seen.version == desired.chart_version and seen.state == "deployed":
        return []
    return [UpgradeRelease(desired.release, desired.namespace, seen.version, desired.chart_version, tuple(keys))]


def _absent(state: State, desired: Desired) -> Plan:
    paths = files.paths(desired)
    actions: List[Action] = managed_files.remove(state.files, paths)
    notes = managed_files.foreign_notes(state.files, paths)
    if state.cluster is None:
        return Plan(tuple(actions), notes=notes)
    actions += changes.of_nodes(state.cluster, desired)
    return Plan(tuple(actions), notes=notes)
