# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode diagnose``: what this node tells of itself, in one archive."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from typing import Any, Dict, List, Sequence, Tuple

from ..core import given_file
from ..core.host import Host
from ..core.machine import short_name
from ..core.resource import Misuse, printable
from ..core.units import size
from ..node.diagnose import archive, fit, gather, page, parts
from ..node.diagnose.types import INCOMPLETE, MIB, Collected, Context, Part
from .arguments import within
from .exit_status import DONE, WARNINGS
from .output import print_json, table, wrapped
from .version import VERSION

SCHEMA = "trainyard.gpu_node/diagnosis/1"
# Of what the archive may have, a quarter is for the page; a sign can become six in HTML.
_PAGE_SHARE, _ESCAPED, _SHOWN_MAX = 4, 6, 65536
HOURS, SECONDS, MEBIBYTES = 24.0, 420.0, 64
HOURS_RANGE, SECONDS_RANGE, MEBIBYTES_RANGE = (0.1, 8760.0), (10.0, 3600.0), (1, 1024)

DETAILS = """The archive has one folder with text files and index.html, which opens in a
browser and needs nothing else. Nothing on the node is changed, and no GPU is
loaded. What does not answer costs its own part and is told.

Passwords, tokens, access keys, private keys and the queries of URLs are
hidden, and the names of users' processes. No environment of a process is read.
Names and addresses of the node, serial numbers and paths are in it: look
through it before you give it away.

exit status:
  0  written, with all that this node has
  3  written; something could not be collected, and is told
  1  not written
  2  wrong usage

examples:
  gpunode diagnose -o /root/gpu07.tar.gz
  gpunode diagnose -o /root/gpu07.tar.gz --hours 72 --without bug_report
  gpunode diagnose --list            what is collected, with its time limits
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Collect what this node tells of itself into one archive, without secrets."
    parser.epilog = DETAILS
    parser.add_argument("-o", "--output", metavar="FILE", help="the archive (.tar.gz); mode 0600")
    parser.add_argument(
        "--hours", type=float, default=HOURS, metavar="H", help="how far back logs are told (default: 24)"
    )
    parser.add_argument(
        "--without", action="append", default=[], metavar="PART", help="leave this part out; patterns too"
    )
    parser.add_argument(
        "--most", type=int, default=MEBIBYTES, metavar="MIB", help="the most that the archive may have (default: 64)"
    )
    parser.add_argument(
        "--timeout", type=float, default=SECONDS, metavar="S", help="the time limit of all of it (default: 420)"
    )
    parser.add_argument("--list", action="store_true", help="list the parts")


def run(host: Host, arguments: argparse.Namespace) -> int:
    for option, value, bounds in (
        ("--hours", arguments.hours, HOURS_RANGE),
        ("--most", arguments.most, MEBIBYTES_RANGE),
        ("--timeout", arguments.timeout, SECONDS_RANGE),
    ):
        within(option, value, bounds)
    node = short_name()
    context = Context(node, time.time(), arguments.hours, VERSION)
    chosen = parts.chosen(parts.every(context), arguments.without)
    if arguments.list:
        return _list(chosen, arguments.json)
    if not arguments.output:
        raise Misuse("gpunode diagnose", "it was not told where to write", "give -o FILE.tar.gz")
    path = os.path.abspath(arguments.output)
    given_file.check(path)
    found, files = _collected(host, chosen, context, arguments)
    written = archive.write(path, _top(context), files, context.now)
    missing = [one for one in found if one.status in INCOMPLETE]
    if arguments.json:
        print_json(dict(_manifest(found, context), file=path, bytes=written))
    else:
        print("\n".join(_told(path, written, found, missing)))
    return WARNINGS if missing else DONE


def _collected(
    host: Host, chosen: Sequence[Part], context: Context, arguments: argparse.Namespace
) -> Tuple[Sequence[Collected], Dict[str, str]]:
    told = sys.stderr.isatty() and not arguments.json

    def tell(name: str) -> None:
        if told:
            print("collecting {0}".format(name), file=sys.stderr)

    found = gather.gather(host, chosen, context, arguments.timeout, tell)
    verdict, image = (_document(found, name) for name in (parts.VERDICT, parts.IMAGE))
    most = arguments.most * MIB
    found = fit.fit(found, most - most // _PAGE_SHARE - MIB // 8)
    shown = min(_SHOWN_MAX, most // _PAGE_SHARE // _ESCAPED // len(found))
    files = {
        "index.html": page.page(found, verdict, image, context, shown),
        "manifest.json": json.dumps(_manifest(found, context), indent=2, sort_keys=True) + "\n",
    }
    files.update((one.part.file, one.text) for one in found if one.text)
    return found, files


def _document(found: Sequence[Collected], name: str) -> Any:
    """What a part of this name tells, before anything is cut of it; None: it tells nothing."""
    try:
        return json.loads(next((one.text for one in found if one.part.name == name), ""))
    except ValueError:
        return None


def _top(context: Context) -> str:
    """Safe as the name of a folder, whatever the node is called."""
    node = re.sub(r"[^A-Za-z0-9.-]", "-", context.node).strip(".-") or "node"
    return "gpunode-diagnose-{0}-{1}".format(node[:64], time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(context.now)))


def _manifest(found: Sequence[Collected], context: Context) -> Dict[str, Any]:
    return {
        "schema": SCHEMA,
        "node": context.node,
        "time": context.now,
        "hours": context.hours,
        "version": context.version,
        "parts": [
            {
                "name": one.part.name,
                "file": one.part.file if one.text else None,
                "status": one.status,
                "reason": one.reason or None,
                "bytes": len(one.text.encode("utf-8", "replace")),
                "cut_bytes": one.cut_bytes,
                "hidden": one.hidden,
                "seconds": round(one.seconds, 3),
            }
            for one in found
        ],
    }


def _told(path: str, written: int, found: Sequence[Collected], missing: Sequence[Collected]) -> List[str]:
    hidden = sum(one.hidden for one in found)
    there = sum(1 for one in found if one.text)
    lines = [
        wrapped(printable("{0}: {1}, {2} parts, {3} secrets hidden".format(path, size(written), there, hidden))),
    ]
    for one in found:
        if one.cut_bytes:
            lines.append(wrapped("cut {0}: {1} left out".format(one.part.name, size(one.cut_bytes))))
    for one in missing:
        what = "partly" if one.text else "not"
        lines.append(wrapped(printable("{0} collected {1}: {2}".format(what, one.part.name, one.reason))))
    if missing and os.geteuid() != 0:
        lines.append("as root there would be more")
    lines.append("open index.html of it in a browser; look through it before you give it away")
    return lines


def _list(chosen: Sequence[Part], as_json: bool) -> int:
    if as_json:
        print_json([{"name": one.name, "file": one.file, "title": one.title, "seconds": one.seconds} for one in chosen])
    else:
        rows = [(one.name, "{0:g} s".format(one.seconds), one.title) for one in chosen]
        print("\n".join(table(("PART", "LIMIT", "WHAT IT IS"), rows)))
    return DONE
