# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scripts for captured machines, and a way to run one where there is no Slurm, no GPU and no container."""

from __future__ import annotations

import os
import subprocess

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import topology
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.job_templates import launch
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.job_templates.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.job_templates.scripts import render
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import shared

FOLDER = "/shared/jobs"
DESIRED = Desired(folder=FOLDER)
_SEEN = {}

# Fixtures in place of Slurm's and NVIDIA's programs: as much of them as the scripts rely on.
_SRUN = """\
#!/bin/bash
# Starts the ranks of one node one after another: local rank, rank, command. Options are written as --name=value.
tasks=1
while [[ $1 == --* ]]; do
  case $1 in --ntasks-per-node=*) tasks=${1#*=} ;; --*=* | --overlap) ;; *) exit 2 ;; esac
  echo "srun $1" >>"$SRUN_OPTIONS"
  shift
done
status=0
for ((rank = 0; rank < tasks; rank++)); do
  SLURM_PROCID=$rank SLURM_LOCALID=$rank "$@" || status=$?
  if [ $status -ne 0 ] && grep -q kill-on-bad-exit=1 "$SRUN_OPTIONS"; then break; fi
done
exit $status
"""
_NVIDIA_SMI = "#!/bin/sh\nfor gpu in 0 1 2 3 4 5 6 7; do echo 40960; done\n"
_SCONTROL = "#!/bin/sh\necho node1\n"


def machine(name):
    if name not in _SEEN:
        _SEEN[name] = topology.look(Host(shared(name)), ask_nvml=False)
    return _SEEN[name]


def scripts(name, desired=DESIRED, known=None):
    """Name and text of each script for a captured machine."""
    seen = machine(name)
    found = render(seen, desired, known or {}, launch.gpus(seen))
    return {os.path.basename(one.path): one.text for one in found}


def run(text, folder, *arguments, **environment):
    """The script as the batch step of a job of one node runs it, in ``folder``."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    for name, content in (("srun", _SRUN), ("nvidia-smi", _NVIDIA_SMI), ("scontrol", _SCONTROL)):
        (programs / name).write_text(content)
        (programs / name).chmod(0o755)
    script = folder / "job.sh"
    script.write_text(text.replace("#!/bin/bash -l", "#!/bin/bash"))
    return subprocess.run(
        ["bash", str(script), *arguments],
        cwd=str(folder),
        env={
            "PATH": "{0}:{1}".format(programs, os.environ["PATH"]),
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_NUM_NODES": "1",
            "SLURM_JOB_NODELIST": "node1",
            "SRUN_OPTIONS": str(folder / "srun_options"),
            **environment,
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
