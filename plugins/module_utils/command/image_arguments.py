# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode image``."""

from __future__ import annotations

import argparse

DETAILS = """Versions are read from files; no program is run, and nothing is asked over a
network. So it also looks at an image that is mounted, and at one that another
machine runs.

examples:
  gpunode image                        what is there, and what does not fit
  gpunode image --root /mnt/image      the same of an image that is mounted
  gpunode image --require 'driver>=535,<600' --require 'cuda>=12'
                                       as a last step of Packer: 1 unless it is
  gpunode image --save golden.json     keep the versions as a baseline
  gpunode image --compare golden.json  what is otherwise than in the baseline
  gpunode image --odd a.json b.json c.json
                                       which of these, each saved on a node,
                                       is otherwise than most

exit status: 0 all fits; 1 something does not fit, is not as required, or
differs from the baseline or from most nodes; 2 wrong use; 3 warnings only
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Tell the software of this image, and whether its parts fit each other."
    parser.epilog = DETAILS
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--root", metavar="DIR", default="/", help="look at the image that is mounted there")
    parser.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="NAME>=VERSION",
        help="a component, and what its version must be: >=, <=, ==, !=, > or <, several with commas; again for each",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--save", metavar="FILE", help="write the versions into this file, as a baseline")
    how.add_argument("--compare", metavar="FILE", help="compare with the baseline in this file")
    how.add_argument(
        "--odd", nargs="+", metavar="FILE", help="look at no image, but compare the versions in these files of nodes"
    )
    parser.set_defaults(function="image.run")
