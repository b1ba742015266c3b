# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode info``: the GPUs, and what runs on them."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import shutil
import sys
from typing import Any, Dict, Mapping

from ..core.host import Host
from ..facts import gpu_info
from ..facts.gpu_info.types import Information
from ..facts.nvml import identity
from . import gpu_argument, gpu_table
from .color import painter
from .gpu_processes import Owner, Owners
from .status import DONE, NOT_DONE
from .table import print_json

# Of --json; the whole of it is in the module gpu_info and takes longer.
GROUPS = ("memory", "settings", "clocks", "power", "temperature", "load", "processes", "repair")
_OWN = ("user", "command", "job", "container")


def run(host: Host, arguments: argparse.Namespace) -> int:
    """The GPUs. Status 1 when they cannot all be read, so that scripts notice.

    :raises Misuse: when a GPU is named that there is not.
    """
    options = gpu_info.Options(gpu_argument.selectors(arguments.gpu), GROUPS)
    owners = Owners(host)
    status = DONE

    def look() -> Any:
        nonlocal status
        found = gpu_info.gather(options)
        status = DONE if found.status in ("ok", "no_gpu") else NOT_DONE
        if found.status == "no_gpu":
            identity.select((), [selector for selector in options.gpus if selector != identity.ALL])
        told = owners.of(sorted(set(gpu_table.pids(found))))
        return _plain(found, told) if arguments.json else _text(found, told)

    if arguments.watch is not None:
        from .watch import watch

        return watch(arguments.watch, look)
    picture = look()
    if arguments.json:
        print_json(picture)
    else:
        print(picture)
    return status


def _text(found: Information, owners: Mapping[int, Owner]) -> str:
    paint = painter(sys.stdout)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 80
    return "\n".join(paint(text, kind) if kind else text for kind, text in gpu_table.lines(found, owners, width))


def _plain(found: Information, owners: Mapping[int, Owner]) -> Dict[str, Any]:
    answer = found.to_dict()
    for gpu in answer["gpus"]:
        for process in (gpu["processes"] or {}).get("running") or ():
            process.update((name, getattr(owners[process["pid"]], name)) for name in _OWN)
    return answer
