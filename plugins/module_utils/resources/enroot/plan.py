# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from ...core import declaration, managed_files, node_packages
from ...core.frozen import replaced
from ...core.managed_files import Files, MakeFolder, RemoveFile, RemoveFolder, Wanted, WriteFile
from ...core.resource import Action, Plan
from ...slurm import containers
from ...slurm.user_folders import SECTION, templates
from . import kernel, settings, texts
from .options import Desired
from .types import (
    ENVIRON_FILE,
    EXTRA_HOOKS,
    MOUNTS_FILE,
    PATHS,
    PROFILE_FILE,
    SETTINGS_FILE,
    Link,
    LoadProfile,
    MakeLink,
    RemoveLink,
    SetKernelValue,
    State,
    as_section,
)


def plan(state: State, desired: Desired) -> Plan:
    if not desired.present:
        return _absent(state)
    if not state.installed and not desired.packages:
        return Plan(skipped="enroot is not installed on this node, and no packages of it were given")
    packages = desired.packages_for(state.machine)
    setting = kernel.wanted(state.kernel, state.declared) if desired.user_namespaces else {}
    profile = wants_profile(state, desired)
    wanted = texts.wanted(state, desired, setting, profile)
    refusals = node_packages.refusals(state.packages, packages, desired.allow_downgrade)
    refusals += managed_files.refusals(state.files, wanted, "move it away, or into a file of another name")
    if refusals:
        return Plan(refusals=refusals)
    actions: List[Action] = node_packages.fetch(state.packages, packages)
    links = _links(state, desired)
    files = _only_needed(state.files, wanted, links)
    installing = node_packages.install(state.packages, packages)
    old, new = dict(state.declared), _section(state, desired, files, setting)
    if installing and old:
        # A job may begin meanwhile. The prolog and enroot.conf then keep naming the same directories.
        between = dict(old, **node_packages.remembered(state.packages, packages))
        actions += [one for one in [declaration.plan({SECTION: old}, SECTION, between)] if one is not None]
        old = between
        actions += installing
    declare = declaration.plan({SECTION: old} if old else {}, SECTION, new)
    if declare is not None:
        actions.append(declare)
    if not state.declared:
        actions += installing
    writing = managed_files.write(files, wanted)
    if state.kernel.profile_loaded and not profile:
        actions.append(LoadProfile(load=False))
    actions += writing
    if profile and state.kernel.parser is not None and _to_load(state, writing):
        actions.append(LoadProfile())
    made = {one.path for one in writing if isinstance(one, MakeFolder)}
    actions += [MakeFolder(one) for one in files.missing_folders if one not in made]
    actions += links
    actions += [SetKernelValue(key, value) for key, value in kernel.to_set(state.kernel, setting)]
    actions += [SetKernelValue(key, value) for key, value in _to_return(state, setting)]
    waiting = _read_by_containers(state, actions) if state.users else []
    if waiting:
        # All of it, so that the prolog, enroot.conf and pyxis keep naming the same directories.
        return Plan(notes=(containers.note(containers.held("enroot", waiting, state.users)),))
    return Plan(tuple(actions), notes=tuple(_notes(state, desired, setting, profile, bool(actions))))


def _read_by_containers(state: State, actions: List[Action]) -> List[str]:
    """The steps that change what a container, or the next step of a job, reads; in words."""
    kinds = (MakeLink, RemoveLink, node_packages.InstallPackages, node_packages.RemovePackages)
    return [one.describe() for one in actions if isinstance(one, kinds) or _changes_values(state, one)]


def _changes_values(state: State, action: Action) -> bool:
    if not isinstance(action, (WriteFile, RemoveFile)):
        return False
    before, now = state.files.seen(action.path).text, action.text if isinstance(action, WriteFile) else ""
    if action.path == SETTINGS_FILE:
        old, new = settings.values_of(before), settings.values_of(now)
        return any(not settings.same(old.get(key, ""), new.get(key, "")) for key in {*old, *new})
    return action.path in (ENVIRON_FILE, MOUNTS_FILE) and _without_comments(before) != _without_comments(now)


def _without_comments(text: str) -> List[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def wants_profile(state: State, desired: Desired) -> bool:
    return desired.user_namespaces and state.kernel.restricted and not state.kernel.packaged_profile


def _to_load(state: State, writing: List[Action]) -> bool:
    written = any(getattr(one, "path", None) == PROFILE_FILE for one in writing)
    return written or state.kernel.profile_loaded is False


def _only_needed(files: Files, wanted: Tuple[Wanted, ...], links: List[Action]) -> Files:
    """Without the missing folders of files that are not wanted here, which must not count as made by us."""
    paths = [one.path for one in wanted] + [one.path for one in links if isinstance(one, MakeLink)]
    folders = [path.rsplit("/", 1)[0] + "/" for path in paths]
    missing = tuple(one for one in files.missing_folders if any(path.startswith(one + "/") for path in folders))
    # Marked files of ours are known by their names too, should the declaration be lost.
    former = tuple(dict.fromkeys(files.former + PATHS))
    return replaced(files, missing_folders=missing, former=former)


def _section(state: State, desired: Desired, files: Files, setting: Dict[str, str]) -> Dict[str, Any]:
    """What the hooks of Slurm read, and what ``state: absent`` has to take back."""
    made = set(_made_links(state)) | {one.path for one in _links(state, desired) if isinstance(one, MakeLink)}
    kept = [link.path for link in state.links if link.path in made and _enabled(link, desired)]
    content = as_section(texts.folders(state, desired))
    content.update(managed_files.remembered(files, PATHS))
    content.update(node_packages.remembered(state.packages, desired.packages_for(state.machine)))
    content.update(links=sorted(kept), kernel_before=kernel.before(state.kernel, state.declared, setting))
    return content


def _made_links(state: State) -> Tuple[str, ...]:
    made = state.declared.get("links")
    return tuple(str(one) for one in made) if isinstance(made, list) else ()


def _enabled(link: Link, desired: Desired) -> bool:
    return any(EXTRA_HOOKS.get(one) == link.name for one in desired.hooks)


def _links(state: State, desired: Desired) -> List[Action]:
    """A hook that the package does not have yet may come with the package."""
    coming = bool(node_packages.install(state.packages, desired.packages_for(state.machine)))
    actions: List[Action] = []
    for link in state.links:
        if _enabled(link, desired):
            if link.kind == "missing" and (link.source_exists or coming):
                actions.append(MakeLink(link.path, link.target))
        elif link.kind == "ours" and link.path in _made_links(state):
            actions.append(RemoveLink(link.path, link.target))
    return actions


def _to_return(state: State, setting: Dict[str, str]) -> List[Tuple[str, str]]:
    """Values that we set and that are wanted no more, unless somebody set another one since."""
    ours = {key: value for key, dummy, value in kernel.NEEDS}
    return [
        (key, value)
        for key, value in kernel.former(state.declared).items()
        if key not in setting and state.kernel.values.get(key) == ours[key] != value
    ]


def _notes(state: State, desired: Desired, setting: Dict[str, str], profile: bool, acting: bool) -> List[str]:
    notes: List[str] = []
    made = texts.folders(state, desired)
    if made:
        if any(one.purpose != "runtime" for one in made) and not (desired.scratch or state.scratch):
            text = "no scratch is declared for this node, so the containers of users lie in {0}"
            notes.append(text.format(desired.fallback))
        if not state.hooks_declared:
            notes.append("no prolog makes the folders of users here yet: the role slurm_hooks brings it")
    elif desired.user_folders != "never" and not state.slurmd:
        notes.append("there is no slurmd here, so nobody makes folders of users, and enroot uses their home folders")
    if state.other_rdma:
        notes.append(_rdma_note(state, desired))
    if state.gpus and state.nvidia_container_cli is None and "nvidia" in desired.hooks:
        text = (
            "this node has {0} GPU(s) and no nvidia-container-cli, without which the hook 98-nvidia.sh ends each "
            "container that asks for a GPU: install libnvidia-container-tools"
        )
        notes.append(text.format(state.gpus))
    for link in state.links:
        if link.kind == "foreign":
            notes.append("{0} is not ours and is left as it is".format(link.path))
        elif _enabled(link, desired) and link.kind == "missing" and not link.source_exists and not acting:
            notes.append("this enroot has no hook {0}, so it is not switched on".format(link.name))
        elif not _enabled(link, desired) and link.kind == "ours" and link.path not in _made_links(state):
            notes.append("{0} is on by a link of somebody else, and stays".format(link.path))
    notes += texts.adopted(state, desired)
    if desired.user_namespaces:
        notes += kernel.notes(state.kernel, setting)
    if profile and state.kernel.parser is None:
        notes.append("apparmor_parser is missing, so the profile of enroot is loaded at the next boot at the earliest")
    return notes


def _rdma_note(state: State, desired: Desired) -> str:
    """Containers get these devices only with the whole /dev. An empty value leaves the key to enroot, which does not
    restrict."""
    given = desired.settings.get("ENROOT_RESTRICT_DEV", "no") or "no"
    devices, value = ", ".join(state.other_rdma), state.theirs.get("ENROOT_RESTRICT_DEV", ("", given))[1]
    if settings.same(value, "no"):
        return "no enroot hook adds {0}, so containers get all of /dev (ENROOT_RESTRICT_DEV no)".format(devices)
    text = "ENROOT_RESTRICT_DEV is {0}, so containers do not get {1} and NCCL uses TCP: set it to no, or mount {2}"
    return text.format(value, devices, "/dev/infiniband in the job")


def _absent(state: State) -> Plan:
    removing = managed_files.remove(state.files, PATHS if state.declared else ())
    actions: List[Action] = []
    if state.kernel.profile_loaded:
        actions.append(LoadProfile(load=False))
    actions += [one for one in removing if not isinstance(one, RemoveFolder)]
    actions += [
        RemoveLink(link.path, link.target)
        for link in state.links
        if link.kind == "ours" and link.path in _made_links(state)
    ]
    actions += [SetKernelValue(key, value) for key, value in _to_return(state, {})]
    actions += node_packages.remove(state.packages)
    actions += [one for one in removing if isinstance(one, RemoveFolder)]
    # What the prolog made above the folders of users; those of running jobs keep them.
    known = templates(state.declared)
    actions += [RemoveFolder(one) for one in dict.fromkeys([one.parent for one in known] + [one.top for one in known])]
    if state.declared:
        actions.append(declaration.Declare(SECTION, None))
    waiting = _read_by_containers(state, actions) if state.users else []
    if waiting:
        return Plan(refusals=(containers.held("enroot", waiting, state.users),))
    notes = managed_files.foreign_notes(state.files, PATHS if state.declared else ())
    return Plan(tuple(actions), notes=notes + node_packages.kept_notes(state.packages))


def after(state: State, actions: Tuple[Action, ...]) -> State:
    """What will be found when these steps were taken; for diff mode and for tests of the planner."""
    links = {one.name: one for one in state.links}
    values = dict(state.kernel.values)
    loaded, declared, installed = state.kernel.profile_loaded, dict(state.declared), state.installed
    for action in actions:
        if isinstance(action, MakeLink):
            link = Link(action.path.rsplit("/", 1)[1])
            if links.get(link.name, link).source_exists:
                links[link.name] = replaced(link, kind="ours")
        elif isinstance(action, RemoveLink):
            link = Link(action.path.rsplit("/", 1)[1])
            links[link.name] = replaced(links.get(link.name, link), kind="missing")
        elif isinstance(action, SetKernelValue):
            values[action.key] = action.value
        elif isinstance(action, LoadProfile):
            loaded = action.load
        elif isinstance(action, declaration.Declare):
            declared = dict(action.content or {})
        elif isinstance(action, node_packages.InstallPackages):
            installed = True
    return replaced(
        state,
        installed=installed,
        links=tuple(links.values()),
        files=managed_files.after(state.files, actions),
        packages=node_packages.after(state.packages, actions),
        declared=declared,
        kernel=replaced(state.kernel, values=values, profile_loaded=loaded),
    )
