# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode mig``."""

from __future__ import annotations

import argparse

from . import gpu_argument

CHANGE = """Nothing is changed here. What is wanted is declared for mig_layout (role
mig_layout, or /etc/gpu_node/declaration.json), and 'gpunode converge --only
mig_layout' makes it.
"""

EXAMPLES = """examples:
  gpunode mig list                 instances, who uses them, what is declared
  gpunode mig profiles --gpu 0     what GPU 0 can be divided into
  gpunode mig plan 3g+2x2g         what would be done for this, on all GPUs
  gpunode mig plan 2x1g --around   beside what is there
"""

LIST = """A GPU is drawn by its memory slices; * is an instance that a process uses. Below
are its GPU instances with their compute instances, whose UUIDs programs take in
CUDA_VISIBLE_DEVICES. With MIG on this is told to root only, and NVML tells no
utilisation, neither of the GPU nor of an instance.

exit status:
  0  all GPUs answered, and are as declared where something is declared
  1  a GPU did not answer, or is not as declared
"""

PROFILES = """SLICES are compute + memory slices, STARTS the memory slices at which it may
begin, FREE how many more could be made beside what is there now.
"""

PLAN = """The wish is what the GPUs are to have: profiles with +, as the GPU names them or
without the memory, with 2x for two of a kind.

  3g+2x2g           on an A100 of 40 GB: 3g.20gb + 2 x 2g.10gb
  1g.10gb+me+3g@4   a start: 3g at memory slice 4
  3g:1c,2c          compute instances in it
  empty             MIG on, no instance
  off               MIG off: a whole GPU

exit status:
  0  it could be done, or is so already
  1  refused: the sentence has what would work, or who is in the way
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show how GPUs are divided into instances (MIG), and what could be."
    parser.epilog = EXAMPLES + "\n" + CHANGE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="what", metavar="ACTION", required=True)
    for name, summary, epilog, function in (
        ("list", "instances of each GPU, who uses them, what is declared", LIST, "mig.show"),
        ("profiles", "what each GPU can be divided into, and how many more fit", PROFILES, "mig.profiles"),
        ("plan", "what would be done for a wish; nothing is changed", PLAN + "\n" + CHANGE, "mig.plan"),
    ):
        one = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        one.set_defaults(function=function)
        if name == "profiles":
            one.add_argument("which", nargs="*", metavar="GPU", help="only these GPUs, as with --gpu")
        if name == "plan":
            one.add_argument("wish", nargs="+", metavar="WISH", help="instances, such as 3g+2x2g; empty; off")
            how = one.add_mutually_exclusive_group()
            how.add_argument("--exact", action="store_true", help="what nobody asked for goes (the default)")
            how.add_argument("--around", action="store_true", help="what nobody asked for stays")
        gpu_argument.add(one)
