# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The completion of fish: a line for each word that may come, with the command that it may come after."""

from __future__ import annotations

from typing import List

from .command import Argument, Command

HEAD = """# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Generated from the argument parser of gpunode by "make docs"; change it there.

# From what the driver shows in /proc: nothing is asked that a sick GPU could hold up.
function __gpunode_gpus
    set -l index 0
    for folder in /proc/driver/nvidia/gpus/*/
        echo $index
        set index (math $index + 1)
        string match -r 'GPU-[0-9a-f-]{36}$' <$folder/information
    end 2>/dev/null
end

# The command that the words before the cursor name.
function __gpunode_at
    set -l path ""
    for word in (commandline -opc)[2..]
        switch "$path $word"
"""
BELOW = """        end
    end
    test "$path" = "$argv"
end

complete -c gpunode -f
"""


def script(command: Command) -> str:
    lines: List[str] = []
    for one in command.every()[1:]:
        lines += [
            "            case {0}".format(_quoted("{0} {1}".format(" ".join(one.words[:-1]), one.words[-1]))),
            "                set path {0}".format(_quoted(" ".join(one.words))),
        ]
    return (
        HEAD
        + "\n".join(lines)
        + "\n"
        + BELOW
        + "\n".join(line for one in command.every() for line in _lines(one))
        + "\n"
    )


def _lines(one: Command) -> List[str]:
    at = "__gpunode_at " + " ".join(one.words) if one.words else "__gpunode_at ''"
    start = "complete -c gpunode -n {0}".format(_quoted(at))
    lines = ["{0} -a {1} -d {2}".format(start, below.words[-1], _quoted(below.summary)) for below in one.commands]
    for argument in one.positional:
        if argument.choices:
            lines.append("{0} -a {1}".format(start, _quoted(" ".join(argument.choices))))
    for argument in one.options:
        lines += _option(argument, at, start)
    return lines


def _option(argument: Argument, at: str, start: str) -> List[str]:
    flag, told = argument.flags[-1], _quoted(argument.short_help)
    line = "{0} -l {1} -d {2}".format(start, flag[2:], told)
    if not argument.value:
        return [line]
    if argument.optional_value:
        # fish knows no value that may be left out: it is a word after a switch.
        after = "complete -c gpunode -n {0}".format(
            _quoted("{0}; and test (commandline -opc)[-1] = {1}".format(at, flag))
        )
        return [line] + ([after + " -F"] if argument.takes_file else [])
    if argument.takes_file:
        return [line + " -r -F"]
    if argument.takes_gpus:
        return [line + " -x -a '(__fish_complete_list , __gpunode_gpus)'"]
    return [line + " -x" + (" -a " + _quoted(" ".join(argument.choices)) if argument.choices else "")]


def _quoted(text: str) -> str:
    return "'{0}'".format(text.replace("\\", "\\\\").replace("'", "\\'"))
