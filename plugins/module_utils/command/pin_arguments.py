# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode pin`` and ``gpunode pin check``, apart from what they do: every start reads these."""

from __future__ import annotations

import argparse

EXAMPLES = """examples:
  gpunode pin --ranks 8              a rank beside each of 8 GPUs, for srun
  gpunode pin --ranks 8 --bind numa  each rank on the whole NUMA node of its GPU
  gpunode pin --ranks 8 --launcher openmpi --write job.pin
                                     MPI_NP and MPI_ARGS for scripts to source
  gpunode pin --ranks 16 --gpus none --threads 6 --launcher numactl
  gpunode pin check train.py         is a running job pinned as it should be

launchers: srun openmpi intelmpi mvapich2 lsf numactl hpl torchrun kubernetes
"""
CHECK_EXAMPLES = """examples:
  gpunode pin check train.py         processes whose command line matches a regular expression
  gpunode pin check --pid 4711 --pid 4712
  gpunode pin check --job 1234       the processes of a Slurm job
"""


def add(one: argparse.ArgumentParser) -> None:
    one.formatter_class = argparse.RawDescriptionHelpFormatter
    one.description = "Place the ranks of a job on this node, and write the launcher's line for it."
    one.epilog = EXAMPLES
    one.add_argument("--ranks", type=int, metavar="N", help="how many ranks (processes) run on this node")
    one.add_argument(
        "--threads", type=int, metavar="N", help="threads of each rank; without it a fair share of the cores"
    )
    one.add_argument(
        "--gpus", metavar="WHICH", help="each (one a rank; the default where there are GPUs), none, or a list: 0,1,4,5"
    )
    one.add_argument(
        "--launcher", default="srun", metavar="LAUNCHER", help="for whom the line is written (default: srun)"
    )
    one.add_argument(
        "--bind",
        choices=("core", "numa"),
        default="core",
        help="core: each rank has cores of its own (the default); numa: it may use its whole NUMA node",
    )
    one.add_argument("--smt", action="store_true", help="use all hardware threads of a core, not one")
    one.add_argument("--share-cores", action="store_true", help="let ranks share cores where there are too few")
    one.add_argument("--cpus", metavar="LIST", help="use only these CPUs, such as 0-23,48-71")
    one.add_argument("--write", metavar="FILE", help="write MPI_NP and MPI_ARGS for scripts, and the files they name")
    one.set_defaults(function="pin.run")
    inner = one.add_subparsers(metavar="check", required=False)
    check = inner.add_parser(
        "check",
        help="look at a running job: who shares a core, crosses a NUMA node, sits away from its GPU",
        description="Look at a running job: who shares a core, crosses a NUMA node, sits away from its GPU.",
        epilog=CHECK_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    check.add_argument("pattern", nargs="?", metavar="PATTERN", help="a regular expression for the command line")
    check.add_argument("--pid", type=int, action="append", metavar="N", help="this process; may be given again")
    check.add_argument("--job", metavar="ID", help="the processes of this Slurm job")
    check.set_defaults(function="check_pinning.run")
