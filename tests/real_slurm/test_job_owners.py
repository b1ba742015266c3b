# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_node_job_info: slurmd of both ages gives prolog and epilog the names, and the file has the jobs that run."""

from __future__ import annotations

import re

import slurm_root

GPUS = "for n in 0 1 2 3; do mknod -m 666 /dev/nvidia$n c 195 $n; done"
GRES = {"/etc/slurm/gres.conf": "Name=gpu File=/dev/nvidia[0-3]\nName=shard Count=16\n"}
GRES[slurm_root.CONTROLLER + "/gres.conf"] = GRES["/etc/slurm/gres.conf"]
NODE = "NodeName=gpu01 NodeAddr={0} CPUs=1 RealMemory=500 Gres=gpu:4,shard:16".format(slurm_root.ADDRESS)
# Jobs share the CPU, as this machine may have one only.
CONF = "GresTypes=gpu,shard\nPartitionName=shared Nodes=ALL OverSubscribe=FORCE:8\n"
PROM = "/var/lib/prometheus/node-exporter/gpu_node_jobs.prom"
SAMPLE = re.compile(r'^gpu_node_job_info{hpc_job="(.*?)",user="(.*?)",account="(.*?)",job_partition="(.*?)"} 1$', re.M)
WAITS = "while [ -e /tmp/wait ]; do sleep 0.2; done"


def test_the_owners_of_running_jobs_are_in_the_file(node):
    node.run(GPUS + "; mkdir -p /var/lib/prometheus/node-exporter; touch /tmp/wait; useradd -m -u 2001 other")
    node.declare("gpu_metrics", source="dcgm", owners_textfile=PROM)
    node.start(NODE, CONF, files=GRES, size="")

    def owners():
        text = node.run("cat {0} 2>/dev/null".format(PROM), check=False).stdout
        return set(SAMPLE.findall(text))

    options = "--partition=shared --gres=gpu:1 --mem=10"
    first = node.sbatch(WAITS, options + " --account=physics")
    node.sbatch(WAITS, options + ' --array=3-4 --account="ml team"')
    share = "sbatch --parsable --partition=shared --mem=10 --gres=shard:1 -o /dev/null --wrap '{0}'".format(WAITS)
    shares = [node.run(share, user=user).stdout.strip() for user in ("trainee", "other")]
    without = node.sbatch(WAITS, "--partition=shared --mem=10")
    node.wait("all jobs", lambda: node.run("squeue -h -t R | wc -l").stdout.strip() == "6")
    node.wait("all owners", lambda: len(owners()) == 5)
    # squeue's %A is the number of the job, of each task of an array its own; a name with a space is left out.
    told = re.sub("ml team|\\(null\\)", "", node.run("squeue -h -t R -o '%A|%u|%a|%P'").stdout).split()
    expected = {tuple(line.split("|")) for line in told if line.split("|")[0] != without}
    assert owners() == expected and (first, "trainee", "physics", "shared") in expected
    mapped = node.run("cd /run/gpu_node/gpu_jobs; for one in *; do echo $(cat $one); done").stdout.splitlines()
    assert sorted(" ".join(mapped).split()) == sorted(one[0] for one in expected)
    # Two users are on the GPU that is left; either prolog may be the first.
    assert sorted(shares) in [sorted(line.split()) for line in mapped]
    node.run("scancel " + first)
    node.wait("end of one job", lambda: len(owners()) == 4)
    node.run("rm /tmp/wait")
    node.wait("end of all jobs", lambda: owners() == set())
    assert node.run("grep -c . " + PROM).stdout == "1\n" and "DRAIN" not in node.state()
