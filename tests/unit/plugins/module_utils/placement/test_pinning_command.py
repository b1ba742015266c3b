# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode pin`` as a person and as a script have it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main as cli
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement.render import LAUNCHERS
from ansible_collections.trainyard.gpu_node.tests.unit import forked
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import names

RUN = """
import sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.command.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def gpunode(monkeypatch, capsys, tree_root):
    def run(name, *arguments):
        monkeypatch.setattr(cli, "Host", lambda: Host(tree_root(name)))
        status = cli.main(["pin", *arguments])
        told = capsys.readouterr()
        return status, told.out, told.err

    return run


def here(*arguments, **environment):
    """On the machine of this test, in a process of its own."""
    path = os.pathsep.join(path for path in sys.path if path)
    return forked.run(
        [sys.executable, "-c", RUN, "pin", *arguments],
        env=dict(os.environ, PYTHONPATH=path, **environment),
        capture_output=True,
        text=True,
    )


def test_the_table_and_the_line(gpunode):
    status, out, err = gpunode("ndv4", "--ranks", "8", "--launcher", "openmpi")
    lines = out.splitlines()
    assert (status, err) == (0, "")
    assert lines[0] == "RANK  CPUS   CORES  THREADS  NUMA  L3     GPU  INFINIBAND"
    assert lines[1] == "0     0-11   12     12       0     0-2    2    mlx5_ib2"
    assert lines[10] == ("CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=2,3,0,1,6,7,4,5 mpirun -np 8 \\")


@pytest.mark.parametrize(
    "name, launcher", [(name, "srun") for name in names()] + [("ndv4", launcher) for launcher in LAUNCHERS[1:]]
)
def test_eighty_columns_are_enough_for_all_but_long_words_and_files(gpunode, name, launcher):
    dummy, out, err = gpunode(name, "--ranks", "1" if name in ("laptop", "cxl") else "2", "--launcher", launcher)
    assert out and not err
    for line in out.partition("\n# pin.")[0].splitlines():
        longest = max((len(word) for word in line.split()), default=0)
        assert len(line) <= 80 or longest > 60, line


def test_json_has_everything(gpunode):
    status, out, dummy = gpunode("ndv4", "--ranks", "8", "--launcher", "hpl", "--json")
    content = json.loads(out)
    assert status == 0 and len(content["ranks"]) == 8
    assert content["ranks"][0]["cpu_list"] == "24-35" and content["ranks"][0]["gpu"]["index"] == 0
    assert content["launcher"]["command"].startswith("OMP_NUM_THREADS=8 hpl.sh --cpu-affinity 24-35:36-47:")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--ranks", "97"], "97 ranks with a GPU each: this node has 8 GPU(s) to give; ask for 8 rank(s)."),
        (["--ranks", "97", "--gpus", "none"], "97 ranks: there are 96 core(s) to use, "),
        (["--ranks", "8", "--threads", "13"], "ask for 12 thread(s) a rank, or for 7 rank(s) of 13 thread(s), "),
        (
            ["--ranks", "1", "--threads", "97"],
            "ask for 96 thread(s) a rank, or let ranks share cores (gpunode pin --share-cores).",
        ),
        (["--ranks", "2", "--cpus", "500"], "this node: no CPU that is online may be used here; "),
    ],
)
def test_what_this_node_cannot_do_is_one_clear_sentence(gpunode, arguments, words):
    status, out, err = gpunode("ndv4", *arguments)
    assert (status, out) == (1, "")
    assert err.startswith("gpunode: ") and words in err and err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--ranks", "8", "--launcher", "mpiexec"], "launcher mpiexec: it is not known here; use one of srun, "),
        (["--ranks", "0"], "0 ranks: a placement needs one at least; ask for 1 to 8."),
        (["--ranks", "2", "--gpus", "0,8"], "GPU 8: this node has no GPU of that number that answers; "),
        ([], "pin: the number of ranks is missing; give it with --ranks N."),
        (["--ranks", "2", "--gpus", "a,b"], "--gpus a,b: it is not understood; use each, none, "),
        (["--ranks", "2", "--cpus", "3-1"], "--cpus 3-1: it is no list of CPUs; "),
        (["--ranks", "2", "--write", "/tmp"], "/tmp: it is a folder; "),
        (["--ranks", "2", "--write", "/tmp/x/y/pin"], "/tmp/x/y/pin: there is no folder /tmp/x/y; make it first, or "),
        (["--ranks", "2", "--launcher", "torchrun", "--write", "/tmp/a b"], "a word of MPI_ARGS cannot hold a space; "),
    ],
)
def test_bad_input_is_one_clear_sentence(gpunode, arguments, words):
    status, out, err = gpunode("ndv4", *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("gpunode: ") and words in err and err.count("\n") == 1


def test_cpus_narrow_the_placement(gpunode):
    dummy, out, dummy2 = gpunode("ndv4", "--ranks", "1", "--cpus", "24-27,60", "--json")
    assert json.loads(out)["ranks"][0]["cpu_list"] == "24-27"


def test_a_script_can_source_what_is_written(gpunode, tmp_path):
    path = tmp_path / "job.pin"
    for launcher, words in (
        ("openmpi", "mpirun 8 --map-by ppr:2:numa:pe=12 --bind-to core -x CUDA_DEVICE_ORDER -x CUDA_VISIBLE_DEVICES"),
        ("srun", "srun 8 --cpu-bind=mask_cpu:fff000000,fff000000000,fff,fff000,"),
        ("lsf", "bsub 8 -R span[ptile=8] -R affinity[core(12,same=numa):cpubind=core:membind=localonly:"),
        ("numactl", "8 {0}.sh".format(path)),
    ):
        status, out, err = gpunode("ndv4", "--ranks", "8", "--launcher", launcher, "--write", str(path))
        assert status == 0 and str(path) in out, err
        script = '. "$1"; set -f; echo ${MPI_LAUNCHER-} $MPI_NP $MPI_ARGS'
        done = subprocess.run(["sh", "-euc", script, "sh", str(path)], capture_output=True, text=True, check=False)
        assert done.stdout.startswith(words), done.stderr
    assert os.access(str(path) + ".sh", os.X_OK)


def test_a_script_in_the_folder_of_the_call_has_a_slash(gpunode, tmp_path, monkeypatch):
    """MPICH looks for a word without one in PATH, and does not find it."""
    monkeypatch.chdir(tmp_path)
    assert gpunode("ndv4", "--ranks", "8", "--launcher", "numactl", "--write", "job.pin")[0] == 0
    assert "MPI_ARGS=./job.pin.sh\n" in (tmp_path / "job.pin").read_text()


@pytest.mark.skipif(shutil.which("taskset") is None, reason="needs taskset (util-linux)")
def test_the_script_of_the_launchers_binds_real_processes(tmp_path):
    """On this machine, whatever it is: each rank reads its own affinity, and it is the placement."""
    ranks = len(os.sched_getaffinity(0)) > 1 and 2 or 1
    path = tmp_path / "job.pin"
    told = here("--ranks", str(ranks), "--gpus", "none", "--launcher", "numactl", "--write", str(path), "--json")
    if "ask for 1 rank" in told.stderr:  # two threads of one core
        ranks = 1
        told = here("--ranks", "1", "--gpus", "none", "--launcher", "numactl", "--write", str(path), "--json")
    wanted = [one["cpus"] for one in json.loads(told.stdout)["ranks"]]
    code = "import os; print(sorted(os.sched_getaffinity(0)))"
    for rank in range(ranks):
        for name in ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"):
            done = subprocess.run(
                [str(path) + ".sh", sys.executable, "-c", code],
                env=dict(os.environ, **{name: str(rank)}),
                capture_output=True,
                text=True,
                check=False,
            )
            assert json.loads(done.stdout) == wanted[rank], done.stderr
    # mpirun in a job of Slurm: all ranks have the number of the step that started it.
    both = dict(os.environ, SLURM_LOCALID="0", OMPI_COMM_WORLD_LOCAL_RANK=str(ranks - 1))
    done = subprocess.run(
        [str(path) + ".sh", sys.executable, "-c", code], env=both, capture_output=True, text=True, check=False
    )
    assert json.loads(done.stdout) == wanted[ranks - 1], done.stderr
    done = subprocess.run(
        [str(path) + ".sh", "true"], env=dict(os.environ, LOCAL_RANK="7"), stderr=subprocess.PIPE, check=False
    )
    assert done.returncode == 1 and b"no place for local rank '7'" in done.stderr


def test_the_script_says_memory_and_gpu_to_numactl(gpunode, tmp_path):
    """The machine is a captured one, so a stand-in tells what numactl would be given."""
    path = tmp_path / "job.pin"
    assert gpunode("ndv4", "--ranks", "8", "--launcher", "numactl", "--write", str(path))[0] == 0
    stand_in = tmp_path / "bin" / "numactl"
    stand_in.parent.mkdir()
    stand_in.write_text('#!/bin/sh\necho $CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES "$@"\n')
    stand_in.chmod(0o755)
    done = subprocess.run(
        [str(path) + ".sh", "train", "two words"],
        env=dict(os.environ, LOCAL_RANK="4", PATH="{0}:{1}".format(stand_in.parent, os.environ["PATH"])),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "PCI_BUS_ID 4 --physcpubind=72-83 --membind=3 train two words\n", done.stderr


def test_a_shell_that_may_use_one_cpu_gets_that_one():
    one = sorted(os.sched_getaffinity(0))[-1]
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {one})
        done = here("--ranks", "1", "--gpus", "none", "--json")
    finally:
        os.sched_setaffinity(0, before)
    assert json.loads(done.stdout)["ranks"][0]["cpus"] == [one], done.stderr
    assert json.loads(done.stdout)["limited"] == (len(before) > 1)


def test_help_has_examples_and_fits():
    done = here("--help", COLUMNS="80")
    assert done.returncode == 0 and "gpunode pin --ranks 8 --launcher openmpi --write job.pin" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert "--job ID" in here("check", "--help").stdout


def test_placing_the_largest_node_takes_no_second(gpunode):
    began = time.process_time()
    assert gpunode("hb176", "--ranks", "176")[0] == 0
    assert time.process_time() - began < 1
