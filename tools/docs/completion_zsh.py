# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The completion of zsh: a function a command, each with the options and words of it for _arguments."""

from __future__ import annotations

import re

from .command import Argument, Command

HEAD = """#compdef gpunode
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Generated from the argument parser of gpunode by "make docs"; change it there.

# From what the driver shows in /proc: nothing is asked that a sick GPU could hold up.
_gpunode_gpus() {
    local -a gpus
    local folder index=0 line
    for folder in /proc/driver/nvidia/gpus/*(N/); do
        gpus+=($((index++)))
        while read -r line; do
            [[ $line =~ 'GPU-[0-9a-f-]{36}$' ]] && gpus+=($MATCH)
        done <$folder/information
    done 2>/dev/null
    _sequence compadd - $gpus
}
"""
TAIL = """
_gpunode "$@"
"""


def script(command: Command) -> str:
    return HEAD + "".join(_function(one) for one in command.every()) + TAIL


def _name(one: Command) -> str:
    return "_".join(("_gpunode",) + one.words)


def _function(one: Command) -> str:
    specs = [_option(argument) for argument in one.options]
    lines = [
        "",
        "{0}() {{".format(_name(one)),
        "    local curcontext=$curcontext state line ret=1",
        "    typeset -A opt_args",
    ]
    if one.commands:
        words = " ".join(
            "{0}\\:{1}".format(below.words[-1], re.sub(r"([^\w./-])", r"\\\1", below.summary)) for below in one.commands
        )
        specs += [_quoted("1:command:(({0}))".format(words)), "'*:: :->below'"]
    else:
        specs += [_positional(number, argument) for number, argument in enumerate(one.positional, 1)]
    lines += ["    _arguments -C \\"] + ["        {0} \\".format(spec) for spec in specs]
    lines += ["        && ret=0"]
    if one.commands:
        lines += ["    if [[ $state == below ]]; then", "        case $line[1] in"]
        lines += ["            {0}) {1} && ret=0 ;;".format(below.words[-1], _name(below)) for below in one.commands]
        lines += ["        esac", "    fi"]
    return "\n".join([*lines, "    return ret", "}", ""])


def _described(below: Command) -> str:
    """A word of a list and what it does: the list is parsed as shell words."""
    return "{0}\\:{1}".format(below.words[-1], re.sub(r"([^\w./-])", r"\\\1", below.summary))


def _option(argument: Argument) -> str:
    flag = argument.flags[-1]
    spec = "{0}{1}[{2}]".format(flag, "=" if argument.value else "", _escaped(argument.short_help))
    if flag == "--help":
        return _quoted("(- *)" + spec)
    if argument.value:
        spec += "{0}{1}:{2}".format(
            "::" if argument.optional_value else ":", _escaped(argument.value), _offer(argument)
        )
    return _quoted(("*" if argument.repeated else "") + spec)


def _positional(number: int, argument: Argument) -> str:
    place = "*" if argument.repeated else str(number)
    return _quoted("{0}:{1}:{2}".format(place, _escaped(argument.value or ""), _offer(argument)))


def _offer(argument: Argument) -> str:
    if argument.takes_file:
        return "_files"
    if argument.takes_gpus:
        return "_gpunode_gpus"
    return "({0})".format(" ".join(argument.choices)) if argument.choices else " "


def _escaped(text: str) -> str:
    """As _arguments wants what is no syntax of its own."""
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def _quoted(text: str) -> str:
    return "'{0}'".format(text.replace("'", "'\\''"))
