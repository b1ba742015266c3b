# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A command whose checkpoints are copied into a store of blobs meanwhile."""

from __future__ import annotations

from typing import List, Tuple

from .shell import SHARED, Header, Made, command, script, submits

NAME = "checkpoint.slurm.sh"

_USAGE = """\
if [ $# -eq 0 ]; then
  echo "usage: sbatch {path} COMMAND [ARGUMENT...]" >&2
  exit 2
fi
if ! command -v gpunode >/dev/null; then
  echo "gpunode is not there: install it with the role node_runtime" >&2
  exit 1
fi
"""
_WHERE = """\
# A folder that all nodes see is copied by one of them; one that is named is of each node, as on its scratch.
where=(--nodes=1 --ntasks=1)
if [ -n "${CHECKPOINT_FOLDER:-}" ]; then
  where=(--nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1)
  export CHECKPOINT_PARTS=$SLURM_JOB_NUM_NODES
fi
export CHECKPOINT_FOLDER=${CHECKPOINT_FOLDER:-$PWD/checkpoints-$SLURM_JOB_ID}
end=$PWD/.checkpoint-end-$SLURM_JOB_ID
rm -f "$end"
trap 'rm -f "$end"' EXIT
"""
_COPIER = """\
copier=$(
  cat <<'END'
# Copies what is complete and not copied yet, until the command has ended. What fails is tried again.
shopt -s nullglob
mkdir -p "$CHECKPOINT_FOLDER"
part=()
if [ -n "${CHECKPOINT_PARTS:-}" ]; then
  part=(--part "$SLURM_PROCID/$CHECKPOINT_PARTS")
fi
while true; do
  last=0
  failed=0
  if [ -e "$1" ]; then
    last=1
  fi
  for marker in "$CHECKPOINT_FOLDER"/*/COMPLETE; do
    folder=${marker%/COMPLETE}
    if [ ! -e "$folder.copied" ]; then
      if gpunode checkpoint put "$SLURM_JOB_ID-${folder##*/}" "$folder" "${part[@]}"; then
        : >"$folder.copied"
      else
        failed=1
      fi
    fi
  done
  if [ $last -eq 1 ]; then
    exit $failed
  fi
  sleep "${CHECKPOINT_LOOK_SECONDS:-$((failed ? 60 : 10))}"
done
END
)
"""
_RUN = """\
copying=$!
status=0
"$@" || status=$?
: >"$end"
echo "the command ended with status $status; waiting for the last copies"
if ! wait "$copying"; then
  echo "not all checkpoints were copied; 'gpunode checkpoint put' goes on with them where they lie" >&2
  [ "$status" -ne 0 ] || status=1
fi
# No exit of a login shell: Debian's ~/.bash_logout fails where there is no console, and its status would be the job's.
(exit "$status")
"""


def render(made: Made) -> List[Tuple[str, str]]:
    header = Header(
        title="A command whose checkpoints are copied into the declared store (role checkpoint) while it runs. The job "
        "ends when the last one is there. " + SHARED,
        submit=(
            *submits(made, NAME, made.path("pytorch.slurm.sh") + " train.py"),
            "CHECKPOINT_FOLDER=/scratch/run1 sbatch ... where each node writes its own part on its scratch.",
            "sbatch --ntasks-per-node={0} ... for a command with a task for each rank, as horovod.slurm.sh".format(
                made.ranks
            ),
        ),
        expect=(
            "the time of a copy by 'gpunode checkpoint plan'. Give the job that much time at its end: what its limit "
            "cuts off is told in its output.",
        ),
        read=(
            "Write each checkpoint into a folder of its own below $CHECKPOINT_FOLDER, and an empty file COMPLETE into "
            "it when it is whole. In the store it has the number of the job before its name.",
            "'gpunode checkpoint list' shows what is whole there.",
        ),
    )
    # Beside the command, on the same CPUs and GPUs by name; gpunode chooses cores that no rank is bound to.
    words = ['srun --overlap "${where[@]}" --cpu-bind=none', 'bash -c "$copier" copier "$end" &']
    return [script(made, NAME, header, 1, [_USAGE.format(path=made.path(NAME)), _WHERE, _COPIER, command(words), _RUN])]
