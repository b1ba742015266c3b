# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode scratch status``: what stands, and what a run would do."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
from typing import Any, Dict, List

from ..core.host import Host
from ..resources import nvme_scratch
from .exit_status import DONE, NOT_DONE
from .output import print_json, size, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=["status"])


def run(host: Host, arguments: argparse.Namespace) -> int:
    """Status 1 when a scratch was declared and is not as declared."""
    status = nvme_scratch.status(host)
    if arguments.json:
        print_json(status)
    else:
        print("\n".join(_scratch_lines(status)))
    return NOT_DONE if status["in_order"] is False and not status["skipped"] else DONE


def _scratch_lines(status: Dict[str, Any]) -> List[str]:
    if not status["declared"]:
        return ["no scratch was declared for this node; the role trainyard.gpu_node.nvme_scratch does that"]
    if status["skipped"]:
        return ["skipped: {0}".format(status["skipped"])]
    found = status["scratch"]
    where = found["mount_point"]
    if found["mounted"]:
        lines = ["{0}: {1} of {2}".format(where, found["filesystem"], size(found["size_bytes"]))]
        if found["adopted"]:
            lines[0] += ", somebody else's mount, used as it is"
        if found["array_name"]:
            lines.append(
                "array {0} on {1}, chunk {2} KiB, UUID {3}".format(
                    found["array_name"], found["device"], found["chunk_kib"], found["array_uuid"]
                )
            )
    else:
        lines = ["{0}: NOT MOUNTED".format(where)]
    rows = [
        [disk["serial"], disk["name"], disk["model"], size(disk["size_bytes"]), disk["content"]]
        for disk in found["disks"]
    ]
    lines.extend(table(("SERIAL", "DISK", "MODEL", "SIZE", "CONTENT"), rows))
    lines.extend("refused: {0}".format(refusal) for refusal in status["refusals"])
    lines.extend("'gpunode apply nvme_scratch' would: {0}".format(action) for action in status["actions"])
    lines.extend("note: {0}".format(note) for note in status["notes"])
    return lines
