# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Training jobs: PyTorch by torchrun, Horovod by srun; in a container, or with what is installed on the nodes."""

from __future__ import annotations

from typing import List, Tuple

from .. import launch
from .shell import SHARED, Header, Made, command, container, exports, script, submits

NAMES = ("pytorch.slurm.sh", "horovod.slurm.sh")

_USAGE = """\
if [ $# -eq 0 ]; then
  echo "usage: sbatch {path} train.py [ARGUMENT...]" >&2
  exit 2
fi
# CONTAINER_IMAGE= (empty) takes the Python of the nodes.
image=${{CONTAINER_IMAGE-{image}}}
"""
_NO_CONTAINER = """\
if [ -z "$image" ]; then
  container=()
  # The login shell has set PATH anew: the environment that was active at sbatch comes first again.
  for environment in "${CONDA_PREFIX:-}" "${VIRTUAL_ENV:-}"; do
    if [ -n "$environment" ]; then
      PATH=$environment/bin:$PATH
    fi
  done
fi
"""
_RENDEZVOUS = """\
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
# Another port for each job, in case two share a node.
port=$((20000 + SLURM_JOB_ID % 10000))
"""
# Each rank looks, as none but srun knows what is in the container; rank 0 says it, and its end ends the others.
_HOROVOD_HERE = """\
start=$(
  cat <<'END'
if ! python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("horovod") is None)'; then
  if [ "$SLURM_PROCID" = 0 ]; then
    echo "python3 has no Horovod here: submit it from an environment that has it, or with CONTAINER_IMAGE=IMAGE" >&2
  else
    sleep 10
  fi
  exit 1
fi
exec python3 "$@"
END
)
"""
_EXPECT = (
    "twice the samples a second on twice the nodes, less a few percent.",
    "Where more is lost, nccl-all-reduce on the same nodes tells whether it is the network.",
)


def render(made: Made) -> List[Tuple[str, str]]:
    return [_pytorch(made), _horovod(made)]


def _image(made: Made, name: str, image: str) -> List[str]:
    return [
        _USAGE.format(path=made.path(name), image=image),
        container(made, ("$PWD:$PWD", "{0}:{0}:ro".format(made.desired.folder))),
        'container+=(--container-workdir="$PWD")\n' + _NO_CONTAINER,
    ]


def _pytorch(made: Made) -> Tuple[str, str]:
    name = NAMES[0]
    header = Header(
        title="PyTorch on all GPUs of some nodes: a torchrun a node starts a process for each GPU, bound beside it. "
        + SHARED,
        submit=submits(made, name, "train.py --epochs 3"),
        expect=_EXPECT,
        read=("the program's own output. LOCAL_RANK is the device, as in torch.cuda.set_device.",),
    )
    environment = (
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        # torchrun would set it to 1.
        ("OMP_NUM_THREADS", '"${{OMP_NUM_THREADS:-{0}}}"'.format(launch.threads(made.topology, made.ranks))),
        ("NCCL_DEBUG", '"${NCCL_DEBUG:-WARN}"'),
    )
    words = [
        'srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --cpu-bind=none --kill-on-bad-exit=1',
        '"${container[@]}"',
        'torchrun --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node={0}'.format(made.ranks),
        '--rdzv-id="$SLURM_JOB_ID" --rdzv-backend=c10d --rdzv-endpoint="$first:$port"',
        '--no-python {0} python3 "$@"'.format(made.wrapper),
    ]
    return script(
        made,
        name,
        header,
        1,
        [*_image(made, name, made.desired.image), _RENDEZVOUS, exports(environment), command(words)],
    )


def _horovod(made: Made) -> Tuple[str, str]:
    name = NAMES[1]
    header = Header(
        title="Horovod on all GPUs of some nodes: Slurm starts a process for each GPU, bound beside it. It needs a "
        "Python with Horovod: the environment that is active when you submit it, or an image. " + SHARED,
        submit=submits(made, name, "train.py --epochs 3"),
        expect=_EXPECT,
        read=(
            "the program's own output. hvd.local_rank() is the device.",
            "HOROVOD_TIMELINE=$PWD/timeline.json sbatch ... writes a trace for chrome://tracing.",
        ),
    )
    environment = (
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        ("OMPI_MCA_coll_hcoll_enable", "0"),
        ("OMP_NUM_THREADS", '"${{OMP_NUM_THREADS:-{0}}}"'.format(launch.threads(made.topology, made.ranks))),
        ("NCCL_DEBUG", '"${NCCL_DEBUG:-WARN}"'),
    )
    words = [
        'srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks-per-node={0} --mpi={1} --kill-on-bad-exit=1'.format(
            made.ranks, made.desired.slurm_mpi
        ),
        *launch.srun(made.topology, made.ranks).words,
        '"${container[@]}" bash -c "$start" horovod "$@"',
    ]
    body = [*_image(made, name, made.desired.horovod_image), exports(environment), _HOROVOD_HERE, command(words)]
    return script(made, name, header, made.ranks, body)
