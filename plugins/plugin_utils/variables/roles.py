# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles of this collection as data: what each may be given, what that is by default, and which modules get it."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import re
from pathlib import Path
from typing import Any, Callable, Mapping

import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of as options_of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import module as front
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import site_profiles

COLLECTION = "trainyard.gpu_node"
FOLDER = Path(__file__).resolve().parents[3] / "roles"
_MODULES = "ansible_collections.{0}.plugins.modules.".format(COLLECTION)


@dataclasses.dataclass(frozen=True)
class Task:
    """A task of a role that brings about what is wanted; ``arguments`` are templates."""

    module: str
    arguments: Mapping[str, Any]

    def variable(self, option: str) -> str | None:
        """The variable that the role hands over as this option, by the name that all of its variables begin with."""
        match = re.search(r"\b[a-z]\w*_" + option + r"\w*", str(self.arguments.get(option)))
        return None if match is None else match.group(0)


@dataclasses.dataclass(frozen=True)
class Role:
    """``defaults`` has those of the user's variables and what the role works out of them."""

    name: str
    folder: Path
    options: Mapping[str, Mapping[str, Any]]
    defaults: Mapping[str, Any]
    tasks: tuple[Task, ...]


def names() -> list[str]:
    return sorted(path.parent.parent.name for path in FOLDER.glob("*/meta/argument_specs.yml"))


@functools.lru_cache(maxsize=None)
def options(name: str) -> Mapping[str, Mapping[str, Any]]:
    return _read(FOLDER / name / "meta" / "argument_specs.yml")["argument_specs"]["main"].get("options") or {}


def load(name: str, read: Callable[[Path], Any] | None = None) -> Role:
    """``read`` is Ansible's reader, which marks templates as such."""
    read = read or _read
    folder = FOLDER / name
    defaults: dict[str, Any] = {}
    for part in ("defaults", "vars"):
        path = folder / part / "main.yml"
        defaults.update((read(path) or {}) if path.is_file() else {})
    tasks = []
    for path in sorted((folder / "tasks").glob("*.yml")):
        # What takes things away takes fewer options, and takes them as they are.
        for task in read(path) if path.stem != "absent" else ():
            tasks += [
                Task(action.rpartition(".")[2], arguments)
                for action, arguments in task.items()
                if action.startswith(COLLECTION + ".")
            ]
    return Role(name, folder, options(name), defaults, tuple(tasks))


@functools.lru_cache(maxsize=None)
def tasks(module_name: str) -> tuple[Task, ...]:
    """Those that call a module, of all roles."""
    return tuple(task for name in names() for task in load(name).tasks if task.module == module_name)


@dataclasses.dataclass(frozen=True)
class Module:
    """``arguments``: what Ansible's own check of them takes; ``desired``: raises a NodeError for a wrong value."""

    arguments: Mapping[str, Any]
    desired: Callable[[Mapping[str, Any]], Any]


def module(name: str) -> Module | None:
    """None: it has no wish to check."""
    found = importlib.import_module(_MODULES + name)
    if not hasattr(found, "RESOURCE"):
        return None
    wish = functools.partial(_desired, found.RESOURCE.options)
    return Module({"argument_spec": front.arguments(found.RESOURCE)}, wish)


def _desired(known: type, given: Mapping[str, Any]) -> Any:
    if "profiles" in given:
        given = dict(given, profiles=site_profiles.read(given["profiles"]))
    return options_of(known, given)


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))
