# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's HPL in a container, on all GPUs of some nodes."""

from __future__ import annotations

from typing import List, Tuple

from .. import figures, launch
from .shell import SHARED, Header, Made, command, container, script, submits

NAME = "hpl.pyxis.sh"

# NVIDIA's sample for 8 A100 of 80 GB has N 264192 and NB 1024: a matrix of 81 % of the memory.
_INPUT = """\
# Ranks as square as they come, and a matrix of 80 % of the memory of all GPUs.
ranks=$((SLURM_JOB_NUM_NODES * {ranks}))
q=1
for ((number = 1; number * number <= ranks; number++)); do
  if ((ranks % number == 0)); then
    q=$number
  fi
done
p=$((ranks / q))
memory_mib=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits | sort -n | sed -n 1p)
size=${{HPL_N:-$(awk -v mib="$memory_mib" -v ranks="$ranks" \\
  'BEGIN {{ printf "%d", int(sqrt(ranks * mib * 1048576 * 0.8 / 8) / 1024) * 1024 }}')}}
input=$PWD/HPL-$SLURM_JOB_ID.dat
cat >"$input" <<END
HPLinpack benchmark input file
{head}
HPL.out      output file name (if any)
6            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
$size        Ns
1            # of NBs
1024         NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
$p           Ps
$q           Qs
16.0         threshold
1            # of panel fact
0            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
2            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
0            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
3            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
1            SWAP (0=bin-exch,1=long,2=mix)
192          swapping threshold
1            L1 in (0=transposed,1=no-transposed) form
0            U in (0=transposed,1=no-transposed) form
0            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
END
"""

# pyxis keeps a variable of the image where both have it, so the number comes as an argument.
_START = """\
# What each rank does in the container. hpl.sh of 20.10 to 21.4 demands the number of threads as a flag; that of later
# images refuses this flag and takes the variable.
start=$(
  cat <<'END'
export OMP_NUM_THREADS=$1
script=$(command -v "$2" || command -v hpl.sh || echo "$2")
shift 2
if grep -qe --cpu-cores-per-rank "$script"; then
  set -- --cpu-cores-per-rank "$OMP_NUM_THREADS" "$@"
fi
exec "$script" "$@"
END
)
"""


def render(made: Made) -> List[Tuple[str, str]]:
    if not made.desired.hpl_image:
        return []
    header = Header(
        title="HPL (FP64) on all GPUs of some nodes, in NVIDIA's container. " + SHARED,
        submit=(
            *submits(made, NAME),
            "Before a big job on each node of it alone, to find the slow one.",
        ),
        expect=figures.hpl(made.profile),
        read=(
            "Gflops of the line that begins with WR; the line under it must say PASSED.",
            "HPL_N=number sbatch ... runs a smaller or larger matrix, HPL_THREADS=number with other threads of a rank.",
        ),
    )
    start = launch.hpl(made.topology, made.ranks)
    words = [
        'srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks-per-node={0} --mpi={1} --cpu-bind=none'.format(
            made.ranks, made.desired.slurm_mpi
        ),
        '"${container[@]}"',
        'bash -c "$start" hpl "${{HPL_THREADS:-{0}}}" "${{HPL_SCRIPT:-/workspace/hpl.sh}}" --dat "$input"'.format(
            dict(start.environment)["OMP_NUM_THREADS"]
        ),
        *start.words,
    ]
    body = [
        "image=${{CONTAINER_IMAGE:-{0}}}".format(made.desired.hpl_image),
        container(made, ("$PWD:$PWD",)),
        _INPUT.format(ranks=made.ranks, head="made by trainyard.gpu_node"),
        "export CUDA_DEVICE_ORDER=PCI_BUS_ID\n",
        _START,
        command(words),
    ]
    return [script(made, NAME, header, made.ranks, body)]
