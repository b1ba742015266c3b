# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode cleanup``."""

from __future__ import annotations

import argparse

from ..jobs.leftovers.types import KINDS

DETAILS = """kinds:
  job_folders         folders of jobs on the scratch whose job is over
  containers          folders of enroot of users without a job here
  environments        former builds of environments on the scratch, unused
  core_dumps          core dumps in folders of root's
  tmp_files           files in /tmp and /dev/shm of users without a process here
  clocks              clocks that are held on a GPU that no job has
  gpu_processes       processes on GPUs that are of no job: told, never touched
  stopped_containers  containers of docker and podman: told, never touched

Removed is only what the records of this node, Slurm or the kernel prove free.
While a job runs, nothing that it could need goes. How old things have to be is
declared by the resource cleanup (docs/cleanup.md).

examples:
  gpunode cleanup --check               what would go, and why the rest stays
  gpunode cleanup                       remove it
  gpunode cleanup --kind tmp_files      only this; may be repeated

exit status: 0 done; 1 something could not be looked at or removed
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Remove what jobs and users left on this node, where it is proven free."
    parser.epilog = DETAILS
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--check", action="store_true", help="tell what would be done; change nothing")
    parser.add_argument("--kind", action="append", default=[], choices=KINDS, metavar="KIND", help="only this kind")
    parser.set_defaults(function="cleanup.run")
