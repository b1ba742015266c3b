# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MPI without GPUs: who runs where, what carries the messages, and how long a message takes."""

from __future__ import annotations

from typing import List, Tuple

from ....core.managed_files import MARKER
from .. import launch
from .shell import HOSTFILE_OR_HERE, MODULE, PASSED, Header, Made, command, exports, mpirun_nodes, script, submits

JOB = "mpi-check.sh"
RANK = "mpi_check.sh"
NAMES = (JOB, RANK)

_NO_MPI = """\
if ! command -v mpirun >/dev/null; then
  echo "mpirun is not there: load or install an MPI (module load {module})" >&2
  exit 1
fi
"""
_LATENCY = """\
# A message between two nodes, or between two ranks of one: osu_latency of HPC-X, where it is.
latency=$(command -v osu_latency || true)
if [ -z "$latency" ] && [ -x "${{HPCX_OSU_DIR:-/nowhere}}/osu_latency" ]; then
  latency=$HPCX_OSU_DIR/osu_latency
fi
if [ $# -gt 0 ]; then
  :  # the program was the test
elif [ -z "$latency" ]; then
  echo "osu_latency is not there, so no latency was measured"
else
  place=(--map-by ppr:1:node)
  if [ "$nodes" -eq 1 ]; then
    place=(--map-by ppr:2:node)
  fi
  mpirun -np 2 "${{where[@]}}" "${{place[@]}}" "${{passed[@]}}" {rank} "$latency"
fi
"""

_CHECK = """\
#!/bin/sh
{marker} Changes will be lost.
# What a rank of an MPI job is: mpirun ... mpi_check.sh [PROGRAM [ARGUMENT...]]
# Prints a line for the rank and some for its node, then runs the program and tells what the RDMA ports sent meanwhile.
rank=${{OMPI_COMM_WORLD_RANK:-${{PMIX_RANK:-${{PMI_RANK:-${{SLURM_PROCID:-0}}}}}}}}
size=${{OMPI_COMM_WORLD_SIZE:-${{PMI_SIZE:-${{SLURM_NTASKS:-1}}}}}}
local_rank=${{OMPI_COMM_WORLD_LOCAL_RANK:-${{MPI_LOCALRANKID:-${{SLURM_LOCALID:-0}}}}}}
node=$(uname -n)

# A line for each active port: device, state, rate, link layer.
ports() {{
  for port in /sys/class/infiniband/*/ports/*; do
    [ -r "$port/state" ] || continue
    device=${{port#/sys/class/infiniband/}}
    echo "${{device%%/*}} $(cat "$port/state") $(cat "$port/rate") $(cat "$port/link_layer")"
  done
}}

# What each port has sent: a card counts words of four bytes, soft RoCE counts packets.
sent() {{
  for port in /sys/class/infiniband/*/ports/*; do
    device=${{port#/sys/class/infiniband/}}
    if [ -r "$port/counters/port_xmit_data" ]; then
      echo "${{device%%/*}} $(cat "$port/counters/port_xmit_data") 4 bytes"
    elif [ -r "$port/hw_counters/sent_pkts" ]; then
      echo "${{device%%/*}} $(cat "$port/hw_counters/sent_pkts") 1 packets"
    fi
  done
}}

echo "rank $rank of $size: node $node, local rank $local_rank," \\
  "CPUs $(awk '/^Cpus_allowed_list/ {{ print $2 }}' /proc/self/status)," \\
  "memory of NUMA node(s) $(awk '/^Mems_allowed_list/ {{ print $2 }}' /proc/self/status)"
if [ "$local_rank" = 0 ]; then
  ports | sed "s/^/node $node: RDMA port /"
  [ -n "$(ports)" ] || echo "node $node: no RDMA device"
  if command -v ucx_info >/dev/null 2>&1; then
    ucx_info -d 2>/dev/null |
      awk -v node="$node" '/Transport:/ && !seen[$3]++ {{ print "node " node ": UCX can use " $3 }}'
  fi
fi
[ $# -gt 0 ] || exit 0

before=$(sent)
status=0
"$@" || status=$?
if [ "$local_rank" = 0 ]; then
  {{
    echo "$before"
    echo --
    sent
  }} | awk -v node="$node" '
    $0 == "--" {{ later = 1; next }}
    NF < 4 {{ next }}
    !later {{ first[$1] = $2; next }}
    {{ printf "node %s: %s sent %.0f %s\\n", node, $1, ($2 - first[$1]) * $3, $4 }}'
fi
exit $status
"""


def launched(made: Made) -> launch.Launch:
    return launch.mpirun(made.topology, made.ranks, "none", "core", made.wrapper)


def render(made: Made) -> List[Tuple[str, str]]:
    start = launched(made)
    header = Header(
        title="MPI on some nodes, without GPUs: each rank tells where it runs, each node which RDMA ports it "
        "has and what they sent. The first thing to run on a new cluster.",
        submit=(
            *submits(made, JOB),
            "sbatch {0} ./program ARGUMENT    # a program of yours in the same places".format(made.path(JOB)),
            "{0} [--hostfile FILE] [PROGRAM...]    # without Slurm; one node without a file".format(made.path(JOB)),
        ),
        expect=(
            "every rank with CPUs of its own. Latency below 2 us between two nodes over InfiniBand (Azure's "
            "ndv4_a100_healthchecks), tens of us over TCP.",
        ),
        read=(
            "'sent' counts what went over a port while a program ran: 0 means that MPI used another transport.",
            "Open MPI and UCX name what they select in lines with 'select:' and 'ucp_context' or 'cfg#'.",
        ),
    )
    words = [
        'mpirun -np "$((nodes * {0}))" "${{where[@]}}"'.format(made.ranks),
        " ".join(start.words),
        '"${passed[@]}"',
        ("{0} ".format(made.wrapper) if start.wrapped else "") + '{0} "$@"'.format(made.path(RANK)),
    ]
    environment = (
        ("OMPI_MCA_pml_base_verbose", '"${OMPI_MCA_pml_base_verbose:-10}"'),
        ("UCX_LOG_LEVEL", '"${UCX_LOG_LEVEL:-info}"'),
    )
    body = [
        mpirun_nodes(made, HOSTFILE_OR_HERE),
        MODULE.format(module=made.desired.mpi_module),
        _NO_MPI.format(module=made.desired.mpi_module),
        exports(environment),
        PASSED,
        command(words),
        _LATENCY.format(rank=made.path(RANK)),
    ]
    return [script(made, JOB, header, made.ranks, body), (RANK, _CHECK.format(marker=MARKER))]
