# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's all-reduce and all-to-all, 8 bytes to 8 gigabytes, each started in three ways."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from .. import figures, launch
from .shell import (
    HOSTFILE_NEEDED,
    MODULE,
    PASSED,
    Header,
    Made,
    command,
    container,
    exports,
    mpirun_nodes,
    script,
    submits,
)

_TESTS = (("nccl-all-reduce", "all-reduce", "all_reduce_perf"), ("nccl-all-to-all", "all-to-all", "alltoall_perf"))
_WAYS = ("pyxis", "slurm", "mpirun")
NAMES = tuple("{0}.{1}.sh".format(test[0], way) for test in _TESTS for way in _WAYS)

# 8 B to 8 GB by factors of 2, as Azure's acceptance tests have it; one GPU a rank, results checked.
_ARGUMENTS = "-b 8 -e 8G -f 2 -g 1 -c 1"
_HOW = {
    "pyxis": "Slurm starts the ranks in a container (enroot, pyxis), whose own nccl-tests run",
    "slurm": "Slurm starts the ranks on the nodes themselves",
    "mpirun": "mpirun (HPC-X, Open MPI) starts the ranks, in a job of Slurm or over ssh with a host file",
}
# CUDA counts GPUs by speed unless told otherwise, and HCOLL must not be used beside NCCL.
_ENVIRONMENT = (("CUDA_DEVICE_ORDER", "PCI_BUS_ID"), ("OMPI_MCA_coll_hcoll_enable", "0"))
_BINARY = """\
program=${{NCCL_TESTS:-{folder}}}/{program}
if [ ! -x "$program" ]; then
  echo "$program is not there: build nccl-tests with MPI=1, or set NCCL_TESTS to their folder" >&2
  exit 1
fi
"""


def render(made: Made) -> List[Tuple[str, str]]:
    ways = [way for way in _WAYS if way != "pyxis" or made.desired.image]
    return [_script(made, *test, way) for test in _TESTS for way in ways]


def _script(made: Made, base: str, title: str, program: str, way: str) -> Tuple[str, str]:
    name = "{0}.{1}.sh".format(base, way)
    expect = (
        figures.all_reduce(made.profile, made.topology)
        if program == "all_reduce_perf"
        else figures.all_to_all(made.profile, made.topology, made.ranks)
    )
    submit: Sequence[str] = submits(made, name)
    if way == "mpirun":
        submit = (*submit, "{0} HOSTFILE    # without Slurm; begin with two nodes".format(made.path(name)))
    header = Header(
        title="NCCL {0} between all GPUs of some nodes. {1}.".format(title, _HOW[way]),
        submit=submit,
        expect=expect,
        read=(
            "column busbw (GB/s) of the last line, 8 GB; it grows with the size and levels off.",
            "Column #wrong must be 0. 'Avg bus bandwidth' at the end is a mean over all sizes, and says little.",
        ),
    )
    return script(made, name, header, made.ranks, _BODIES[way](made, program))


def _pyxis(made: Made, program: str) -> List[str]:
    words = [
        'srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks-per-node={0} --mpi={1}'.format(
            made.ranks, made.desired.slurm_mpi
        ),
        *launch.srun(made.topology, made.ranks).words,
        '"${container[@]}"',
        '"${{NCCL_TEST:-{0}_mpi}}" {1}'.format(program, _ARGUMENTS),
    ]
    return [
        "image=${{CONTAINER_IMAGE:-{0}}}".format(made.desired.image),
        container(made),
        exports(_ENVIRONMENT),
        command(words),
    ]


def _slurm(made: Made, program: str) -> List[str]:
    words = [
        'srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks-per-node={0} --mpi={1}'.format(
            made.ranks, made.desired.slurm_mpi
        ),
        *launch.srun(made.topology, made.ranks).words,
        '"$program" ' + _ARGUMENTS,
    ]
    return [
        MODULE.format(module=made.desired.mpi_module),
        _BINARY.format(folder=made.desired.nccl_tests, program=program),
        exports(_ENVIRONMENT),
        command(words),
    ]


def _mpirun(made: Made, program: str) -> List[str]:
    start = launch.mpirun(made.topology, made.ranks, "each", "numa", made.wrapper)
    words = [
        'mpirun -np "$((nodes * {0}))" "${{where[@]}}"'.format(made.ranks),
        " ".join(start.words),
        '"${passed[@]}"',
        ("{0} ".format(made.wrapper) if start.wrapped else "") + '"$program" ' + _ARGUMENTS,
    ]
    environment = dict((*_ENVIRONMENT, *start.environment))
    return [
        mpirun_nodes(made, HOSTFILE_NEEDED),
        MODULE.format(module=made.desired.mpi_module),
        _BINARY.format(folder=made.desired.nccl_tests, program=program),
        exports(tuple(environment.items())),
        PASSED,
        command(words),
    ]


_BODIES = {"pyxis": _pyxis, "slurm": _slurm, "mpirun": _mpirun}
