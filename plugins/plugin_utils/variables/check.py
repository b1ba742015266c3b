# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the values that a host was given, by the options of the resources."""

from __future__ import annotations

import re
from typing import Any, Callable, Collection, Hashable, Mapping, MutableMapping

from ansible.errors import AnsibleError, AnsibleUndefinedVariable
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.parsing.vault import EncryptedString

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import artefact
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import argument_spec_of, of, unquoted
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.per_host import flat, gathered
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import registry
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import declarations, site_profiles

from . import playbooks, reads

_KINDS = {"int": "whole number", "float": "number", "bool": "true or false", "str": "text", "dict": "mapping"}
Template = Callable[[Any, Mapping[str, Any]], Any]


def specification(name: str | None) -> Mapping[str, Mapping[str, Any]]:
    """The variables of a resource, or (None) of the playbooks, as an argument specification."""
    if name is None:
        return playbooks.OPTIONS
    known = flat(declarations.DESCRIBED[name])
    spec = {"{0}_{1}".format(name, option): one for option, one in argument_spec_of(known).items()}
    if registry.resource(name).of_cluster:
        spec[name + "_node"] = {"type": "str"}
    if name in registry.CLUSTER:
        spec[name + "_from"] = {"type": "str"}
    return spec


def wrong_values(
    chosen: Collection[str],
    variables: Mapping[str, Any],
    template: Template,
    state: str = "present",
    judged: MutableMapping[Hashable, list[str]] | None = None,
) -> list[str]:
    """A sentence for each. With ``state`` absent only their kinds are looked at.

    A value that takes a fact of the node cannot be known yet, and is not judged. ``judged`` remembers what was found,
    for other hosts with the same values and the same resources.
    """
    judged = {} if judged is None else judged
    found: list[str] = []
    for name in (None, *chosen):
        spec = specification(name)
        key = reads.read({*spec, *_of_others(name)}, variables)
        # The name of a host in a cluster is another one for each.
        key = None if key is None or name in registry.CLUSTER else (name, state, key)
        if key is None or key not in judged:
            judged[key] = _problems(name, spec, variables, template, state)
        found += judged[key]
    return list(dict.fromkeys(_without_secrets(found, variables)))


def _of_others(name: str | None) -> list[str]:
    """Variables of other resources that this one takes by default."""
    known = {} if name is None else declarations.DESCRIBED[name]
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
        result = ArgumentSpecValidator({variable: spec[variable]}).validate(value)
        told = [_sentence(text, value.get(variable)) for text in result.error_messages]
        # Ansible makes texts of them.
        option = variable[prefix:]
        numbers = unquoted({option: known[option]} if option in known else {}, {option: value.get(variable)})
        told += [str(error).partition(": ")[2] for error in numbers]
        found += ["{0}: {1}".format(variable, text) for text in told]
        if not told and variable in value:
            given[variable] = result.validated_parameters[variable]
    # What is to go away does not fail for an option that is only of use to what stays.
    gone = name is not None and given.get(name + "_state", "present") != "present"
    if name is None:
        return found + playbooks.wrong(given)
    if gone or state != "present":
        return found
    if name in registry.CLUSTER:
        given.setdefault(name + "_name", variables.get("inventory_hostname"))
    options = {one[prefix:]: value for one, value in given.items() if one[prefix:] in known}
    for option, one in known.items():
        if one.of_role in variables and option not in options:
            try:
                options.update(template({option: variables[one.of_role]}, variables))
            except AnsibleError:
                continue
    return found + _of_options(name, options)


def _of_options(name: str, given: Mapping[str, Any]) -> list[str]:
    """What the resource would refuse. It tells one thing; what else there is comes without the option that is wrong."""
    found: list[str] = []
    text = _refusal(name, given)
    while text is not None:
        culprits = [option for option in given if _refusal(name, _without(option, given)) != text]
        found.append(_named(name, text, culprits or list(given)))
        if len(culprits) != 1:
            break
        given = _without(culprits[0], given)
        text, before = _refusal(name, given), text
        # Not that the one which is wrong is missing now.
        if text is not None and re.search(r"\boption {0}\b".format(culprits[0]), text) and text != before:
            break
    return found


def _without(option: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key != option}


def _refusal(name: str, given: Mapping[str, Any]) -> str | None:
    try:
        read = dict(given, profiles=site_profiles.read(given["profiles"])) if "profiles" in given else given
        of(declarations.OPTIONS[name], gathered(declarations.DESCRIBED[name], read, "host"))
    except NodeError as error:
        return str(error)
    return None


def _named(name: str, text: str, culprits: list[str]) -> str:
    """The sentence with the names that the user knows in place of the options'."""
    told = re.sub(r"\boption (\w+)", lambda one: "{0}_{1}".format(name, one.group(1)), text)
    names = ", ".join("{0}_{1}".format(name, option) for option in culprits)
    if re.match(r"option \w+", text):
        return names + told[len(re.match(r"\w+", told).group(0)) :]  # type: ignore[union-attr]
    return "{0}: {1}".format(names, told)


def _sentence(text: str, value: Any) -> str:
    """Ansible's words on a value of a variable, with the remedy; other words as they are."""
    match = re.match(r"value of \S+ must be one(?: or more)? of: (.*?)[,.] [Gg]ot", text)
    if match is not None:
        told = "it is empty" if value is None else "{0!r} is none of its values".format(value)
        return "{0}; give {1}.".format(told, match.group(1))
    match = re.match(r"argument '\w+' is of type \w+ and we were unable to convert to (\w+)", text)
    if match is not None:
        kind = _KINDS.get(match.group(1), match.group(1))
        if value is None:
            return "it is empty; give a {0}, or leave it out.".format(kind)
        return "{0!r} is no {1}; give one.".format(value, kind)
    return text.rstrip(".") + "."


def _words(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


def _without_secrets(found: list[str], variables: Mapping[str, Any]) -> list[str]:
    """Also where a variable takes its value from another one, which lies in a vault."""
    if not found:
        return []
    secrets = [*artefact.secrets(_texts(list(variables.values()))), *_vaulted(variables)]
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        found = [text.replace(secret, "********") for text in found]
    return found


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
