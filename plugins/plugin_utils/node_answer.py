# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a module's answer that a controller accepts. A compromised node can return anything, and Ansible turns
``ansible_facts`` into variables, so an answer is plain data and has at most one fact. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

PROFILE = "gpu_node_profile"
#: The answer of a node that has another node command than the controller.
TRANSFER_NEEDED = "transfer_needed"
#: An answer of a machine with 16 GPUs and a failure in each check has some 300 KB of text.
CHARACTERS_MAX = 16 * 1024 * 1024
_FAILED_CHARACTERS_MAX = 1024 * 1024
# Of the begin and of the end of a text; a traceback of Python is shorter.
_SHOWN_CHARACTERS = 4000
_TEXTS_OF_FAILURE = ("msg", "module_stdout", "module_stderr", "stdout", "stderr")
VALUES_MAX = 400_000
DEPTH_MAX = 32
_PROFILE_CHARACTERS = 256 * 1024
_INTEGER_MAX = 2**64
_LARGE = "it is larger than any answer of this module"
_NOTES_MAX = 50
_NOTE_CHARACTERS = 2000
# Ansible acts on these keys, or makes them itself. It reads `exception` with types of its own.
_OF_ANSIBLE = ("add_host", "add_group", "ansible_facts", "ansible_stats", "deprecations", "exception", "results")
_WARNINGS = "warnings"
# With one of these a task has another outcome.
_SWITCHES = ("changed", "failed", "skipped", "unreachable")
#: Variables that name a file or a program on the controller, or what a play does there. Ansible would take each of them
#: from a fact of that name.
_ON_CONTROLLER = (
    "__gpu_node_",
    "gpu_node_azure_",
    "gpu_node_declaration_folder",
    "gpu_node_kubernetes_",
    "gpu_node_rolling_",
    "gpu_sharing_",
    "kubernetes_gpu_",
    "monitoring_",
    "node_profile_profiles",
    "slurm_node_",
)
# A site may make a path of the name; see "many types of machines" in docs/job_templates.md.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}\Z")
# Of docs/modules/node_profile.md; each may be None, for example "left" of a known machine.
_PROFILE_TYPES: Mapping[str, type] = {
    "name": str,
    "source": str,
    "reason": str,
    "data": dict,
    "compared": bool,
    "matches": bool,
    "differences": list,
    "roles": list,
    "left": str,
    "lost": str,
}
# Terminals obey control characters; a change of the direction of text hides what it says.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Untrusted(ValueError):
    """The answer is not what the module returns. The text is the reason."""


def cleaned(answer: Mapping[str, Any], with_profile: bool = False) -> dict[str, Any]:
    """The answer of a module as plain data. ``with_profile``: it may set the fact ``gpu_node_profile``.

    :raises Untrusted: it is too large or too deep, or the fact has another form.
    """
    if not isinstance(answer, Mapping):
        raise Untrusted("it is not a mapping")
    kept = {
        key: value
        for key, value in answer.items()
        if isinstance(key, str)
        and key not in (*_OF_ANSIBLE, _WARNINGS)
        and (key == "_ansible_parsed" or not key.startswith(("_ansible_", "ansible_")))
    }
    told: dict[str, Any] = plain(kept)
    for key in _SWITCHES:
        if key in told and not isinstance(told[key], bool):
            raise Untrusted("{0} is neither true nor false".format(key))
    if "exception" in answer and not isinstance(answer["exception"], (str, Mapping)):
        told["exception"] = answer["exception"]  # ansible-core has made an object of `msg`, see :func:`output`
    warnings = _notes(answer.get(_WARNINGS))
    if warnings:
        told[_WARNINGS] = warnings
    if with_profile:
        found = answer.get("ansible_facts")
        if isinstance(found, Mapping) and PROFILE in found:
            told["ansible_facts"] = {PROFILE: profile(found[PROFILE])}
        if told.get("profile") and isinstance(told["profile"], dict):
            told["profile"] = profile(told["profile"])
    return told


def output(text: str) -> str:
    """The output of a module, before Ansible reads it: an answer loses its control characters and its ``exception``,
    whose error line Ansible would print; any other output is shortened, since Ansible prints it.

    :raises Untrusted: the answer is too large or too deep.
    """
    lines = text.splitlines()
    first = next((at for at, line in enumerate(lines) if line.lstrip().startswith("{")), len(lines))
    last = next((at for at in range(len(lines), first, -1) if lines[at - 1].rstrip().endswith("}")), first)
    try:
        found = json.loads("\n".join(lines[first:last]))
    except (ValueError, RecursionError):
        return shortened(text)
    if not isinstance(found, dict):
        return shortened(text)
    answer = plain({key: value for key, value in found.items() if key != "exception"})
    if answer.get("failed"):  # Ansible prints all of it
        answer = plain(answer, _FAILED_CHARACTERS_MAX)
        for key in _TEXTS_OF_FAILURE:
            if isinstance(answer.get(key), str):
                answer[key] = shortened(answer[key])
    return "\n".join([json.dumps(answer), shortened("\n".join(lines[last:]))])


def shortened(text: str) -> str:
    """Text for a terminal: its begin and its end, without control characters."""
    if len(text) > 2 * _SHOWN_CHARACTERS:
        left_out = len(text) - 2 * _SHOWN_CHARACTERS
        text = "{0}\n[{1} characters are left out]\n{2}".format(
            text[:_SHOWN_CHARACTERS], left_out, text[-_SHOWN_CHARACTERS:]
        )
    return _CONTROL.sub("\ufffd", text.replace("\r\n", "\n"))


def profile(value: Any) -> dict[str, Any]:
    """The fact ``gpu_node_profile``: known keys with known types. All of them may be absent.

    :raises Untrusted: it has another form.
    """
    if not isinstance(value, Mapping):
        raise Untrusted("the fact {0} is not a mapping".format(PROFILE))
    kept = plain({key: value[key] for key in _PROFILE_TYPES if key in value}, _PROFILE_CHARACTERS)
    for key, one in kept.items():
        if one is not None and not isinstance(one, _PROFILE_TYPES[key]):
            raise Untrusted("{0} of the fact {1} is not of type {2}".format(key, PROFILE, _PROFILE_TYPES[key].__name__))
    if kept.get("name") and not _NAME.match(kept["name"]):
        raise Untrusted("the name of the profile has characters other than letters, digits and ._+-")
    if not all(isinstance(one, str) and _NAME.match(one) for one in kept.get("roles") or ()):
        raise Untrusted("roles of the fact {0} has something other than names of roles".format(PROFILE))
    if not all(isinstance(one, dict) for one in kept.get("differences") or ()):
        raise Untrusted("differences of the fact {0} has something other than mappings".format(PROFILE))
    return dict(kept)


def plain(value: Any, characters_max: int = CHARACTERS_MAX, values_max: int = VALUES_MAX) -> Any:
    """The same value of Python's own types, without control characters. Text loses whatever tags it had, so Ansible
    never takes it as a template.

    :raises Untrusted: it is too large or too deep, or a number in it is not possible.
    """
    left = {"characters": characters_max, "values": values_max}

    def text(words: str) -> str:
        left["characters"] -= len(words)
        if left["characters"] < 0:
            raise Untrusted(_LARGE)
        # Most texts of a verdict, of which a large fleet sends some ten million. A tagged text has another type.
        if words.__class__ is str and words.isprintable():
            return words
        return _CONTROL.sub("\ufffd", str(words).replace("\r\n", "\n"))

    def made(one: Any, depth: int) -> Any:
        left["values"] -= 1
        if left["values"] < 0:
            raise Untrusted(_LARGE)
        if depth > DEPTH_MAX:
            raise Untrusted("it is nested more than {0} levels deep".format(DEPTH_MAX))
        if one is None or isinstance(one, bool):
            return one
        if isinstance(one, (int, float)):
            if not math.isfinite(one) if isinstance(one, float) else abs(one) > _INTEGER_MAX:
                raise Untrusted("it has a number that is not finite, or larger than 64 bits")
            return float(one) if isinstance(one, float) else int(one)
        if isinstance(one, str):
            return text(one)
        if isinstance(one, Mapping):
            return {text(str(key)): made(part, depth + 1) for key, part in one.items()}
        if isinstance(one, (list, tuple)):
            return [made(part, depth + 1) for part in one]
        return text(str(one))

    return made(value, 0)


def foreign(facts: Any) -> list[str]:
    """The facts with names of variables that say what happens on the controller."""
    names = facts if isinstance(facts, Mapping) else ()
    return sorted(name for name in map(str, names) if name.startswith(_ON_CONTROLLER))


def _notes(value: Any) -> list[str]:
    """Ansible shows these to users, and converts them to its own types, which are read as text."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        value = [value] if isinstance(value, str) else []
    words = (one if isinstance(one, str) else _words(one) for one in value[:_NOTES_MAX])
    return [" ".join(plain(one[:_NOTE_CHARACTERS]).split()) for one in words if one.strip()]


def _words(note: Any) -> str:
    event = getattr(note, "event", None)
    return str(getattr(event, "msg", None) or getattr(note, "msg", None) or "")
