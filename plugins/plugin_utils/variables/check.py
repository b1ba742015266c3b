# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the values that a host was given, by the options of the resources."""

from __future__ import annotations

import re
from typing import Any, Callable, Collection, Hashable, Mapping, MutableMapping

from ansible.errors import AnsibleError, AnsibleUndefinedVariable
from ansible.parsing.vault import EncryptedString

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import artefact, registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import REQUIRED, Option, of, refused
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.per_host import flat, gathered, thing_of_host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, Refusal, apart
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.secrets import hide
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import declarations, site_profiles
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.converted import converted, from_yaml

from . import playbooks, reads

_KINDS = {"int": "whole number", "float": "number", "bool": "switch (true or false)", "str": "text", "dict": "mapping"}
Template = Callable[[Any, Mapping[str, Any]], Any]


def specification(name: str | None) -> Mapping[str, Option]:
    """The variables of a resource, or (None) of the playbooks, with what the options say of them."""
    if name is None:
        return playbooks.OPTIONS
    found = {"{0}_{1}".format(name, option): one for option, one in flat(declarations.DESCRIBED[name]).items()}
    more = ["_node"] * registry.resource(name).of_cluster + ["_from"] * (name in registry.OF_CLUSTER)
    return {**found, **{name + end: Option(None, "", kind="str", name=name + end) for end in more}}


def wrong_values(
    chosen: Collection[str],
    variables: Mapping[str, Any],
    template: Template,
    state: str = "present",
    judged: MutableMapping[Hashable, list[str]] | None = None,
) -> list[str]:
    """A sentence for each. With ``state`` absent only what matters to what goes away is looked at.

    A value that takes a fact of the node cannot be known yet, and is not judged. ``judged`` remembers what was found,
    for other hosts with the same values and the same resources.
    """
    judged = {} if judged is None else judged
    found: list[str] = []
    for name in (None, *chosen):
        spec = specification(name)
        if name in registry.OF_CLUSTER and not set(spec) & set(variables):
            continue  # it is no node of a cluster, so its name need not be one there
        key = reads.read({*spec, *_of_others(name)}, variables)
        # The name of a host in a cluster is another one for each.
        key = None if key is None or name in registry.OF_CLUSTER else (name, state, key)
        if key is None or key not in judged:
            judged[key] = _problems(name, spec, variables, template, state)
        found += judged[key]
    return list(dict.fromkeys(_without_secrets(found, variables)))


def _of_others(name: str | None) -> list[str]:
    """Variables of other resources that this one takes by default."""
    known = {} if name is None else flat(declarations.DESCRIBED[name])
    return [one.of_role for one in known.values() if one.of_role]


def _problems(
    name: str | None, spec: Mapping[str, Any], variables: Mapping[str, Any], template: Template, state: str
) -> list[str]:
    found: list[str] = []
    given: dict[str, Any] = {}
    known = {} if name is None else flat(declarations.DESCRIBED[name])
    prefix = 0 if name is None else len(name) + 1
    for variable in sorted(set(spec) & set(variables)):
        try:
            # Of a mapping, what is left out goes.
            value = template({variable: variables[variable]}, variables)
        except AnsibleUndefinedVariable:
            continue
        except AnsibleError as error:
            found.append("{0}: its template does not work ({1}); correct it.".format(variable, _words(error)))
            continue
        value = converted(spec, value)
        if value.get(variable, "") is None and _needs_a_value(spec[variable]):
            found.append("{0}: {1}".format(variable, _empty(spec[variable])))
        else:
            given.update(value)
    others = {one: value for one, value in given.items() if one[prefix:] not in known}
    wrong = refused({one: spec[one] for one in others}, others)
    found += [_told(one, {variable: variable for variable in spec}, ()) for one in wrong]
    if name is None:
        things = {one.thing for one in wrong}
        return found + playbooks.wrong({one: value for one, value in given.items() if "option " + one not in things})
    options = {one[prefix:]: value for one, value in given.items() if one not in others}
    # What is to go away does not fail for an option that is only of use to what stays.
    if state != "present" and options.get("state", "present") == "present":
        options["state"] = known["state"].choices[1]
    named = {option: "{0}_{1}".format(name, option) for option in known}
    for option, one in known.items():
        if one.of_role in variables and option not in options:
            try:
                options.update(converted(known, template({option: variables[one.of_role]}, variables)))
                named[option] = one.of_role
            except AnsibleError:
                continue
    if name in registry.OF_CLUSTER:
        options.setdefault("name", variables.get("inventory_hostname"))
    return found + _of_options(name, named, options)


def _needs_a_value(one: Option) -> bool:
    return bool(one.choices) or not (one.default in (None, REQUIRED) or one.profile or one.of_role)


def _empty(one: Option) -> str:
    if one.choices:
        return "it is empty; give {0}.".format(", ".join(one.choices))
    return "it is empty; give a {0}, or leave it out.".format(_KINDS.get(one.kind, one.kind))


def _of_options(name: str, named: Mapping[str, str], given: Mapping[str, Any]) -> list[str]:
    """What the resource would refuse, with the options by their variables (``named``). What else there is comes without
    the options that are wrong."""
    found: list[str] = []
    told: set[str] = set()
    while True:
        # Not that what is wrong is missing now.
        new = [one for one in _refusals(name, given) if not told & set(re.findall(r"\boption (\w+)", str(one)))]
        blamed = [(one, _culprits(name, one, given)) for one in new]
        found += [_told(one, named, [named[option] for option in culprits] or [name]) for one, culprits in blamed]
        culprits = {option for dummy, options in blamed for option in options}
        told |= culprits
        if not culprits & set(given):
            return found
        given = {option: value for option, value in given.items() if option not in culprits}


def _culprits(name: str, refusal: Refusal, given: Mapping[str, Any]) -> list[str]:
    """The options that it is about: the one that it names, or those without which nobody would say it."""
    named = re.match(r"option (\w+)", refusal.thing)
    if named is not None:
        return [named.group(1)]
    rest = {option: {key: value for key, value in given.items() if key != option} for option in given}
    same = (refusal.thing, refusal.reason)
    return [
        option for option in given if same not in [(one.thing, one.reason) for one in _refusals(name, rest[option])]
    ]


def _refusals(name: str, given: Mapping[str, Any]) -> list[Refusal]:
    described = declarations.DESCRIBED[name]
    try:
        read = dict(given, profiles=site_profiles.read(given["profiles"])) if "profiles" in given else given
        of(declarations.OPTIONS[name], gathered(described, read, "host"))
    except NodeError as error:
        parts = [(thing_of_host(described, one.thing), one.reason, one.remedy) for one in apart(error)]
        return [Refusal(*part) for part in parts]
    return []


def _told(refusal: Refusal | NodeError, named: Mapping[str, str], culprits: Collection[str]) -> str:
    """The sentence with the names that the user knows in place of the options'."""
    text = re.sub(r"\boption (\w+)", lambda one: named.get(one.group(1), one.group(0)), str(refusal))
    if not refusal.thing.startswith("option "):
        text = "{0}: {1}".format(", ".join(culprits), text)
    return from_yaml(text)


def _words(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


def _without_secrets(found: list[str], variables: Mapping[str, Any]) -> list[str]:
    """Also where a variable takes its value from another one, which lies in a vault."""
    if not found:
        return []
    secrets = [*artefact.secrets(_texts(list(variables.values()))), *_vaulted(variables)]
    return [hide(text, secrets) for text in found]


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for one in _inner(value) for text in _texts(one)]


def _vaulted(value: Any) -> list[str]:
    if isinstance(value, EncryptedString):
        try:
            return [str(value)]
        except AnsibleError:  # without its password it is in no sentence either
            return []
    return [text for one in _inner(value) for text in _vaulted(one)]


def _inner(value: Any) -> Collection[Any]:
    return value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
