# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode checkpoint``."""

from __future__ import annotations

import argparse

DETAILS = """What is not given is taken from the declaration (section checkpoint of
/etc/gpu_node/node.json; role checkpoint). A checkpoint counts when its manifest
is in the store, which is written last. The same put again goes on with what a
killed one left. A shared access signature comes from a file, and is on no
command line.

examples:
  gpunode checkpoint put step-1000 model-*.pt    copy files, then the manifest
  gpunode checkpoint put step-1000 DIR --part 0/4
                                                 one of four nodes
  gpunode checkpoint put step-1000 DIR --dry-run caps, cores, command lines
  gpunode checkpoint list                        what is there, and is it whole
  gpunode checkpoint get latest /scratch/restore
  gpunode checkpoint plan --bytes 800G --nodes 4 --pause 20
                                                 how long, and how often

exit status: 0 done; 1 not done, one sentence says why; 2 wrong usage
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Bring checkpoints into a store of blobs and back, by azcopy."
    parser.epilog = DETAILS
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    what = parser.add_subparsers(metavar="put, get, list or plan", required=True)
    put = _one(what, "put", "copy files, then write the manifest", "Bring a checkpoint into the store.")
    put.add_argument("name", metavar="NAME", help="name of the checkpoint, such as step-1000")
    put.add_argument("files", nargs="+", metavar="FILE", help="files, or folders of files")
    put.add_argument("--part", metavar="I/N", help="this node's part, counted from 0: 0/4 to 3/4 on four nodes")
    put.add_argument("--keep", type=int, metavar="N", help="then remove whole ones of this run beside the last N")
    get = _one(what, "get", "bring a checkpoint back", "Bring a checkpoint back from the store.")
    get.add_argument("name", metavar="NAME", help="name of the checkpoint; latest: the newest whole one")
    get.add_argument("folder", metavar="FOLDER", help="where it goes")
    get.add_argument("--part", metavar="I/N", help="only what that part wrote")
    for one in (put, get):
        one.add_argument("--dry-run", action="store_true", help="tell what would be done; ask the store nothing")
        one.add_argument("--cpus", metavar="LIST", help="run azcopy on these, such as 40-47; else off the ranks' cores")
        one.add_argument("--limit", type=float, metavar="SECONDS", help="stop after so long; the same command goes on")
        one.add_argument(
            "--metrics", metavar="FILE", help="write figures for the textfile collector, also of a failure"
        )
    listing = _one(what, "list", "the checkpoints in the store", "Tell which checkpoints are in the store.")
    for one in (put, get, listing):
        one.add_argument("--to", dest="destination", metavar="URL", help="the container, or a folder in it")
        one.add_argument("--sas-file", metavar="FILE", help="file with a shared access signature, of yours alone")
        one.add_argument("--work", metavar="FOLDER", help="for plans and logs; else the scratch")
    plan = _one(what, "plan", "caps, how long a copy takes, how often to write one", "Tell what a checkpoint costs.")
    plan.add_argument("--bytes", required=True, metavar="SIZE", help="of the whole checkpoint: 800G, 1.5T")
    plan.add_argument("--interval", type=float, metavar="SECONDS", help="how often it is written now")
    plan.add_argument(
        "--pause", type=float, metavar="SECONDS", help="how long training stops for one; else for the whole copy"
    )
    plan.add_argument("--node-mtbf", type=float, metavar="HOURS", help="mean time between failures of one node")
    for one in (put, get, plan):
        one.add_argument("--nodes", type=int, metavar="N", help="nodes that copy to this account at the same time")
        one.add_argument("--files", dest="at_once", type=int, metavar="N", help="files that each copies at a time")


def _one(what: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, told: str, description: str):  # type: ignore[no-untyped-def]
    one = what.add_parser(name, help=told, description=description)
    one.set_defaults(function="checkpoint.{0}".format(name if name != "list" else "listing"))
    return one
