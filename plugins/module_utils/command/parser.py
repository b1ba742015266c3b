# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The argument parser of all commands: an error is a sentence that names the nearest word, and no page of usage."""

from __future__ import annotations

import argparse
import re
from typing import Any, List, NoReturn, Optional, Sequence, Tuple

from ..core.resource import Misuse

# Messages of argparse, in Python 3.8 to 3.13.
_REQUIRED = "the following arguments are required: "
_LACKS_VALUE = re.compile(r"argument (\S+): expected (?:one argument|at least one argument)")


def _named(one: argparse.Action) -> str:
    """As argparse names it."""
    return "/".join(one.option_strings) or str(one.metavar or one.dest)


def _form(one: argparse.Action) -> str:
    """As a person types it."""
    value = " or ".join(map(str, one.choices or ())) or str(one.metavar or one.dest.upper())
    return " ".join([*one.option_strings[-1:], value])


class Parser(argparse.ArgumentParser):
    """Of one command; what it cannot read is a :class:`Misuse`."""

    _words: Tuple[str, ...] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._words = tuple(args or ())
        return super().parse_known_args(None if args is None else self._flags_first(args), namespace)

    def _flags_first(self, words: Sequence[str]) -> List[str]:
        """Flags before the rest: argparse takes an optional argument as missing if a flag follows the one before it
        ("declaration check --json FILE")."""
        if self.commands() is not None:
            return list(words)
        flags = [flag for action in self._actions if action.nargs == 0 for flag in action.option_strings]
        end = words.index("--") if "--" in words else len(words)
        return [word for word in words[:end] if word in flags] + [
            word for index, word in enumerate(words) if index >= end or word not in flags
        ]

    def error(self, message: str) -> NoReturn:
        self.refuse_unknown_option(self._words)  # it is why a required one is missing
        remedy = self._see()
        below = self.commands()
        if below is not None and message.endswith("required: {0}".format(below.metavar)):
            message = "it takes one of its commands, and none was given"
            remedy = "choose among {0}; {1}".format(", ".join(below.choices), remedy)
        elif message.startswith(_REQUIRED):
            missing = message[len(_REQUIRED) :].split(", ")
            words = [_form(one) for one in self._actions if _named(one) in missing]
            message, remedy = "an argument is missing", "give {0}; {1}".format(" ".join(words), remedy)
        else:
            lacks = _LACKS_VALUE.fullmatch(message)
            found = [one for one in self._actions if lacks and "/".join(one.option_strings) == lacks.group(1)]
            for one in found:
                message = "{0} has no value".format(one.option_strings[-1])
                remedy = "give {0}; {1}".format(_form(one), remedy)
        raise Misuse(self.prog, message, remedy)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        from ..core.nearest import nearest

        known = [str(choice) for choice in action.choices]
        if isinstance(action, argparse._SubParsersAction):
            what, words = "command", [self.prog, value]
            if value in self._words:  # "pin --rnks 8": it is the option that is misspelt
                self.refuse_unknown_option(self._words[: self._words.index(value)])
        else:
            what, words = "value", [self.prog, *action.option_strings[-1:], value]
        remedy = nearest(str(value), known) or "choose among {0}; ".format(", ".join(known))
        raise Misuse(" ".join(map(str, words)), "there is no such {0}".format(what), remedy + self._see())

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        what = {int: "whole number", float: "number"}.get(action.type)  # type: ignore[call-overload]
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            if what is None:
                raise  # a type of ours has its own words
            thing = " ".join([self.prog, *action.option_strings[-1:], arg_string])
            remedy = "give one for {0}; {1}".format(action.metavar or action.dest.upper(), self._see())
            raise Misuse(thing, "this is no " + what, remedy) from error

    def refuse_unknown_option(self, words: Sequence[str]) -> None:
        """:raises Misuse: for the first word that looks like an option and is none of this command."""
        flags = [flag for action in self._actions for flag in action.option_strings]
        for word in words:
            if word == "--":
                return
            name = word.partition("=")[0]
            if word.startswith("--") and not any(flag.startswith(name) for flag in flags):
                from ..core.nearest import nearest

                thing = "{0} {1}".format(self.prog, name)
                raise Misuse(thing, "there is no such option", nearest(name, flags) + self._see())

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """Tell of words that were left over."""
        self.refuse_unknown_option(words)
        raise Misuse(" ".join([self.prog, *words]), "it takes no such argument", self._see())

    def commands(self) -> Optional[Any]:
        """The action that has the parsers of the commands below this one; None without such."""
        found: List[Any] = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return found[0] if found else None

    def _see(self) -> str:
        return "see '{0} --help'".format(self.prog)
