# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job scripts that are run: what they start gets what it takes, and says so."""

from __future__ import annotations

import dataclasses
import os
import sys

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.job_templates.rendered import (
    DESIRED,
    run,
    scripts,
)

HPL = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 4, "data", "hpl")


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
    assert done.stderr == (
        "python3 has no Horovod here: submit it from an environment that has it, or with CONTAINER_IMAGE=IMAGE\n"
    )


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
