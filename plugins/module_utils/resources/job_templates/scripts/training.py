# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Training jobs: PyTorch and DeepSpeed by torchrun, Horovod by srun or mpirun; in a container, or with what is
installed on the nodes. And TensorBoard to watch them."""

from __future__ import annotations

from typing import List, Tuple

from .. import launch
from .shell import MODULE, SHARED, Header, Made, command, container, exports, script, submits

NAMES = ("pytorch.slurm.sh", "horovod.slurm.sh", "horovod.mpirun.sh", "deepspeed.slurm.sh")
BOARD = "tensorboard.slurm.sh"

_USAGE = """\
if [ $# -eq 0 ]; then
  echo "usage: sbatch {path} {arguments}" >&2
  exit 2
fi
"""
_IMAGE = """\
# CONTAINER_IMAGE= (empty) takes the Python of the nodes.
image=${{CONTAINER_IMAGE-{image}}}
"""
_NO_CONTAINER = """\
if [ -z "$image" ]; then
  container=()
fi
"""
# Outside of a container. The link of an environment may be switched while the job runs.
_ENVIRONMENT = """\
# The login shell has set PATH anew: the environment that was active at sbatch comes first again, then PYTHON_ENV.
for environment in "${{CONDA_PREFIX:-}}" "${{VIRTUAL_ENV:-}}" "${{PYTHON_ENV-{environment}}}"; do
  if [ -n "$environment" ]; then
    PATH=$(readlink -m "$environment")/bin:$PATH
  fi
done
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
  # In mpirun within a job each rank has the number of mpirun's own step from Slurm.
  if [ "${{OMPI_COMM_WORLD_RANK:-${{PMI_RANK:-$SLURM_PROCID}}}}" = 0 ]; then
    echo "python3 has no Horovod here: submit it from an environment that has it, or with {otherwise}" >&2
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
_HOROVOD_READ = (
    "the program's own output. hvd.local_rank() is the device.",
    "HOROVOD_TIMELINE=$PWD/timeline.json sbatch ... writes a trace; HOROVOD_TIMELINE_MARK_CYCLES=1 marks its cycles.",
)


# Launchers bind nothing here: the wrapper binds each rank by its local number. What a user has set reaches every rank:
# Open MPI passes names, Hydra (MPICH, MVAPICH, Intel MPI) names and values.
_MPIRUN = """\
names=(PATH)
for name in "${{!NCCL_@}}" "${{!UCX_@}}" "${{!HOROVOD_@}}" {names} LD_LIBRARY_PATH VIRTUAL_ENV CONDA_PREFIX; do
  if [ -n "${{!name:-}}" ]; then
    names+=("$name")
  fi
done
export SLURM_WHOLE=1  # mpirun's own step gets all CPUs of each node
version=$(mpirun --version 2>&1 || true)
case $version in
  *"Open MPI"* | *OpenRTE*)
    launch=(--map-by ppr:{ranks}:node --bind-to none)
    for name in "${{names[@]}}"; do
      launch+=(-x "$name")
    done
    ;;
  *Intel* | *HYDRA*)
    launch=(-ppn {ranks})
    case $version in
      *Intel*) launch+=(-genv I_MPI_PIN 0) ;;
      *) launch+=(-bind-to none) ;;
    esac
    for name in "${{names[@]}}"; do
      launch+=(-genv "$name" "${{!name}}")
    done
    ;;
  *)
    echo "mpirun is neither Open MPI's nor Hydra's here: load an MPI (module load {module}), or use {srun}" >&2
    exit 1
    ;;
esac
"""
# The defaults of DeepSpeed's aio section (swap_tensor/constants.py), to be changed by what ds_nvme_tune measures.
_OFFLOAD = """\
# Where parameters and states of the optimizer go: the folder of this job on the scratch of each node, which the prolog
# makes and the epilog removes.
folder=${{JOB_SCRATCH:-{scratch}/jobs/$SLURM_JOB_ID}}
if ! [ -d "$folder" ]; then
  echo "$folder is not there: this node has no scratch, or no prolog that makes it (role slurm_hooks)" >&2
  exit 1
fi
# DS_CONFIG=FILE is your own configuration, to which the offload is added; a word DS_CONFIG among the arguments becomes
# the path of the result.
config=$PWD/deepspeed-$SLURM_JOB_ID.json
FOLDER=$folder python3 - "${{DS_CONFIG:-}}" >"$config" <<'END'
import json, os, sys

config = {{"train_micro_batch_size_per_gpu": 1, "bf16": {{"enabled": True}}}}
if sys.argv[1]:
    with open(sys.argv[1]) as stream:
        config = json.load(stream)
offload = {{"device": "nvme", "nvme_path": os.environ["FOLDER"] + "/ds", "pin_memory": True}}
zero = config.setdefault("zero_optimization", {{}})
zero.setdefault("stage", 3)
zero.setdefault("offload_optimizer", offload)
if zero["stage"] == 3:
    zero.setdefault("offload_param", offload)
aio = {{
    "block_size": 1048576,
    "queue_depth": 8,
    "single_submit": False,
    "overlap_events": True,
    "intra_op_parallelism": 1,
}}
config["aio"] = dict(aio, **config.get("aio", {{}}))
json.dump(config, sys.stdout, indent=2)
END
arguments=()
for word in "$@"; do
  if [ "$word" = DS_CONFIG ]; then
    word=$config
  fi
  arguments+=("$word")
done
"""
_BOARD = """\
if ! command -v tensorboard >/dev/null; then
  echo "tensorboard is not there: submit it from an environment that has it, or with PYTHON_ENV=FOLDER" >&2
  exit 1
fi
port=$(python3 -c 'import socket; one = socket.socket(); one.bind(("127.0.0.1", 0)); print(one.getsockname()[1])')
user=${USER:-$(id -un)}
echo "On your workstation run:"
echo "  ssh -N -L 6006:127.0.0.1:$port -J $user@${SLURM_SUBMIT_HOST:-LOGIN_NODE} $user@$(uname -n)"
echo "and open http://127.0.0.1:6006 there. End it with: scancel ${SLURM_JOB_ID:-JOB}"
exec tensorboard --logdir "$1" --host 127.0.0.1 --port "$port"
"""


def render(made: Made) -> List[Tuple[str, str]]:
    return [_pytorch(made), _horovod(made), _horovod_mpirun(made), _deepspeed(made)]


def _environment(made: Made) -> str:
    return _ENVIRONMENT.format(environment=made.desired.environment)


def _without_image(text: str) -> str:
    """Only without an image."""
    return 'if [ -z "$image" ]; then\n' + "".join("  {0}\n".format(line) for line in text.splitlines()) + "fi\n"


def _usage(made: Made, name: str, arguments: str = "train.py [ARGUMENT...]") -> str:
    return _USAGE.format(path=made.path(name), arguments=arguments)


def _image(made: Made, name: str, image: str) -> List[str]:
    return [
        _usage(made, name) + _IMAGE.format(image=image),
        container(made, ("$PWD:$PWD", "{0}:{0}:ro".format(made.desired.folder))),
        'container+=(--container-workdir="$PWD")\n' + _NO_CONTAINER + _without_image(_environment(made)),
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
    body = [*_image(made, name, made.desired.image), _RENDEZVOUS, exports(_variables(made)), _torchrun(made, '"$@"')]
    return script(made, name, header, 1, body)


def _variables(made: Made) -> List[Tuple[str, str]]:
    return [
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        # torchrun would set it to 1.
        ("OMP_NUM_THREADS", '"${{OMP_NUM_THREADS:-{0}}}"'.format(launch.threads(made.topology, made.ranks))),
        ("NCCL_DEBUG", '"${NCCL_DEBUG:-WARN}"'),
    ]


def _torchrun(made: Made, arguments: str) -> str:
    """One on each node, which starts a bound process for each GPU.

    Options with underscores, which every torchrun takes: those with hyphens are of PyTorch 2.0 and newer.
    """
    return command(
        [
            'srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --cpu-bind=none --kill-on-bad-exit=1',
            '"${container[@]}"',
            'torchrun --nnodes="$SLURM_JOB_NUM_NODES" --nproc_per_node={0}'.format(made.ranks),
            '--rdzv_id="$SLURM_JOB_ID" --rdzv_backend=c10d --rdzv_endpoint="$first:$port"',
            "--no_python {0} python3 {1}".format(made.wrapper, arguments),
        ]
    )


def _deepspeed(made: Made) -> Tuple[str, str]:
    name = NAMES[3]
    header = Header(
        title="DeepSpeed on all GPUs of some nodes, with parameters and states of the optimizer on the NVMe scratch of "
        "each node: a torchrun a node starts a process for each GPU, bound beside it. It needs a Python with DeepSpeed "
        "whose async_io is compatible (ds_report): the environment that is active when you submit it, or PYTHON_ENV. "
        + SHARED,
        submit=(
            *submits(made, name, "train.py --deepspeed_config DS_CONFIG"),
            "sbatch --export=ALL,DS_CONFIG=ds.json {0} train.py --deepspeed_config DS_CONFIG    # yours".format(
                made.path(name)
            ),
        ),
        expect=(
            "a model that does not fit into the memory of the GPUs, at the speed of the scratch: what each step reads "
            "and writes, over its GB/s ('gpunode health --level active' measures them).",
        ),
        read=(
            "the program's own output. The configuration that it got is deepspeed-JOB.json.",
            "'ds_nvme_tune --nvme_dir FOLDER' on a node tells better values of the section aio.",
        ),
    )
    variables = [
        *_variables(made),
        # On a network file system the ranks wait for each other's locks.
        ("TORCH_EXTENSIONS_DIR", '"${TORCH_EXTENSIONS_DIR:-$folder/torch_extensions}"'),
    ]
    body = [
        _usage(made, name) + "container=()\n" + _environment(made),
        _OFFLOAD.format(scratch=made.scratch),
        _RENDEZVOUS,
        exports(variables),
        _torchrun(made, '"${arguments[@]}"'),
    ]
    return script(made, name, header, 1, body)


def _horovod_mpirun(made: Made) -> Tuple[str, str]:
    name = NAMES[2]
    header = Header(
        title="Horovod on all GPUs of some nodes by mpirun, where Slurm's own MPI support does not fit the one that "
        "Horovod was built with. Flags are those of the mpirun that is found: Open MPI, MPICH, MVAPICH or Intel MPI. "
        + SHARED,
        submit=submits(made, name, "train.py --epochs 3"),
        expect=_EXPECT,
        read=_HOROVOD_READ,
    )
    words = [
        'mpirun -np "$((SLURM_JOB_NUM_NODES * {0}))" "${{launch[@]}}"'.format(made.ranks),
        '{0} bash -c "$start" horovod "$@"'.format(made.wrapper),
    ]
    variables = [*_variables(made), ("OMPI_MCA_coll_hcoll_enable", "0")]
    body = [
        _usage(made, name) + _environment(made),
        MODULE.format(module=made.desired.mpi_module),
        exports(variables),
        _MPIRUN.format(
            ranks=made.ranks,
            module=made.desired.mpi_module,
            srun=made.path(NAMES[1]),
            names=" ".join(one for one, dummy in variables if not one.startswith("NCCL_")),
        ),
        _HOROVOD_HERE.format(otherwise="PYTHON_ENV=FOLDER"),
        command(words),
    ]
    return script(made, name, header, made.ranks, body)


def board(made: Made) -> Tuple[str, str]:
    header = Header(
        title="TensorBoard on a node, for logs of training in a folder. It listens on the node itself alone, where "
        "it asks nobody who he is: other users of that node can read along.",
        submit=("sbatch {0} FOLDER".format(made.path(BOARD)),),
        expect=("the line for ssh in the output of the job, within seconds.",),
        read=("the pages in a browser on your workstation, through ssh.",),
    )
    body = [_usage(made, BOARD, "FOLDER") + _environment(made), _BOARD]
    return script(made, BOARD, header, 1, body, small=True)


def _horovod(made: Made) -> Tuple[str, str]:
    name = NAMES[1]
    header = Header(
        title="Horovod on all GPUs of some nodes: Slurm starts a process for each GPU, bound beside it. It needs a "
        "Python with Horovod: the environment that is active when you submit it, or an image. " + SHARED,
        submit=submits(made, name, "train.py --epochs 3"),
        expect=_EXPECT,
        read=_HOROVOD_READ,
    )
    environment = [*_variables(made), ("OMPI_MCA_coll_hcoll_enable", "0")]
    words = [
        'srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks-per-node={0} --mpi={1} --kill-on-bad-exit=1'.format(
            made.ranks, made.desired.slurm_mpi
        ),
        *launch.srun(made.topology, made.ranks).words,
        '"${container[@]}" bash -c "$start" horovod "$@"',
    ]
    here = _HOROVOD_HERE.format(otherwise="PYTHON_ENV=FOLDER or CONTAINER_IMAGE=IMAGE")
    body = [*_image(made, name, made.desired.horovod_image), exports(environment), here, command(words)]
    return script(made, name, header, made.ranks, body)
