# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode profile suggest``: a profile of the machine it runs on, for a person to check."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import textwrap

from ..core.host import Host
from ..facts import gpu_info, sysfs, topology
from ..facts.profile import cloud, suggest
from .exit_status import DONE
from .output import print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(metavar="suggest", required=True)
    told = "write a profile of this machine, for a person to check"
    one = what.add_parser("suggest", help=told, description="Write a profile of this machine, for a person to check.")
    one.add_argument("--name", metavar="NAME", help="the name of the profile, and of its file without .yml")
    one.add_argument("--vm-size", metavar="SIZE", help="the VM size; without it the cloud is asked, if this is one")


def run(host: Host, arguments: argparse.Namespace) -> int:
    dmi = sysfs.dmi(host)
    vm_size = arguments.vm_size or cloud.read("auto", dmi).vm_size
    information = gpu_info.gather(gpu_info.Options(groups=("clocks", "nvlink")))
    found = suggest.suggest(dmi, topology.look(host), information, vm_size, arguments.name)
    if arguments.json:
        print_json({"profile": found.profile, "unverified": list(found.unverified), "checks": list(found.checks)})
    else:
        print(suggest.text(found, lambda sentence: textwrap.wrap(sentence, 74, break_on_hyphens=False)), end="")
    return DONE
