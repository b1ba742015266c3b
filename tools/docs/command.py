# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node command as its argument parser describes it: a tree of commands with their options.

Read from the actions of argparse and not from its help texts, whose layout differs between versions of Python.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import re
import sys
from pathlib import Path
from typing import Any, List, Mapping, Optional, Tuple

# What the name of a value in the help stands for, where a shell can offer more than words that the parser knows.
_FILE, _GPU = "FILE", "GPU"
Words = Mapping[str, Tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class Argument:
    """``flags`` is empty for one that is told by its place; ``value`` stands for its value, None for a switch."""

    flags: Tuple[str, ...]
    value: Optional[str]
    optional_value: bool
    required: bool
    repeated: bool
    choices: Tuple[str, ...]  # the words that may stand for the value, as far as they are known
    help: str

    @property
    def short_help(self) -> str:
        """Up to the first semicolon that is not in parentheses: a shell shows it in one line."""
        return re.split(r";(?![^(]*\))", self.help)[0]

    @property
    def takes_file(self) -> bool:
        return self.value == _FILE

    @property
    def takes_gpus(self) -> bool:
        """An index or UUID, or a list of them with commas: known on the node only."""
        return self.value == _GPU

    @property
    def form(self) -> str:
        """As it stands in a synopsis: ``[--gpu GPU]...``, ``WHAT``, ``[--svg [FILE]]``."""
        value = self.value or ""
        if self.optional_value and value and self.flags:
            value = "[{0}]".format(value)
        text = " ".join(word for word in (self.flags[-1] if self.flags else "", value) if word)
        return (text if self.required else "[{0}]".format(text)) + ("..." if self.repeated else "")


@dataclasses.dataclass(frozen=True)
class Command:
    """``words`` are those after ``gpunode``; ``runs``: it does something by itself, without a word after it."""

    words: Tuple[str, ...]
    summary: str
    description: str
    epilog: str
    arguments: Tuple[Argument, ...]
    commands: Tuple["Command", ...]
    runs: bool

    @property
    def positional(self) -> Tuple[Argument, ...]:
        return tuple(argument for argument in self.arguments if not argument.flags)

    @property
    def options(self) -> Tuple[Argument, ...]:
        return tuple(argument for argument in self.arguments if argument.flags)

    def every(self) -> List["Command"]:
        """This command and all below it."""
        return [self] + [one for command in self.commands for one in command.every()]


def library(root: Path, name: str) -> Any:
    """A module of the library of the clone at ``root``."""
    sys.path.insert(0, str(root))
    try:
        return importlib.import_module("plugins.module_utils." + name)
    finally:
        sys.path.remove(str(root))


def load(root: Path) -> Command:
    """The command of the clone at ``root``."""
    return describe(library(root, "command.main").parser(), words_of_library())


def words_of_library() -> Words:
    """What may stand for a value, by its name in the help: the parser does not load the parts that know it."""
    library = "plugins.module_utils."
    registry = importlib.import_module(library + "health.registry")
    cost = importlib.import_module(library + "health.types").Cost
    return {
        "CHECK": tuple(check.id for check in registry.checks(cost.ACTIVE)),
        "LAUNCHER": importlib.import_module(library + "placement.render").LAUNCHERS,
        "COMMAND": tuple(importlib.import_module(library + "command.main").COMMANDS),
        "WHICH": ("each", "none"),
    }


def describe(
    parser: argparse.ArgumentParser, known: Optional[Words] = None, words: Tuple[str, ...] = (), summary: str = ""
) -> Command:
    inner: List[Any] = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    commands: List[Command] = []
    for action in inner:
        summaries = {one.dest: one.help or "" for one in action._choices_actions}
        commands += [
            describe(below, known, words + (name,), summaries.get(name, "")) for name, below in action.choices.items()
        ]
    return Command(
        words=words,
        summary=summary,
        description=(parser.description or "").strip(),
        epilog=(parser.epilog or "").strip("\n"),
        arguments=tuple(_argument(action, known or {}) for action in parser._actions if action not in inner),
        commands=tuple(commands),
        runs=not any(action.required for action in inner),
    )


def _argument(action: argparse.Action, known: Words) -> Argument:
    choices = tuple(str(choice) for choice in action.choices or ())
    value: Optional[str] = None
    if action.nargs != 0:
        metavar = action.metavar if isinstance(action.metavar, str) else None
        value = metavar or ("|".join(choices) if choices else action.dest.upper())
    choices = choices or known.get(value or "", ())
    return Argument(
        flags=tuple(action.option_strings),
        value=value,
        optional_value=action.nargs in ("?", "*"),
        required=action.required and action.nargs not in ("?", "*"),
        repeated=isinstance(action, argparse._AppendAction) or action.nargs == "*",
        choices=choices,
        help=" ".join((action.help or "").split()) % {"default": action.default, "prog": "gpunode"},
    )
