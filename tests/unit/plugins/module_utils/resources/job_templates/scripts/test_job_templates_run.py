# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job scripts that are run: what they start gets what it takes, and says so."""

from __future__ import annotations

import dataclasses
import glob
import http.client
import json
import os
import re
import subprocess
import sys
import time

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.job_templates.rendered import (
    DESIRED,
    run,
    scripts,
)

HPL = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 5, "data", "hpl")


def executable(source, target):
    """The rules for a collection allow no program among its files: it is made one here. Returns its path."""
    with open(source, encoding="utf-8") as lines:
        target.write_text("#!/bin/bash\n" + lines.read())
    target.chmod(0o755)
    return str(target)


@pytest.mark.parametrize("name", ["hpl_current.bash", "hpl_20_10.bash"])
@pytest.mark.parametrize("threads", [None, "6"])
def test_hpl_starts_with_the_options_of_its_image(name, threads, tmp_path):
    program = executable(os.path.join(HPL, name), tmp_path / "hpl.sh")
    # Sites set OMP_NUM_THREADS for all logins, which sbatch hands on.
    environment = {"OMP_NUM_THREADS": "1"} if threads is None else {"HPL_THREADS": threads}
    done = run(scripts("ndv4")["hpl.pyxis.sh"], tmp_path, HPL_SCRIPT=program, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    shares = "24-35:36-47:0-11:12-23:72-83:84-95:48-59:60-71".split(":")
    assert done.stdout.splitlines() == [
        "local rank {0}: threads {1}, CPUs {2}".format(rank, threads or 8, cpus) for rank, cpus in enumerate(shares)
    ]


def test_hpl_is_found_in_the_search_path_of_its_image(tmp_path):
    (tmp_path / "programs").mkdir()
    executable(os.path.join(HPL, "hpl_20_10.bash"), tmp_path / "programs" / "hpl.sh")
    done = run(scripts("ndv4")["hpl.pyxis.sh"], tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("local rank 0: threads 8, CPUs 24-35\n"), done.stderr


def test_horovod_that_is_not_there_is_one_sentence(tmp_path):
    (tmp_path / "train.py").write_text("import horovod\nprint('trained', horovod.__file__)\n")
    done = run(scripts("ndv4")["horovod.slurm.sh"], tmp_path, "train.py")
    assert done.returncode == 1 and done.stdout == ""
    known = "python3 has no Horovod here: submit it from an environment that has it, or with {0}\n"
    assert done.stderr == known.format("PYTHON_ENV=FOLDER or CONTAINER_IMAGE=IMAGE")
    # mpirun is started outside of any container.
    pin = executable(os.devnull, tmp_path / "programs" / "pin.sh")
    with open(pin, "a", encoding="utf-8") as stream:
        stream.write('exec "$@"\n')
    mpirun = tmp_path / "programs" / "mpirun"
    mpirun.write_text(
        '#!/bin/sh\n[ "$1" != --version ] || exec echo mpirun "(Open MPI)" 4.1.4\n'
        'while [ "$1" != {0} ]; do shift; done\nOMPI_COMM_WORLD_RANK=0 exec "$@"\n'.format(pin)
    )
    mpirun.chmod(0o755)
    text = scripts("ndv4")["horovod.mpirun.sh"].replace("/shared/jobs/pin-gpu-ranks.sh", pin)
    done = run(text, tmp_path, "train.py")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", known.format("PYTHON_ENV=FOLDER"))


@pytest.mark.parametrize("variable", ["CONDA_PREFIX", "VIRTUAL_ENV"])
def test_horovod_runs_in_the_environment_that_was_active(variable, tmp_path):
    (tmp_path / "train.py").write_text("import horovod, sys\nprint('trained', *sys.argv[1:])\n")
    (tmp_path / "packages" / "horovod").mkdir(parents=True)
    (tmp_path / "packages" / "horovod" / "__init__.py").write_text("")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").write_text(
        '#!/bin/sh\nPYTHONPATH={0} exec {1} "$@"\n'.format(tmp_path / "packages", sys.executable)
    )
    (tmp_path / "bin" / "python3").chmod(0o755)
    done = run(scripts("ndv4")["horovod.slurm.sh"], tmp_path, "train.py", "--epochs", "3", **{variable: str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["trained --epochs 3"] * 8
    assert "container" not in (tmp_path / "srun_options").read_text()


def test_horovod_takes_the_image_that_has_it(tmp_path):
    text = scripts("ndv4", dataclasses.replace(DESIRED, horovod_image="nvcr.io#nvidia/tensorflow:21.05-tf2-py3"))
    run(text["horovod.slurm.sh"], tmp_path, "train.py")
    assert "--container-image=nvcr.io#nvidia/tensorflow:21.05-tf2-py3\n" in (tmp_path / "srun_options").read_text()
    assert "nvidia/pytorch:" not in text["horovod.slurm.sh"] and "nvidia/pytorch:" in text["pytorch.slurm.sh"]


def python_with_horovod(folder):
    """An environment whose Python has a package horovod, of which nothing but the import is real."""
    (folder / "packages" / "horovod").mkdir(parents=True)
    (folder / "packages" / "horovod" / "__init__.py").write_text("")
    (folder / "bin").mkdir()
    program = folder / "bin" / "python3"
    program.write_text('#!/bin/sh\nPYTHONPATH={0} exec {1} "$@"\n'.format(folder / "packages", sys.executable))
    program.chmod(0o755)
    return folder


def test_an_environment_is_the_one_that_its_link_led_to_at_the_start(tmp_path):
    (tmp_path / "train.py").write_text("import sys; print(sys.argv[1:])\n")
    python_with_horovod(tmp_path / "env-1")
    (tmp_path / "env").symlink_to("env-1")
    desired = dataclasses.replace(DESIRED, environment="/nowhere")
    text = scripts("ndv4", desired)["horovod.slurm.sh"].replace("exec python3", 'echo "${PATH%%:*}"; exec python3')
    assert "PYTHON_ENV-/nowhere}" in text
    done = run(text, tmp_path, "train.py", PYTHON_ENV=str(tmp_path / "env"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == str(tmp_path / "env-1" / "bin")


LAUNCHERS = {"openmpi": "OMPI_COMM_WORLD_RANK", "mpich": "PMI_RANK", "impi-rt": "PMI_RANK"}


@pytest.mark.parametrize("name", sorted(LAUNCHERS))
def test_horovod_by_each_mpirun(name, tmp_path):
    """The real mpirun of each flavour takes the flags, and each rank has its variables and its place."""
    found = glob.glob("{0}/{1}-[0-9]*/bin".format(sys.prefix, name))
    if not found or not os.path.exists(found[0] + "/mpirun"):
        pytest.skip("run make setup to have the mpirun of {0}".format(name))
    (tmp_path / "train.py").write_text(
        "import os, sys\n"
        "rank = os.environ['{0}']\n"
        "with open('rank' + rank, 'w') as one:\n"
        "    one.write(' '.join([os.environ['HOROVOD_TIMELINE'], os.environ['NCCL_DEBUG'], *sys.argv[1:]]))\n".format(
            LAUNCHERS[name]
        )
    )
    pin = tmp_path / "pin.sh"  # the CPUs of the machine that the script is for are not here
    pin.write_text('#!/bin/sh\nexec "$@"\n')
    pin.chmod(0o755)
    text = scripts("ndv4")["horovod.mpirun.sh"].replace("/shared/jobs/pin-gpu-ranks.sh", str(pin))
    assert "ppr:8:node" in text
    text = (
        text.replace("ppr:8:node", "ppr:2:node:oversubscribe")
        .replace("-ppn 8", "-ppn 2")
        .replace("_NODES * 8", "_NODES * 2")
    )
    environment = {
        "PYTHON_ENV": str(python_with_horovod(tmp_path / "env")),
        "HOROVOD_TIMELINE": "timeline.json",
        "HOME": str(tmp_path),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "SLURM_JOB_ID": "",
        "SLURM_JOB_NODELIST": "",
        "I_MPI_HYDRA_BOOTSTRAP": "fork",
        "HYDRA_LAUNCHER": "fork",
        "PATH": "{0}:{1}:{2}".format(tmp_path / "programs", found[0], os.environ["PATH"]),
    }
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "mpirun").write_text(
        '#!/bin/sh\necho "$@" >>words\nexec {0}/mpirun "$@"\n'.format(found[0])
    )
    (tmp_path / "programs" / "mpirun").chmod(0o755)
    done = run(
        "unset SLURM_JOB_ID SLURM_JOB_NODELIST SLURM_PROCID\n" + text,
        tmp_path,
        "train.py",
        "--epochs",
        "3",
        **environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ranks = sorted(one.name for one in tmp_path.glob("rank*"))
    assert ranks == ["rank0", "rank1"]
    assert (tmp_path / "rank1").read_text() == "timeline.json WARN --epochs 3"
    # Ranks of other nodes have nothing of the environment but what they are given.
    words = (tmp_path / "words").read_text()
    for variable, value in (("HOROVOD_TIMELINE", "timeline.json"), ("NCCL_DEBUG", "WARN"), ("PATH", "")):
        given = "-x {0} " if name == "openmpi" else "-genv {0} {1}"
        assert given.format(variable, value) in words


def test_another_mpirun_is_one_sentence(tmp_path):
    program = tmp_path / "programs"
    program.mkdir()
    executable(os.devnull, program / "mpirun")
    done = run(scripts("ndv4")["horovod.mpirun.sh"], tmp_path, "train.py")
    assert done.returncode == 1 and done.stderr.startswith("mpirun is neither Open MPI's nor Hydra's here: load an MPI")


def deepspeed(tmp_path, *arguments, **environment):
    (tmp_path / "programs").mkdir(exist_ok=True)
    executable(os.devnull, tmp_path / "programs" / "torchrun")
    (tmp_path / "programs" / "torchrun").write_text('#!/bin/sh\necho "$@"\n')
    return run(scripts("ndv4")["deepspeed.slurm.sh"], tmp_path, *arguments, **environment)


def test_deepspeed_offloads_to_the_folder_of_the_job(tmp_path):
    (tmp_path / "7").mkdir()
    done = deepspeed(tmp_path, "train.py", "--deepspeed_config", "DS_CONFIG", JOB_SCRATCH=str(tmp_path / "7"))
    assert done.returncode == 0, done.stderr
    path = str(tmp_path / "deepspeed-7.json")
    assert done.stdout.rstrip().endswith("python3 train.py --deepspeed_config " + path)
    with open(path, encoding="utf-8") as stream:
        config = json.load(stream)
    zero = config["zero_optimization"]
    assert zero["stage"] == 3 and zero["offload_param"] == zero["offload_optimizer"]
    assert zero["offload_param"] == {"device": "nvme", "nvme_path": str(tmp_path / "7/ds"), "pin_memory": True}
    assert config["aio"]["block_size"] == 1048576


def test_deepspeed_keeps_what_the_user_has_and_says_where_there_is_no_scratch(tmp_path):
    (tmp_path / "7").mkdir()
    mine = {"train_batch_size": 64, "zero_optimization": {"stage": 2}, "aio": {"queue_depth": 32}}
    (tmp_path / "ds.json").write_text(json.dumps(mine))
    deepspeed(tmp_path, "train.py", DS_CONFIG="ds.json", JOB_SCRATCH=str(tmp_path / "7"))
    config = json.loads((tmp_path / "deepspeed-7.json").read_text())
    assert (
        config["train_batch_size"] == 64
        and config["aio"]["queue_depth"] == 32
        and config["aio"]["single_submit"] is False
    )
    # Parameters are whole on each GPU before stage 3.
    assert "offload_optimizer" in config["zero_optimization"] and "offload_param" not in config["zero_optimization"]
    done = deepspeed(tmp_path, "train.py")
    assert done.returncode == 1
    assert done.stderr == (
        "/mnt/resource_nvme/jobs/7 is not there: this node has no scratch, "
        "or no prolog that makes it (role slurm_hooks)\n"
    )


# As much of tensorboard as the script relies on: it listens where it is told.
TENSORBOARD = """
import argparse, functools, http.server
one = argparse.ArgumentParser()
for name in ("--logdir", "--host", "--port"):
    one.add_argument(name)
given = one.parse_args()
open("host", "w").write(given.host)
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=given.logdir)
http.server.HTTPServer((given.host, int(given.port)), handler).serve_forever()
"""


def test_tensorboard_listens_on_the_node_alone_and_says_how_to_reach_it(tmp_path):
    done = run(scripts("hb176")["tensorboard.slurm.sh"], tmp_path, "logs", PATH="/usr/bin:/bin")
    assert done.returncode == 1 and done.stderr.startswith("tensorboard is not there: ")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "events").write_text("figures")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tensorboard").write_text("#!{0}\n{1}".format(sys.executable, TENSORBOARD))
    (tmp_path / "bin" / "tensorboard").chmod(0o755)
    script = tmp_path / "board.sh"
    script.write_text(scripts("hb176")["tensorboard.slurm.sh"].replace("bash -l", "bash"))
    environment = dict(os.environ, PYTHON_ENV=str(tmp_path), SLURM_SUBMIT_HOST="login", USER="ada", SLURM_JOB_ID="7")
    with subprocess.Popen(
        ["bash", str(script), "logs"], cwd=str(tmp_path), env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            process.stdout.readline()
            line = process.stdout.readline().split()
            assert line[:3] == ["ssh", "-N", "-L"] and line[4:6] == ["-J", "ada@login"]
            _near, host, port = line[3].rsplit(":", 2)
            assert host == "127.0.0.1"
            assert process.stdout.readline().endswith("End it with: scancel 7\n")
            deadline = time.monotonic() + 30
            while True:
                connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=5)
                try:
                    connection.request("GET", "/events")
                    assert connection.getresponse().read() == b"figures"
                    assert (tmp_path / "host").read_text() == "127.0.0.1"
                    break
                except ConnectionRefusedError:
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
                finally:
                    connection.close()
        finally:
            process.kill()


_GPUNODE = """\
#!/bin/bash
# Fails the first time it is asked for one that is named so.
echo "$@" >>"$ASKED"
if [[ $3 == *flaky* && ! -e $4/tried ]]; then touch "$4/tried"; exit 1; fi
[[ $3 != *broken* ]]
"""


def checkpoints(folder, names, status=0, **environment):
    """The job script with a command that writes these and ends with a status; (its end, what gpunode was asked)."""
    (folder / "programs").mkdir(exist_ok=True)
    (folder / "programs" / "gpunode").write_text(_GPUNODE)
    (folder / "programs" / "gpunode").chmod(0o755)
    script = 'for name in {0}; do mkdir -p "$CHECKPOINT_FOLDER/$name"; : >"$CHECKPOINT_FOLDER/$name/COMPLETE"; done\n'
    script += 'mkdir -p "$CHECKPOINT_FOLDER/half"; sleep 0.5; echo trained "$1"; exit {1}\n'
    (folder / "train").write_text(script.format(" ".join(names), status))
    asked = folder / "asked"
    given = dict(environment, ASKED=str(asked), SLURM_JOB_ID="7", CHECKPOINT_LOOK_SECONDS="0.1")
    done = run(scripts("ndv4")["checkpoint.slurm.sh"], folder, "bash", str(folder / "train"), "well", **given)
    return done, asked.read_text().splitlines() if asked.exists() else []


def test_checkpoints_are_copied_while_a_command_runs_and_each_once(tmp_path):
    done, asked = checkpoints(tmp_path, ["step-1", "flaky-2"])
    assert done.returncode == 0 and done.stdout.splitlines()[0] == "trained well", done.stderr
    folder = str(tmp_path / "checkpoints-7")
    assert sorted(asked) == [
        "checkpoint put 7-flaky-2 {0}/flaky-2".format(folder),
        "checkpoint put 7-flaky-2 {0}/flaky-2".format(folder),
        "checkpoint put 7-step-1 {0}/step-1".format(folder),
    ]
    assert not list(tmp_path.glob(".checkpoint-end*"))


def test_each_node_copies_its_part_of_a_folder_of_its_own(tmp_path):
    done, asked = checkpoints(tmp_path, ["step-1"], CHECKPOINT_FOLDER=str(tmp_path / "scratch"))
    assert done.returncode == 0 and asked == ["checkpoint put 7-step-1 {0}/scratch/step-1 --part 0/1".format(tmp_path)]


@pytest.mark.parametrize("names, status, ended", [(["broken-1"], 0, 1), (["broken-1"], 3, 3), (["step-1"], 3, 3)])
def test_a_command_or_a_copy_that_fails_fails_the_job(tmp_path, names, status, ended):
    done = checkpoints(tmp_path, names, status)[0]
    assert done.returncode == ended
    assert ("not all checkpoints were copied" in done.stderr) == (names == ["broken-1"])


@pytest.mark.parametrize("status", [0, 3])
def test_a_logout_script_that_fails_is_not_the_end_of_the_job(tmp_path, status):
    """Slurm starts the script as a login shell; Debian's ~/.bash_logout fails where there is no console."""
    checkpoints(tmp_path, ["step-1"], status)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".bash_profile").write_text("PATH={0}:$PATH\n".format(tmp_path / "programs"))
    (home / ".bash_logout").write_text("false\n")
    given = {"HOME": str(home), "SLURM_JOB_ID": "8", "SLURM_JOB_NUM_NODES": "1", "CHECKPOINT_LOOK_SECONDS": "0.1"}
    given.update(PATH=os.environ["PATH"], ASKED=str(tmp_path / "asked"), SRUN_OPTIONS=str(tmp_path / "srun_options"))
    done = subprocess.run(
        ["bash", "--login", str(tmp_path / "job.sh"), "bash", str(tmp_path / "train"), "well"],
        cwd=str(tmp_path),
        env=given,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status and "trained well" in done.stdout, done.stderr


def test_no_script_of_slurm_exits_with_a_status_that_a_logout_script_may_change():
    """What ends with 1 anyhow may."""
    for name, text in scripts("ndv4").items():
        if text.startswith("#!/bin/bash -l"):
            assert not re.search(r'^ *exit (0|"?\$status"?)$', text, re.MULTILINE), name
