# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Sequence

from ...core import declaration, managed_files
from ...core.managed_files import RemoveFile, RemoveFolder, WriteFile
from ...core.resource import Action, Plan, Refusal
from ...slurm import containers
from .options import Desired
from .types import (
    DROP_IN,
    SECTION,
    BuildPlugin,
    FetchSource,
    InstallPlugin,
    Other,
    RemovePlugin,
    State,
    built_section,
    version_numbers,
)

_CHANGES = (WriteFile, RemoveFile, BuildPlugin, InstallPlugin, RemovePlugin)


def plan(state: State, desired: Desired) -> Plan:
    if not desired.present:
        return _absent(state, desired)
    if state.slurm_version is None:
        return Plan(skipped="Slurm is not installed on this node")
    if state.adopted is not None:
        return _adopt(state.adopted, desired)
    if not desired.source and not desired.prebuilt and state.built is None and not state.plugstack.others:
        return Plan(skipped="no source of pyxis and no plugin was given, and none was built here before")
    wanted = [desired.drop_in()]
    if not state.files.seen(state.plugstack.path).foreign:
        wanted.append(desired.whole_plugstack(state.plugstack.path))
    refusals = list(managed_files.refusals(state.files, wanted[:1], "move it away"))
    refusals += [_in_the_way(one, state) for one in state.plugstack.others]
    plugin = _plugin(state, desired)
    refusals += [one for one in plugin if isinstance(one, Refusal)]
    if refusals:
        return Plan(refusals=tuple(refusals))
    steps = [one for one in plugin if isinstance(one, Action)]
    actions: List[Action] = [one for one in steps if isinstance(one, FetchSource)]
    declared = {SECTION: dict(state.declared)} if state.declared else {}
    declare = declaration.plan(declared, SECTION, _section(state))
    if declare is not None:
        actions.append(declare)
    actions += [one for one in steps if not isinstance(one, FetchSource)]
    # The line comes after the plugin: one that names a missing file would fail each job.
    writing = managed_files.write(state.files, wanted, keep=(DROP_IN, state.plugstack.path))
    broken = _fails_each_step(state)
    waiting = [one.describe() for one in steps if isinstance(one, (BuildPlugin, InstallPlugin)) and not broken]
    waiting += [one.describe() for one in writing if isinstance(one, (WriteFile, RemoveFile))]
    if state.users and waiting:
        note = containers.note(containers.held("pyxis", waiting, state.users))
        return Plan(tuple(actions) if broken else (), notes=(note,))
    actions += writing
    return Plan(tuple(actions), notes=tuple(_notes(state, state.plugstack.reached or len(wanted) > 1)))


def _fails_each_step(state: State) -> bool:
    """Whether our line names a plugin that Slurm does not load, so that no step of a running job uses it."""
    if not state.files.seen(DROP_IN).ours:
        return False
    if state.built is None or state.plugin_sha256 is None:
        return True
    return _release(state.built.slurm_version) != _release(state.slurm_version)


def _release(version: Optional[str]) -> object:
    """Slurm loads a SPANK plugin of the same release (plugin.c: "match major and minor") with any last number."""
    numbers = version_numbers(version)
    return version if numbers is None else numbers[:2]


def _adopt(other: Other, desired: Desired) -> Plan:
    """Containers work already, by somebody else's pyxis (CycleCloud 4 brings one): Slurm cannot load two."""
    if desired.options:
        return Plan(
            refusals=(
                Refusal(
                    "option options",
                    "{0} loads {1}, which is used as it is, so they would have no effect".format(
                        other.file, other.plugin
                    ),
                    "write them behind that plugin in that line and leave the option out, or take that line out",
                ),
            )
        )
    text = "{0} is loaded by {1} and is used as it is; to have one built here instead, take that line out"
    return Plan(notes=(text.format(other.plugin, other.file),))


def _in_the_way(other: Other, state: State) -> Refusal:
    if not other.exists:
        reason = "it loads {0}, which is not there, so each srun fails".format(other.plugin)
        return Refusal(other.file, reason, "take that line out of it")
    remedy = "take that line out of it"
    if state.files.seen(DROP_IN).ours:
        remedy += ", or use that pyxis and take ours away (state: absent)"
    return Refusal(other.file, "it loads a pyxis, {0}, and Slurm cannot load two".format(other.plugin), remedy)


def _plugin(state: State, desired: Desired) -> Sequence[object]:
    """The steps to a plugin that fits, or refusals."""
    version = state.slurm_version or ""
    fitting = next((one for one in desired.prebuilt if one.slurm_version == version), None)
    wanted = fitting.sha256 if fitting is not None else desired.sha256
    built = state.built
    if (
        built is not None
        and state.plugin_sha256 == built.plugin_sha256
        and built.slurm_version == version
        and wanted in ("", built.sha256)
    ):
        return []
    thing = "pyxis for Slurm {0}".format(version)
    if fitting is not None:
        words = (fitting.source, fitting.sha256)
        return [FetchSource(*words), InstallPlugin(*words, slurm_version=version)]
    if not desired.source:
        remedy = "give the tarball of its source, or a plugin that was built for this version"
        return [Refusal(thing, "there is nothing to make it of", remedy)]
    if state.missing_tools:
        return [
            Refusal(
                thing,
                "it cannot be built here without {0}".format(", ".join(state.missing_tools)),
                "install that, or give a plugin that was built for this version",
            )
        ]
    if state.headers is None:
        remedy = "install libslurm-dev or slurm-devel in this version, or give a plugin that was built for it"
        return [Refusal(thing, "Slurm's headers (slurm/spank.h) are not installed", remedy)]
    # Slurm loads no plugin that was compiled with headers of another release; the last number does not count.
    numbers = version_numbers(version)
    if state.headers.version is not None and numbers is not None and state.headers.version[:2] != numbers[:2]:
        found = "{0}.{1:02d}.{2}".format(*state.headers.version)
        remedy = "install the headers that belong to it"
        return [Refusal(thing, "the headers in {0} are those of Slurm {1}".format(state.headers.folder, found), remedy)]
    source = (desired.source, desired.sha256)
    return [FetchSource(*source), BuildPlugin(*source, slurm_version=version, include=state.headers.folder)]


def _section(state: State) -> Dict[str, Any]:
    """What ``state: absent`` has to take back. What the plugin was built for is noted when it has been built."""
    paths = [DROP_IN]
    if not state.files.seen(state.plugstack.path).foreign:
        paths.append(state.plugstack.path)
    content = managed_files.remembered(state.files, paths)
    if state.built is not None:
        content["built"] = dataclasses.asdict(state.built)
    return content


def _notes(state: State, reached: bool) -> List[str]:
    notes = []
    if not reached:
        text = "{0} does not reach {1}, so Slurm does not load pyxis: add the line 'include {2}/*.conf' to it"
        notes.append(text.format(state.plugstack.path, DROP_IN, DROP_IN.rsplit("/", 1)[0]))
    if state.plugstack.configless:
        text = "this node gets its configuration from the controller, whose plugstack.conf has to name {0} too"
        notes.append(text.format(DROP_IN))
    return notes


def restart_pending(state: State, actions: Sequence[Action], desired: Desired) -> bool:
    """``state``: as it is after the actions; what was taken away stays loaded, too."""
    if state.slurmd_started is None:
        return False
    reached = state.plugstack.reached and state.adopted is None and desired.present
    return any(isinstance(action, _CHANGES) for action in actions) or (state.stale and reached)


def _absent(state: State, desired: Desired) -> Plan:
    if not state.declared and not state.files.seen(DROP_IN).ours:
        return Plan()
    if DROP_IN in state.files.shared and state.files.seen(DROP_IN).ours:
        # Without its plugin the line would fail each job here.
        return Plan(notes=managed_files.foreign_notes(state.files, (DROP_IN,)))
    removing = managed_files.remove(state.files, (DROP_IN,))
    # The line goes before the plugin that it names.
    actions: List[Action] = [one for one in removing if not isinstance(one, RemoveFolder)]
    if state.declared and state.plugin_sha256 is not None:
        actions.append(RemovePlugin())
    lines = [one.describe() for one in actions if isinstance(one, RemoveFile)]
    if state.users and lines:
        return Plan(refusals=(containers.held("pyxis", lines, state.users),))
    actions += [one for one in removing if isinstance(one, RemoveFolder)]
    if state.declared:
        actions.append(declaration.Declare(SECTION, None))
    return Plan(tuple(actions), notes=managed_files.foreign_notes(state.files, (DROP_IN,)))


def after(state: State, actions: Sequence[Action], desired: Desired) -> State:
    """What will be found when these steps were taken; for diff mode and for tests of the planner."""
    declared, plugin = dict(state.declared), state.plugin_sha256
    started, changed = state.slurmd_started, state.changed_at
    for action in actions:
        if isinstance(action, _CHANGES):
            changed = max(changed, started or 0.0) + 1.0
        if isinstance(action, (BuildPlugin, InstallPlugin)):
            plugin = "of " + action.sha256
            declared.update(built_section(action.slurm_version, action.sha256, plugin))
        elif isinstance(action, RemovePlugin):
            plugin = None
        elif isinstance(action, declaration.Declare):
            declared = dict(action.content or {})
    files = managed_files.after(state.files, actions)
    reached = state.plugstack.reached
    if files.seen(state.plugstack.path).ours and desired.present:
        reached = True
    return dataclasses.replace(
        state,
        files=files,
        declared=declared,
        plugin_sha256=plugin,
        slurmd_started=started,
        changed_at=changed,
        plugstack=dataclasses.replace(state.plugstack, reached=reached),
    )
