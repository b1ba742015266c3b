# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode pin``: where the ranks of a job belong on this node, and the launcher's line that puts them there."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
import textwrap
from typing import List, Optional, Tuple, Union

from .. import placement as pinning
from ..core import given_file
from ..core.host import Host
from ..core.resource import Misuse
from ..facts import sysfs, topology
from ..placement import observe, render
from ..placement.render.envfile import environment_file
from . import pin_check
from .output import print_json, table

WIDTH = 80
LAUNCHER = "srun"
EXAMPLES = """examples:
  gpunode pin --ranks 8              a rank beside each of 8 GPUs, for srun
  gpunode pin --ranks 8 --bind numa  each rank on the whole NUMA node of its GPU
  gpunode pin --ranks 8 --launcher openmpi --write job.pin
                                     MPI_NP and MPI_ARGS for scripts to source
  gpunode pin --ranks 16 --gpus none --threads 6 --launcher numactl
  gpunode pin check train.py         is a running job pinned as it should be

launchers: srun openmpi intelmpi mvapich2 lsf numactl hpl torchrun kubernetes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Place the ranks of a job on this node, and write the launcher's line for it."
    parser.epilog = EXAMPLES
    parser.add_argument("--ranks", type=int, metavar="N", help="how many ranks (processes) run on this node")
    parser.add_argument(
        "--threads", type=int, metavar="N", help="threads of each rank; without it a fair share of the cores"
    )
    parser.add_argument(
        "--gpus", metavar="WHICH", help="each (one a rank; the default where there are GPUs), none, or a list: 0,1,4,5"
    )
    parser.add_argument(
        "--launcher", default="srun", metavar="LAUNCHER", help="for whom the line is written (default: srun)"
    )
    parser.add_argument(
        "--bind",
        choices=("core", "numa"),
        default="core",
        help="core: each rank has cores of its own (the default); numa: it may use its whole NUMA node",
    )
    parser.add_argument("--smt", action="store_true", help="use all hardware threads of a core, not one")
    parser.add_argument("--share-cores", action="store_true", help="let ranks share cores where there are too few")
    parser.add_argument("--cpus", metavar="LIST", help="use only these CPUs, such as 0-23,48-71")
    parser.add_argument(
        "--write", metavar="FILE", help="write MPI_NP and MPI_ARGS for scripts, and the files they name"
    )
    commands = parser.add_subparsers(dest="what", metavar="check", required=False)
    what = "look at a running job: who shares a core, crosses a NUMA node, sits away from its GPU"
    check = commands.add_parser("check", help=what, description=what[0].upper() + what[1:] + ".")
    pin_check.add_arguments(check)


def run(host: Host, arguments: argparse.Namespace) -> int:
    return pin_check.run(host, arguments) if arguments.what == "check" else _place(host, arguments)


def _place(host: Host, arguments: argparse.Namespace) -> int:
    request = render.adapt(arguments.launcher, _request(host, arguments))
    found = topology.look(host)
    placement = pinning.place(found, request)
    base = "pin" if arguments.write is None else arguments.write
    rendered = render.render(arguments.launcher, placement, found, base)
    if arguments.write is not None:
        _write(arguments.write, rendered, placement)
    if arguments.json:
        content = pinning.to_dict(placement)
        content["launcher"] = dict(
            dataclasses.asdict(rendered), command=rendered.command() if rendered.program else None
        )
        print_json(content)
        return 0
    print("\n".join(_table(placement)))
    for warning in placement.warnings:
        print("\n".join(_wrapped("warning: " + warning)))
    print()
    print("\n".join(_command(rendered)))
    if arguments.write is None:
        for file in rendered.files:
            print("\n# {0} (not written: see --write FILE)\n{1}".format(file.name, file.text.rstrip("\n")))
    else:
        print("\nwritten: " + " ".join([arguments.write] + [file.name for file in rendered.files]))
    for note in rendered.notes:
        print("\n".join(_wrapped("note: " + note)))
    return 0


def _request(host: Host, arguments: argparse.Namespace) -> pinning.Request:
    if arguments.ranks is None:
        raise Misuse("pin", "the number of ranks is missing", "give it with --ranks N")
    allowed = observe.allowed(host)
    cpus = allowed.cpus
    if arguments.cpus is not None:
        wanted = _cpus(arguments.cpus)
        cpus = wanted if cpus is None else tuple(cpu for cpu in cpus if cpu in wanted)
    return pinning.Request(
        ranks=arguments.ranks,
        threads=arguments.threads,
        gpus=_gpus(arguments.gpus),
        bind=arguments.bind,
        smt=arguments.smt,
        share_cores=arguments.share_cores,
        allowed_cpus=cpus,
        allowed_memory_nodes=allowed.memory_nodes,
    )


def _cpus(text: str) -> Tuple[int, ...]:
    found = sysfs.parse_cpulist(text)
    if not found or len(sysfs.format_cpulist(found)) != len(text.strip()):
        raise Misuse("--cpus {0}".format(text), "it is no list of CPUs", "write one such as 0-23,48")
    return found


def _gpus(text: Optional[str]) -> Union[str, Tuple[int, ...], None]:
    if text is None or text in ("each", "none"):
        return text
    parts = text.split(",")
    if not all(part.isdigit() and len(part) < 6 for part in parts):
        raise Misuse(
            "--gpus {0}".format(text), "it is not understood", "use each, none, or a GPU for each rank such as 0,1,4,5"
        )
    return tuple(int(part) for part in parts)


def _table(placement: pinning.Placement) -> List[str]:
    rows = []
    for rank in placement.ranks:
        rows.append(
            [
                rank.index,
                _short(sysfs.format_cpulist(rank.cpus)),
                len(rank.cores),
                rank.threads,
                sysfs.format_cpulist(rank.numa_nodes),
                _short(sysfs.format_cpulist(rank.l3_groups), 11),
                None if rank.gpu is None else rank.gpu.index,
                rank.infiniband,
            ]
        )
    return table(("RANK", "CPUS", "CORES", "THREADS", "NUMA", "L3", "GPU", "INFINIBAND"), rows)


def _short(text: str, width: int = 23) -> str:
    """A long list is cut: --json and the launcher's line have all of it."""
    return text if len(text) <= width else text[: width - 3].rpartition(",")[0] + ",..."


def _command(rendered: render.Rendered) -> List[str]:
    """Continued lines, as they can be pasted. A word longer than the terminal stays whole."""
    if rendered.lines:
        return list(rendered.lines)
    words = ["{0}={1}".format(name, shlex.quote(value)) for name, value in rendered.environment]
    words.append(rendered.program)
    for word in [shlex.quote(word) for word in rendered.count + rendered.arguments]:
        if words[-1].startswith("-") and "=" not in words[-1] and " " not in words[-1] and not word.startswith("-"):
            words[-1] += " " + word  # an option and its value stay on one line
        else:
            words.append(word)
    lines: List[str] = []
    current = ""
    for word in [*words, rendered.application]:
        if current and len(current) + len(word) + 3 > WIDTH:
            lines.append(current + " \\")
            current = "  " + word
        else:
            current = current + " " + word if current else word
    return [*lines, current]


def _wrapped(text: str) -> List[str]:
    return textwrap.wrap(text, WIDTH - 1, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _write(path: str, rendered: render.Rendered, placement: pinning.Placement) -> None:
    text = environment_file(rendered, placement)
    if os.path.isdir(path):
        raise Misuse(path, "it is a folder", "give --write the path of a file")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):  # a typo would be a folder for good
        raise Misuse(path, "there is no folder {0}".format(folder), "make it first, or correct the path")
    for file in rendered.files:
        given_file.write(os.path.abspath(file.name), file.text, 0o777 if file.executable else 0o666)
    given_file.write(os.path.abspath(path), text)
