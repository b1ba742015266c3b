# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the values that a host was given, by the rules of the roles and of the modules that they call."""

from __future__ import annotations

import re
from typing import Any, Callable, Collection, Hashable, Mapping, MutableMapping

from ansible.errors import AnsibleError, AnsibleUndefinedVariable
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.parsing.vault import EncryptedString

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import artefact
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError

from . import playbooks, reads
from .roles import Role, Task, module

_KINDS = {"int": "whole number", "float": "number", "bool": "true or false", "str": "text", "dict": "mapping"}
#: Gives a value with its templates filled in from these variables.
Template = Callable[[Any, Mapping[str, Any]], Any]


def wrong_values(
    chosen: Collection[Role],
    variables: Mapping[str, Any],
    template: Template,
    state: str = "present",
    judged: MutableMapping[Hashable, list[str]] | None = None,
) -> list[str]:
    """A sentence for each. With ``state`` absent only what the roles check themselves.

    A value that takes a fact of the node cannot be known yet, and is not judged. ``judged`` remembers what was found,
    for other hosts with the same values and the same roles.
    """
    judged = {} if judged is None else judged
    found: list[str] = []
    for role in (None, *chosen):
        arguments = [] if role is None else [task.arguments for task in role.tasks]
        options = playbooks.OPTIONS if role is None else role.options
        key: Hashable = reads.read(options, arguments, {} if role is None else role.defaults, variables)
        if key is not None:
            key = (role and role.name, state, key)
        if key is None or key not in judged:
            judged[key] = _problems(role, variables, template, state)
        found += judged[key]
    # A variable that two roles read is told once.
    return list(dict.fromkeys(_without_secrets(found, variables)))


def _problems(role: Role | None, variables: Mapping[str, Any], template: Template, state: str) -> list[str]:
    """``role`` None: of the playbooks themselves."""
    if role is None:
        return _against(playbooks.OPTIONS, variables, variables, template)
    context = dict(role.defaults, **variables, role_path=str(role.folder))
    problems = _against(role.options, variables, context, template)
    # The modules would say the same once more.
    if not problems and state == "present":
        problems = _of_modules(role, variables, context, template)
    return problems


def _against(
    options: Mapping[str, Any], variables: Mapping[str, Any], context: Mapping[str, Any], template: Template
) -> list[str]:
    found = []
    for name in sorted(set(options) & set(variables)):
        try:
            # Of a mapping, what is left out goes.
            value = template({name: variables[name]}, context)
        except AnsibleUndefinedVariable:
            continue
        except AnsibleError as error:
            found.append("{0}: its template does not work ({1}); correct it.".format(name, _words(error)))
            continue
        for text in ArgumentSpecValidator({name: options[name]}).validate(value).error_messages:
            found.append("{0}: {1}".format(name, _sentence(text, value.get(name))))
    return found


def _of_modules(role: Role, variables: Mapping[str, Any], context: Mapping[str, Any], template: Template) -> list[str]:
    given = [name for name in role.options if name in variables]
    found: list[str] = []
    for task in role.tasks if given and context.get(role.name + "_state") not in ("absent", "default") else ():
        less, gone = context, ""
        while True:
            try:
                text = _problem(task, less, template)
                # Those without which it is another thing, or nothing; a role may read variables of another one.
                culprits = [
                    name
                    for name in ([*given, *_others(task, role, variables)] if text is not None else ())
                    if _problem(task, _without(name, role, less), template) != text
                ]
            except AnsibleError:
                break
            # A module tells one thing; what else it would say comes without the variable that is wrong, unless it is
            # that this one is missing.
            if text is None or (gone and gone in _named(text, culprits or given, task, variables)):
                break
            found.append(_named(text, culprits or given, task, variables))
            if len(culprits) != 1:
                break
            (gone,) = culprits
            less = _without(gone, role, less)
    return found


def _others(task: Task, role: Role, variables: Mapping[str, Any]) -> list[str]:
    read = set(re.findall(r"\w+", repr(list(task.arguments.values()))))
    return sorted(name for name in read & set(variables) if name not in role.options)


def _without(name: str, role: Role, context: Mapping[str, Any]) -> dict[str, Any]:
    less = {key: value for key, value in context.items() if key != name}
    return dict(less, **{name: role.defaults[name]}) if name in role.defaults else less


def _problem(task: Task, context: Mapping[str, Any], template: Template) -> str | None:
    """Why the module would refuse what the role gives it.

    :raises AnsibleError: it cannot be known yet what that is.
    """
    code = module(task.module)
    if code is None:
        return None
    arguments: dict[str, Any] = {}
    for name, value in task.arguments.items():
        arguments.update(template({name: value}, context))
    result = ArgumentSpecValidator(**code.arguments).validate(arguments)
    if result.error_messages:
        return "; ".join(result.error_messages)
    try:
        code.desired({name: value for name, value in result.validated_parameters.items() if not name.startswith("_")})
    except NodeError as error:
        return str(error)
    return None


def _named(text: str, culprits: list[str], task: Task, variables: Mapping[str, Any]) -> str:
    """The sentence with the name that the user knows in place of the option's."""
    names = ", ".join(culprits)
    if len(culprits) == 1 and text.startswith("argument "):
        return "{0}: {1}".format(names, _sentence(text, variables[culprits[0]]))
    match = re.match(r"missing parameter\(s\) required by '\w+': (.*)", text)
    if match is not None:
        missing = [task.variable(option) or option for option in match.group(1).split(", ")]
        return "{0}: it is nothing without {1}; give both.".format(names, " and ".join(missing))
    match = re.match(r"option (\w+)", text)
    if match is not None:
        further = re.sub(
            r"\boption (\w+)", lambda one: task.variable(one.group(1)) or one.group(0), text[match.end() :]
        )
        return names + further
    return "{0}: {1}".format(names, text.rstrip(".") + ".")


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
