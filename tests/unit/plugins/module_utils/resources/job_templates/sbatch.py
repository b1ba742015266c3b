# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The long options that sbatch takes in ``#SBATCH`` lines, and a reader of these lines after its own.

The names are those with a ``set_func`` or ``set_func_sbatch`` in ``src/common/slurm_opt.c`` of slurm-22-05-9-1 and of
slurm-24-11-7-1; the reader does what ``_opt_batch_script`` and ``_get_argument`` of ``src/sbatch/opt.c`` do.
"""

from __future__ import annotations

import re
import shlex

# Each takes a value. One that is in 22.05 alone or in 24.11 alone is in neither set.
WITH_VALUE = frozenset(
    "account acctg-freq array batch bb bbf begin chdir cluster cluster-constraint clusters comment constraint "
    "container context core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot "
    "dependency distribution error exclude export export-file extra-node-info gid gpu-bind gpu-freq gpus "
    "gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint input job-name kill-on-invalid-dep licenses "
    "mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nodefile nodelist nodes "
    "ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode output "
    "partition prefer priority profile qos reservation signal sockets-per-node switches tasks-per-node thread-spec "
    "threads-per-core time time-min tmp uid wait-all-nodes wckey wrap".split()
)
# Each stands alone, or may have a value.
ALONE = frozenset(
    "contiguous exclusive get-user-env hold ignore-pbs nice no-kill no-requeue overcommit oversubscribe parsable "
    "propagate quiet reboot requeue spread-job test-only use-min-nodes verbose wait".split()
)


def options(text):
    """(name, value) of each directive, as sbatch finds them: up to the first line that is no comment and not empty.

    :raises ValueError: for what sbatch refuses.
    """
    found = []
    for line in text.splitlines():
        if not line.startswith("#SBATCH"):
            if line.strip() and not line.startswith("#"):
                break
            continue
        for word in shlex.split(line[len("#SBATCH") :], comments=True):
            hit = re.fullmatch(r"--([a-z-]+)(?:=(.+))?", word)
            if hit is None or hit.group(1) not in WITH_VALUE | ALONE:
                raise ValueError("unrecognized option " + word)
            if hit.group(1) in WITH_VALUE and hit.group(2) is None:
                raise ValueError("option requires an argument " + word)
            found.append((hit.group(1), hit.group(2)))
    return found
