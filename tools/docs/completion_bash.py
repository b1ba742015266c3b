# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The completion of bash: plain bash, so it works where the package bash-completion is missing as well."""

from __future__ import annotations

from typing import List

from .command import Argument, Command

HEAD = """# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Generated from the argument parser of gpunode by "make docs"; change it there.
# shellcheck shell=bash

# From what the driver shows in /proc: nothing is asked that a sick GPU could hold up.
_gpunode_gpus() {
    local index=0 folder line
    for folder in /proc/driver/nvidia/gpus/*/; do
        [[ -d $folder ]] || return
        echo "$((index++))"
        while read -r line; do
            [[ $line =~ GPU-[0-9a-f-]{36}$ ]] && echo "${BASH_REMATCH[0]}"
        done <"${folder}information"
    done 2>/dev/null
}

_gpunode() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} path="" words="" before="" word
    COMPREPLY=()
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$path $word" in
"""
TAIL = """    esac
    if [[ $current != -* && $words != -* ]]; then
        words=${words%% -*}
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -F _gpunode gpunode
"""


def script(command: Command) -> str:
    every = command.every()
    lines: List[str] = []
    for one in every[1:]:
        before, name = " ".join(one.words[:-1]), one.words[-1]
        lines.append('            "{0} {1}") path="{2}" ;;'.format(before, name, " ".join(one.words)))
    lines += ["        esac", "    done", '    case "$path $previous" in']
    valued = [(one, argument) for one in every for argument in one.options if argument.value]
    free = []
    for one, argument in valued:
        patterns = ['"{0} {1}"'.format(" ".join(one.words), flag) for flag in argument.flags]
        if argument.takes_file or argument.takes_gpus or argument.choices:
            lines += _offer(" | ".join(patterns), argument)
        elif not argument.optional_value:
            free += patterns
    if free:  # a number or a name that only the user knows
        lines += ["        " + " | \\\n            ".join(free) + ")", "            return", "            ;;"]
    lines += ["    esac", '    case "$path" in']
    for one in every:
        lines.append('        "{0}") words="{1}" ;;'.format(" ".join(one.words), " ".join(_words(one))))
    return HEAD + "\n".join(lines) + "\n" + TAIL


def _offer(patterns: str, argument: Argument) -> List[str]:
    """What to offer after an option that takes a file or one of some words."""
    if argument.takes_file:
        offer = ["compopt -o filenames", 'mapfile -t COMPREPLY < <(compgen -f -- "$current")']
    elif argument.takes_gpus:  # the last of a list
        offer = [
            "[[ $current == *,* ]] && before=${current%,*},",
            'mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(_gpunode_gpus)" -- "${current##*,}")',
        ]
    else:
        offer = ['mapfile -t COMPREPLY < <(compgen -W "{0}" -- "$current")'.format(" ".join(argument.choices))]
    offer.append("return")
    if argument.optional_value:  # another option may follow as well
        offer = ["if [[ $current != -* ]]; then", *("    " + line for line in offer), "fi"]
    return ["        {0})".format(patterns), *("            " + line for line in [*offer, ";;"])]


def _words(one: Command) -> List[str]:
    """Words first, options after them: the script cuts the options off until a hyphen was typed."""
    words = [command.words[-1] for command in one.commands]
    words += [choice for argument in one.positional for choice in argument.choices]
    return words + [flag for argument in one.options for flag in argument.flags if flag != "-h"]
