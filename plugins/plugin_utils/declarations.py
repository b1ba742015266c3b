# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The declaration of a node, made of the variables that an inventory has for it: `nccl_settings` is the option
`settings` of the section `nccl`. And the tags of a run as a choice of resources. The playbooks' own variables are
`gpu_node_manage`, `gpu_node_health_*`, and those that the registrations of the resources name (core/registry.py)."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import tempfile
from typing import Any, Callable, Iterable, Mapping

from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import artefact, options, registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.nearest import nearest
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import Option, described
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.registry import Registration
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import wish
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import site_profiles
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.converted import converted, from_yaml

ALL = (*registry.NAMES, wish.HEALTH)
RUNTIME = "node_runtime"
# Loaded with this file, which Ansible does once: what is loaded later, each process of a task loads anew.
OPTIONS: Mapping[str, type] = {
    **{name: registry.resource(name).options for name in (*registry.NAMES, *registry.OF_CLUSTER)},
    wish.HEALTH: wish.Verdict,
}
DESCRIBED: Mapping[str, Mapping[str, Option]] = {name: described(cls) for name, cls in OPTIONS.items()}
# Tags that stand for several resources.
_SEVERAL = {name: registry.group(name) for name in registry.GROUPS}
_EVERY = {"all", "tagged"}
_GROUPS = {name: "gpu_node_" + name for name in registry.GROUPS}


@dataclasses.dataclass(frozen=True)
class Choice:
    """``only``: these resources, all where it is empty; ``without``: not these."""

    only: list[str]
    without: list[str]


def chosen(tags: Iterable[str], skipped: Iterable[str], given: Iterable[str] = ()) -> Choice | None:
    """What the tags of a run choose among ``given`` (everything, where it is empty); None: nothing of a node."""
    tags, given = set(tags), list(given)
    only = given if tags & _EVERY or not tags else [name for name in _named(tags) if not given or name in given]
    if tags and not tags & _EVERY and not only:
        return None
    return Choice(only, _named(skipped))


def unknown_tags(tags: Iterable[str]) -> tuple[list[str], list[str]]:
    """A sentence for each word that chooses nothing: those like the name of a resource, with which a run would do less,
    or more, than was meant; and the others, which may be of plays of the site's own."""
    known = [*_SEVERAL, RUNTIME, *ALL]
    of_ansible = {*_EVERY, "untagged", "always", "never"}
    told: tuple[list[str], list[str]] = ([], [])
    for tag in sorted(set(tags) - of_ansible - set(known)):
        near = nearest(tag, known)
        reason = "tag {0!r}: there is no resource of that name; {1}use some of {2}."
        told[0 if near else 1].append(reason.format(tag, near, ", ".join(known)))
    return told


def _named(tags: Iterable[str]) -> list[str]:
    names = {name for tag in tags for name in _SEVERAL.get(tag, (tag,))}
    return [name for name in (RUNTIME, *ALL) if name in names]


def of_playbooks(variables: Mapping[str, Any], value: Callable[[str], Any], everything: bool) -> dict[str, Any]:
    """The sections of a node that the playbooks converge; ``everything``: those of what it may have ever been given.

    :raises NodeError: as :func:`of_variables`.
    """
    chosen = {one: list(value(name) or ()) for one, name in _GROUPS.items() if name in variables}
    enabled = [one for one in registry.RESOURCES.values() if _enabled(one, chosen, variables, value)]
    named = [name for some in chosen.values() for name in some] + [one.name for one in enabled if not one.enabled]
    without: set[str] = set()
    if not everything:  # what nodes share is written by the one that was named for it
        without = set(registry.NAMES) - {one.name for one in enabled}
        without |= {name for name in registry.NAMES if _elsewhere(name, variables, value)}
    sections = of_variables([name for name in ALL if name not in without], variables, value)
    if not sections["image"]:  # nothing is required of it
        del sections["image"]
    anything = _on("gpu_node_manage", variables, value)
    sections["node_profile"].update(manage="any" if anything else "known", asked=named)
    return sections


def _enabled(
    one: Registration, chosen: Mapping[str, list[str]], variables: Mapping[str, Any], value: Callable[[str], Any]
) -> bool:
    if one.group in chosen:
        return one.name in chosen[one.group]
    if one.enabled_by:
        return any(name in variables for name in one.enabled_by)
    return one.enabled or _on(registry.switch(one), variables, value)


def _on(name: str, variables: Mapping[str, Any], value: Callable[[str], Any]) -> bool:
    return name in variables and bool(boolean(value(name)))


def _elsewhere(name: str, variables: Mapping[str, Any], value: Callable[[str], Any]) -> bool:
    variable = name + "_node"
    if variable not in variables or not registry.resource(name).of_cluster:
        return False
    return value(variable) not in ("", None, variables.get("inventory_hostname"))


def of_variables(
    names: Iterable[str], variables: Mapping[str, Any], value: Callable[[str], Any]
) -> dict[str, dict[str, Any]]:
    """A section for each name, with those of its options that there is a variable for. ``value`` gives a variable with
    its templates filled in. Whether a value can be, the check of the declaration says.

    :raises NodeError: there is no such resource, or no such folder of profiles.
    """
    sections: dict[str, dict[str, Any]] = {}
    for name in names:
        if name not in DESCRIBED:
            remedy = "{0}use some of {1}".format(nearest(str(name), ALL), ", ".join(ALL))
            raise NodeError("resource {0!r}".format(name), "there is no such resource", remedy)
        known = DESCRIBED[name]
        prefix = _prefix(name)
        names_of = {option: [prefix + "_" + option, one.of_role] for option, one in known.items()}
        of_user = {option: [name for name in both if name in variables] for option, both in names_of.items()}
        found = {option: value(both[0]) for option, both in of_user.items() if both}
        given = {option: content for option, content in found.items() if content is not None}
        if "profiles" in given:
            given["profiles"] = site_profiles.read(given["profiles"])
        sections[name] = converted(known, given)
    return sections


def _prefix(name: str) -> str:
    return "gpu_node_health" if name == wish.HEALTH else name


def with_variables(text: str) -> str:
    """An error of the node in the words of somebody who set variables: ``nccl_settings (option settings)``, and
    ``mig_layout_layouts[0].gpus (option layouts)`` of what lies in one."""
    told, name = "", ""
    at = 0
    for found in re.finditer(r"(?:\b({0})(?:: |, ))?\boption (\w+)((?:\[\d+\]|\.\w+)*)".format("|".join(ALL)), text):
        name = found.group(1) or name
        start = found.start() if found.group(1) is None else found.end(1) + 2
        told += text[at:start]
        known = name and found.group(2) in DESCRIBED[name]
        variable = "{0}_{1}{2} (option {1})".format(_prefix(name), found.group(2), found.group(3))
        told += variable if known else text[start : found.end()]
        at = found.end()
    return from_yaml(told + text[at:])


def check(name: str, arguments: Mapping[str, Any], figures: Mapping[str, Any] | None) -> None:
    """What the module of this name would refuse. ``figures`` are those of the machine's profile, where it is known.

    :raises NodeError: a sentence for each.
    """
    if name in OPTIONS:
        options.of(OPTIONS[name], converted(DESCRIBED[name], arguments), figures)


def secrets(sections: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The access keys in a declaration."""
    found: set[str] = set()
    for name, section in sections.items():
        if name in registry.NAMES and isinstance(section, Mapping):
            found |= set(artefact.secrets(options.secrets(OPTIONS[name], section)))
            found |= set(options.secrets(OPTIONS[name], section, keys=True))
    return sorted(found)


def write(path: str, text: str, check_mode: bool) -> bool:
    """Whether the file on the controller had another text; it gets this one unless in check mode. It is its owner's
    alone, and readers see the old text or the new.

    :raises OSError: it cannot be written.
    """
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as stream:
        if stream.read() == text and not os.stat(path).st_mode & 0o077:
            return False
    if not check_mode:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path))  # mode 0600
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(temporary, path)
    return True


def has_figures(name: str) -> bool:
    """Whether options of this module take figures of the machine's profile by default."""
    return any(one.profile for one in DESCRIBED.get(name, {}).values())
