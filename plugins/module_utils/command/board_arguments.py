# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode board``."""

from __future__ import annotations

import argparse

LOCAL_PORT = 6006
DETAILS = """It starts the TensorBoard of the environment that is active, for the loopback
address only, and stays with it: ^C or the end of the job ends both. TensorBoard
has no password, so it is never bound to the network. Other users of the same
node can read it.

exit status: 0 it was ended, 1 it did not start or broke off, 2 wrong use

examples:
  gpunode board --logdir logs
  gpunode board --logdir logs --jump login.example.org
  srun --jobid=4711 --overlap --pty gpunode board --logdir logs
                                   beside a job that runs
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "TensorBoard on this node's loopback address, with the ssh line to reach it."
    parser.epilog = DETAILS
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--logdir", metavar="DIR", required=True, help="the folder with the event files")
    parser.add_argument("--jump", metavar="HOST", help="the machine to go through, as ssh -J takes it")
    parser.add_argument(
        "--local-port", type=int, default=LOCAL_PORT, metavar="PORT", help="the port on your machine (default: 6006)"
    )
    parser.add_argument("--program", metavar="FILE", help="another TensorBoard than that in PATH")
    parser.set_defaults(function="board.run")
