# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode help``."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
from typing import Sequence

from ..core.host import Host
from .parser import Parser
from .status import DONE
from .table import print_json


def run(dummy: Host, arguments: argparse.Namespace) -> int:
    from .main import parser

    text = _command(parser(), arguments.words).format_help()
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
