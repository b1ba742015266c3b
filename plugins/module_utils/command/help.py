# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode help``."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
from typing import List, Sequence

from ..core.host import Host
from .exit_status import DONE
from .output import print_json
from .parser import Parser


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="the command, such as: clocks max")


def run(dummy: Host, arguments: argparse.Namespace) -> int:
    from .main import parser

    words: List[str] = arguments.words
    text = _command(parser(loaded=words[:1]), words).format_help()
    if arguments.json:
        print_json({"help": text})
    else:
        print(text, end="")
    return DONE


def _command(one: Parser, words: Sequence[str]) -> Parser:
    for number, word in enumerate(words):
        below = one.commands()
        if below is None:
            one.refuse(words[number:])
        one._check_value(below, word)
        one = below.choices[word]
    return one
