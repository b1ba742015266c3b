# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of ``converge``."""

from __future__ import annotations

import argparse
import os
from typing import Sequence

_EPILOG = """\
variables:  /etc/gpu_node/site.yml where it is there, then each FILE; later ones win. What Ansible Vault
            encrypted in them is read with /etc/gpu_node/vault_password.
status:     0 ready; 1 not ready, the last line tells why; 2 wrong use or a damaged bundle; 75 another one runs
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="converge",
        description="Make this node ready for jobs, with what is in the bundle and no network.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--variables", metavar="FILE", action="append", default=[], help="variables of site.yml (YAML)")
    # What the unit says to itself: services that wait for it are not asked for.
    made.add_argument("--boot", action="store_true", help=argparse.SUPPRESS)
    do = made.add_mutually_exclusive_group()
    # What slurmd asks before it starts.
    do.add_argument("--admit", action="store_true", help=argparse.SUPPRESS)
    do.add_argument("--check", action="store_true", help="tell what would be done, and change nothing")
    do.add_argument("--status", action="store_true", help="tell how the last converge ended")
    do.add_argument("--install", action="store_true", help="converge at each boot from now on, and now")
    do.add_argument(
        "--remove", action="store_true", help="undo --install and take the bundle off; the node stays as it was made"
    )
    return made


def parse(words: Sequence[str]) -> argparse.Namespace:
    found = parser().parse_args(list(words))
    found.variables = [os.path.abspath(path) for path in found.variables]
    return found
