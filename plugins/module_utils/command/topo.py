# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode topo``: what hangs on which NUMA node."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import os
import re
import sys
import textwrap
from typing import Any, Dict, List, Sequence

from ..core.host import Host
from ..core.machine import whole_name
from ..core.resource import NodeError
from ..facts import topology
from ..facts.sysfs import format_cpulist
from .output import print_json, size, table, wrapped


def add_arguments(parser: argparse.ArgumentParser) -> None:
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--draw", action="store_true", help="as a drawing of at most 80 columns, in place of the table")
    how.add_argument("--svg", nargs="?", const="-", metavar="FILE", help="as an SVG picture, into FILE or printed")


def run(host: Host, arguments: argparse.Namespace) -> int:
    found = topology.look(host)
    if arguments.json:
        print_json(topology.to_dict(found))
        return 0
    if arguments.draw:
        from .draw_sheet import sheet  # the drawings are loaded only where they are wanted
        from .draw_text import text

        print(text(sheet(found, whole_name()), ascii_only=not speaks_utf8()))
        return 0
    if arguments.svg is not None:
        write_picture(host, found, arguments.svg)
        return 0
    print_table(found)
    return 0


def speaks_utf8() -> bool:
    """Whether the terminal takes more than ASCII: LC_ALL=C asks for that, though Python writes UTF-8 then as well."""
    locale = os.environ.get("LC_ALL", "")
    encoding = (sys.stdout.encoding or "").lower()
    return encoding.startswith("utf") and (not locale or "utf" in locale.lower())


def write_picture(host: Host, found: topology.Topology, path: str) -> None:
    from .draw_sheet import sheet
    from .draw_svg import svg

    picture = svg(sheet(found, whole_name()))
    if path == "-":
        print(picture, end="")
    else:
        # As a shell would, not as files of the node are written: a device or a pipe stays what it is, the kernel guards
        # the links in /tmp, and a folder that is misspelt is not made.
        try:
            with open(host.path(os.path.abspath(path)), "w", encoding="utf-8", errors="surrogateescape") as stream:
                stream.write(picture)
        except OSError as error:
            reason = "it could not be written ({0})".format(error.strerror)
            raise NodeError(path, reason, "name a file in a folder that you may write to") from error


def print_table(found: topology.Topology) -> None:
    content = topology.to_dict(found)
    rows = []
    for node in content["numa_nodes"]:
        here = node["id"]
        rows.append(
            [
                here,
                node["cpu_list"],
                size(node["memory_bytes"]),
                _names(content["gpus"], here, "index"),
                _names(content["infiniband"], here, "name"),
                _names(content["nvme"], here, "name"),
            ]
        )
    print("\n".join(_fitting(("NUMA", "CPUS", "MEMORY", "GPUS", "INFINIBAND", "NVME"), rows)))
    homeless = [
        device["name"]
        for kind in ("gpus", "infiniband", "nvme")
        for device in content[kind]
        if device["numa_node"] is None
    ]
    if homeless:
        print(wrapped("without a NUMA node: {0}".format(" ".join(homeless))))
    if found.gpus_reason:
        print(wrapped(found.gpus_reason))
    for note in found.notes:
        print(wrapped("note: {0}".format(note)))


def _names(devices: List[Dict[str, Any]], node: int, key: str) -> str:
    here = [device for device in devices if device["numa_node"] == node]
    return " ".join(ranges([str(device["name"] if device[key] is None else device[key]) for device in here]))


def _fitting(head: Sequence[str], rows: Sequence[Sequence[object]]) -> List[str]:
    """A table whose long cells (addresses of GPUs without a number) go on below, as far as 80 columns need it."""
    lines: List[str] = []
    for width in (80, 32, 25, 16, 12):
        folded: List[List[object]] = []
        for row in rows:
            cells = [textwrap.wrap("" if cell is None else str(cell), width) or ["-"] for cell in row]
            height = max(len(cell) for cell in cells)
            folded += [[cell[line] if line < len(cell) else " " for cell in cells] for line in range(height)]
        lines = table(head, folded)
        if max(len(line) for line in lines) <= 80:
            break
    return lines


def ranges(names: Sequence[str]) -> List[str]:
    """``nvme0-3`` for nvme0, nvme1, nvme2 and nvme3, so that a row fits into a line; other names as they are."""
    prefixes: Dict[str, List[int]] = {}
    for name in names:
        found = re.fullmatch(r"(|.*[^0-9:.])(0|[1-9][0-9]*)", name)
        prefix, numbers = (found.group(1), [int(found.group(2))]) if found else (name, [])
        prefixes.setdefault(prefix, []).extend(numbers)
    return [
        ",".join(prefix + part for part in format_cpulist(numbers).split(",")) if numbers else prefix
        for prefix, numbers in prefixes.items()
    ]
