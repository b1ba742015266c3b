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
import sys
from pathlib import Path
from typing import Any, List, Optional, Tuple

# Options whose value is the name of a file.
_FILE = "FILE"


@dataclasses.dataclass(frozen=True)
class Argument:
    """``flags`` is empty for one that is told by its place; ``value`` stands for its value, None for a switch."""

    flags: Tuple[str, ...]
    value: Optional[str]
    optional_value: bool
    required: bool
    repeated: bool
    choices: Tuple[str, ...]
    help: str

    @property
    def takes_file(self) -> bool:
        return self.value == _FILE

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

    def every(self) -> List["Command"]:
        """This command and all below it."""
        return [self] + [one for command in self.commands for one in command.every()]


def load(root: Path) -> Command:
    """The command of the clone at ``root``."""
    sys.path.insert(0, str(root))
    try:
        main = importlib.import_module("plugins.module_utils.cli.main")
    finally:
        sys.path.remove(str(root))
    return describe(main.parser())


def describe(parser: argparse.ArgumentParser, words: Tuple[str, ...] = (), summary: str = "") -> Command:
    inner: List[Any] = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    commands: List[Command] = []
    for action in inner:
        summaries = {one.dest: one.help or "" for one in action._choices_actions}
        commands += [
            describe(below, words + (name,), summaries.get(name, "")) for name, below in action.choices.items()
        ]
    return Command(
        words=words,
        summary=summary,
        description=(parser.description or "").strip(),
        epilog=(parser.epilog or "").strip("\n"),
        arguments=tuple(_argument(action) for action in parser._actions if action not in inner),
        commands=tuple(commands),
        runs=not inner or parser.get_default("function") is not None,
    )


def _argument(action: argparse.Action) -> Argument:
    choices = tuple(str(choice) for choice in action.choices or ())
    value: Optional[str] = None
    if action.nargs != 0:
        metavar = action.metavar if isinstance(action.metavar, str) else None
        value = metavar or ("|".join(choices) if choices else action.dest.upper())
    return Argument(
        flags=tuple(action.option_strings),
        value=value,
        optional_value=action.nargs in ("?", "*"),
        required=action.required and action.nargs not in ("?", "*"),
        repeated=isinstance(action, argparse._AppendAction),
        choices=choices,
        help=" ".join((action.help or "").split()) % {"default": action.default, "prog": "gpunode"},
    )
