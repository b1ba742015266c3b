# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job scripts on captured machines: golden placements by hand, bash and shellcheck on every text, and every state."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import managed_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.declaration import Declare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import MARKER, Files, Seen
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files.plan import named
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.job_templates import launch
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.job_templates.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.job_templates.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.job_templates.scripts import (
    GPU_NAMES,
    NAMES,
    render,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.job_templates.types import State
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import names as trees
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.job_templates.rendered import (
    DESIRED,
    FOLDER,
    machine,
    scripts,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.job_templates.sbatch import (
    options,
)

ROLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 6, "roles")


def profile(name):
    with open(os.path.join(ROLES, "node_profile/files/profiles", name + ".yml"), encoding="utf-8") as stream:
        return {"name": name, "data": yaml.safe_load(stream)}


def one_line(text):
    return text.replace(" \\\n  ", " ")


# Where the ranks go: what is expected is Azure's own, in training-notes and in its NCCL topology files ----------


NDV4_MASKS = (
    "--cpu-bind=mask_cpu:ffffff000000,ffffff000000,ffffff,ffffff,ffffff000000000000000000,ffffff000000000000000000,"
    "ffffff000000000000,ffffff000000000000"
)
NDV2_MASKS = "--cpu-bind=mask_cpu:" + ",".join(["fffff"] * 4 + ["fffff00000"] * 4)
NDV5_MASKS = "--cpu-bind=mask_cpu:" + ",".join(["ffffffffffff"] * 4 + ["ffffffffffff000000000000"] * 4)


@pytest.mark.parametrize(
    "name, masks, mapping, devices",
    [
        ("ndv4", NDV4_MASKS, "ppr:2:numa", "2,3,0,1,6,7,4,5"),
        ("ndv2", NDV2_MASKS, "ppr:4:numa", "0,1,2,3,4,5,6,7"),
        ("ndv5", NDV5_MASKS, "ppr:4:numa", "0,1,2,3,4,5,6,7"),
    ],
)
def test_nccl_is_bound_as_azure_does_it(name, masks, mapping, devices):
    found = scripts(name)
    for test, program in (("nccl-all-reduce", "all_reduce_perf"), ("nccl-all-to-all", "alltoall_perf")):
        for way, binary in (("pyxis", '"${NCCL_TEST:-' + program + '_mpi}"'), ("slurm", '"$program"')):
            line = one_line(found["{0}.{1}.sh".format(test, way)]).splitlines()[-1]
            assert line.startswith('srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks-per-node=8 --mpi=pmix ' + masks + " ")
            assert line.endswith(binary + " -b 8 -e 8G -f 2 -g 1 -c 1")
            # Every rank sees all GPUs and takes that of its local number.
            assert "--gpu-bind" not in line
        text = found[test + ".mpirun.sh"]
        assert "export CUDA_VISIBLE_DEVICES={0}\n".format(devices) in text
        assert "export CUDA_DEVICE_ORDER=PCI_BUS_ID\n" in text and "coll_hcoll_enable=0" in text
        assert one_line(text).splitlines()[-1] == (
            'mpirun -np "$((nodes * 8))" "${where[@]}" --map-by ' + mapping + " --bind-to numa -x CUDA_DEVICE_ORDER "
            '-x CUDA_VISIBLE_DEVICES "${passed[@]}" "$program" -b 8 -e 8G -f 2 -g 1 -c 1'
        )


def test_hpl_has_nvidias_flags():
    line = one_line(scripts("ndv4")["hpl.pyxis.sh"]).splitlines()[-1]
    assert line.endswith(
        "--cpu-affinity 24-35:36-47:0-11:12-23:72-83:84-95:48-59:60-71 "
        "--gpu-affinity 0:1:2:3:4:5:6:7 --mem-affinity 1:1:0:0:3:3:2:2 "
        "--ucx-affinity mlx5_ib0:mlx5_ib1:mlx5_ib2:mlx5_ib3:mlx5_ib4:mlx5_ib5:mlx5_ib6:mlx5_ib7"
    )
    assert "--cpu-bind=none" in line and "nvcr.io#nvidia/hpc-benchmarks:" in scripts("ndv4")["hpl.pyxis.sh"]


def test_training_gets_the_threads_of_its_share():
    found = scripts("ndv4")
    assert 'OMP_NUM_THREADS="${OMP_NUM_THREADS:-12}"' in found["pytorch.slurm.sh"]
    last = one_line(found["pytorch.slurm.sh"]).splitlines()[-1]
    assert "--ntasks-per-node=1 " in last and 'torchrun --nnodes="$SLURM_JOB_NUM_NODES" --nproc_per_node=8' in last
    assert last.endswith('--no_python /shared/jobs/pin-gpu-ranks.sh python3 "$@"')
    assert "0) cpus=24-47 memory=--membind=1 ;;" in found["pin-gpu-ranks.sh"].splitlines()
    assert NDV4_MASKS in found["horovod.slurm.sh"]


def test_slurms_local_number_comes_last():
    # mpirun in a job of Slurm hands the batch step's SLURM_LOCALID, 0, to every rank.
    assert "${LOCAL_RANK:-${OMPI_COMM_WORLD_LOCAL_RANK:-" in scripts("ndv4")["pin-gpu-ranks.sh"]
    assert scripts("ndv4")["pin-gpu-ranks.sh"].count("SLURM_LOCALID") == 1
    assert "${SLURM_LOCALID:-}}}}}\n" in scripts("ndv4")["pin-gpu-ranks.sh"]


@pytest.mark.parametrize("ranks", [1, 4, 6])
def test_a_part_of_the_gpus_is_never_mapped_over_the_whole_node(ranks):
    # ppr:2:numa would put eight ranks on the first node before it goes to the second one.
    found = scripts("ndv4", dataclasses.replace(DESIRED, gpus_per_node=ranks))
    text = found["nccl-all-reduce.mpirun.sh"]
    line = one_line(text).splitlines()[-1]
    assert "--map-by ppr:{0}:node --bind-to none -x CUDA_DEVICE_ORDER ".format(ranks) in line
    assert '/shared/jobs/pin-gpu-ranks.sh "$program"' in line and "CUDA_VISIBLE_DEVICES" not in text
    assert found["pin-gpu-ranks.sh"].count("memory=--membind=") == ranks
    # Slurm gives the whole node all the same, so that device n is GPU n.
    assert "#SBATCH --gpus-per-node=8\n" in text and "#SBATCH --exclusive\n" in text


def test_more_gpus_than_cores_share_them():
    seen = machine("ndv4")
    # One core of each NUMA node, as a small guest has them.
    few = (0, 24, 48, 72)
    small = dataclasses.replace(
        seen,
        cpus=dataclasses.replace(seen.cpus, online=few, cores=4, sibling_groups=tuple((cpu,) for cpu in few)),
        numa_nodes=tuple(
            dataclasses.replace(node, cpus=tuple(cpu for cpu in node.cpus if cpu in few), l3_groups=())
            for node in seen.numa_nodes
        ),
    )
    found = {os.path.basename(one.path): one.text for one in render(small, DESIRED, {}, 8)}
    assert (
        "mask_cpu:1000000,1000000,1,1,1000000000000000000,1000000000000000000,1000000000000,1000000000000"
        in (found["nccl-all-reduce.slurm.sh"])
    )
    assert "--bind-to none" in found["nccl-all-reduce.mpirun.sh"] and "cpus=24 " in found["pin-gpu-ranks.sh"]
    assert plan(State(topology=small), DESIRED).actions


def test_mpi_without_gpus_has_a_rank_on_each_numa_node():
    text = scripts("ndv4")["mpi-check.sh"]
    assert "#SBATCH --ntasks-per-node=4\n" in text and "--gpus-per-node" not in text
    assert 'mpirun -np "$((nodes * 4))" "${where[@]}" --map-by ppr:1:numa:pe=24 --bind-to core' in one_line(text)
    cpu_only = scripts("hb176")
    of_cpus = {"mpi-check.sh", "mpi_check.sh", "pin-mpi-ranks.sh", "tensorboard.slurm.sh"}
    assert set(cpu_only) <= of_cpus and "mpi-check.sh" in cpu_only


# What every script has --------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", trees())
def test_every_text_is_sound_bash(name, tmp_path):
    found = scripts(name, Desired(folder=FOLDER, partition="gpu", account="lab", mounts=("/data:/data:ro",)))
    for base, text in found.items():
        assert MARKER in text.splitlines()[1]
        (tmp_path / base).write_text(text)
        done = subprocess.run(["bash", "-n", str(tmp_path / base)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        if not text.startswith("#!/bin/bash"):
            continue
        head = text.split("set -euo pipefail")[0]
        for part in ("Submit:", "Expect:", "Read:", "Made for", "#SBATCH --nodes=", "#SBATCH --partition=gpu"):
            assert part in head, (base, part)
        # Nothing before the directives is a command: sbatch stops reading there.
        assert all(line.startswith("#") for line in head.splitlines())
        assert ("SLURM_JOB_NUM_NODES" in text or base == "tensorboard.slurm.sh") and "--account=lab" in head
    if shutil.which("shellcheck"):
        paths = sorted(str(tmp_path / base) for base in found)
        done = subprocess.run(["shellcheck", *paths], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_figures_come_from_the_profile_with_their_sources():
    known = scripts("ndv4", known=profile("nd96asr_v4"))
    head = known["nccl-all-reduce.pyxis.sh"]
    assert "one node: 230 GB/s and more; it is sick below 228 GB/s (profile nd96asr_v4)" in head
    assert "two nodes: more than 175 GB/s" in head and "carry 200 GB/s in each direction" in head
    # Each GPU has 25 GB/s of the ports, and 8 of its 15 partners sit on the other node: 25 * 15 / 8.
    assert "two nodes: below 47 GB/s; of the 15 partners of a GPU 8 are" in known["nccl-all-to-all.slurm.sh"]
    assert "about 95 TFLOP/s" in known["hpl.pyxis.sh"]
    assert "nobody has published a figure for this machine" in scripts("gb200")["hpl.pyxis.sh"]
    assert "nodes of unknown type with 4 GPU(s)" in scripts("gb200")["hpl.pyxis.sh"]


SITE = dataclasses.replace(
    DESIRED,
    time="1-12:30",
    memory="900G",
    gres_type="a100",
    log_folder="/shared/logs/%u",
    error_file=True,
    directives=("--qos=train", "--constraint=ndr&nvme|x", "--mail-type=END,FAIL", "--no-requeue"),
)


@pytest.mark.parametrize("name", trees())
def test_slurm_takes_the_directives(name):
    for desired in (DESIRED, SITE, dataclasses.replace(DESIRED, memory="", gres_type="auto", log_folder="logs")):
        for base, text in scripts(name, desired).items():
            if "#SBATCH" not in text:
                assert base in ("mpi_check.sh", "pin-gpu-ranks.sh", "pin-mpi-ranks.sh")
                continue
            found = options(text)
            assert len(dict(found)) == len(found), (base, found)  # none twice
            if base == "tensorboard.slurm.sh":  # a part of a node will do
                assert not {"exclusive", "gpus-per-node"} & set(dict(found)) and dict(found)["nodes"] == "1"
                continue
            # Masks of CPUs need the whole node, and an exclusive job gets no memory but what it asks for.
            assert ("exclusive", None) in found and dict(found).get("mem") == (desired.memory or None)


def test_the_sites_own_words_reach_every_script():
    gpu = {"ntasks-per-node": "8", "gpus-per-node": "a100:8"}
    for base, text in scripts("ndv4", SITE).items():
        if "#SBATCH" not in text:
            continue
        job = base.split(".")[0]
        expected = {"job-name": job, "nodes": "2", "exclusive": None, "mem": "900G", "time": "1-12:30"}
        expected.update(output="/shared/logs/%u/%x-%j.out", error="/shared/logs/%u/%x-%j.err")
        expected.update({"ntasks-per-node": "4"} if job == "mpi-check" else gpu)
        alone = ("pytorch", "deepspeed", "tensorboard", "checkpoint")
        expected.update({"ntasks-per-node": "1"} if job in alone else {})
        if job == "tensorboard":
            expected.update(nodes="1", mem="4G")
            expected = {name: value for name, value in expected.items() if name not in ("exclusive", "gpus-per-node")}
        expected.update({"qos": "train", "constraint": "ndr&nvme|x", "mail-type": "END,FAIL", "no-requeue": None})
        assert dict(options(text)) == expected, base
    plain = dict(options(scripts("ndv4")["hpl.pyxis.sh"]))
    assert plain["output"] == "%x-%j.out" and plain["gpus-per-node"] == "8" and plain["mem"] == "0"
    assert not {"time", "error"} & set(plain)


def test_the_type_of_gpu_is_that_of_the_product():
    seen = machine("ndv4")
    gpus = tuple(dataclasses.replace(gpu, product="NVIDIA A100-SXM4-40GB") for gpu in seen.gpus)
    for product, wanted in ((gpus, "a100:8"), (seen.gpus, "8")):
        found = render(dataclasses.replace(seen, gpus=product), dataclasses.replace(DESIRED, gres_type="auto"), {}, 8)
        text = next(one.text for one in found if one.path.endswith("/hpl.pyxis.sh"))
        assert dict(options(text))["gpus-per-node"] == wanted


def test_options_reach_the_scripts():
    desired = Desired(
        folder="/a/b/", nodes=1, image="/images/own.sqsh", hpl_image="", mounts=("/data:/data:ro",), slurm_mpi="pmi2"
    )
    found = scripts("ndv4", desired)
    assert "hpl.pyxis.sh" not in found
    text = found["nccl-all-reduce.pyxis.sh"]
    assert "image=${CONTAINER_IMAGE:-/images/own.sqsh}" in text and 'mounts=("/data:/data:ro")' in text
    assert "--mpi=pmi2" in text and "#SBATCH --nodes=1\n" in text and "sbatch /a/b/nccl-all-reduce.pyxis.sh" in text
    bare = scripts("ndv4", Desired(folder=FOLDER, image=""))
    assert not [name for name in bare if name.startswith("nccl") and "pyxis" in name] and "pytorch.slurm.sh" in bare


@settings(max_examples=10)
@given(st.sampled_from(["ndv4", "ndv2", "nps4_smt", "gb200", "laptop", "hb176"]), st.integers(1, 9), st.integers(1, 8))
def test_any_number_of_ranks_is_rendered_or_refused_in_one_sentence(name, gpus, ranks):
    desired = dataclasses.replace(DESIRED, gpus_per_node=gpus, mpi_ranks_per_node=ranks)
    result = plan(State(topology=machine(name)), desired)
    if result.refusals:
        assert len(result.refusals) == 1 and str(result.refusals[0]).endswith(".")
        assert gpus > launch.gpus(machine(name)) or ranks > machine(name).cpus.cores or gpus > machine(name).cpus.cores
    else:
        assert result.actions


def test_what_a_node_needs_is_imported_by_name():
    # Ansible packs a module with what it imports by name; a launcher that is loaded when it is asked for is left out.
    base = "ansible_collections.trainyard.gpu_node.plugins.module_utils."
    code = "import sys; import {0}resources.job_templates; print(*sys.modules)".format(base)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for launcher in ("hpl", "openmpi", "srun", "torchrun"):
        assert base + "placement.render." + launcher in done.stdout.split()


def test_mpirun_falls_back_to_the_script_where_no_mapping_says_it():
    start = launch.mpirun(machine("nps4_smt"), 8, "each", "core", "/w")
    assert start.wrapped and "--bind-to" in start.words and "none" in start.words


def test_words_for_many_nodes_name_no_gpu_of_one():
    found = machine("ndv4")
    known = dataclasses.replace(
        found, gpus=tuple(dataclasses.replace(gpu, uuid="GPU-{0}".format(gpu.name)) for gpu in found.gpus)
    )
    for bind in ("numa", "core"):
        assert launch.mpirun(known, 8, "each", bind, "/w") == launch.mpirun(found, 8, "each", bind, "/w")
    assert not any(word.startswith("--nodes") for word in launch.srun(known, 8).words)


# The plan -----------------------------------------------------------------------------------------------------


def described(result):
    return [action.describe() for action in result.actions]


def applied(state, result):
    declared = dict(state.declared)
    for action in result.actions:
        if isinstance(action, Declare):
            declared = dict(action.content or {})
    return dataclasses.replace(state, files=managed_files.after(state.files, result.actions), declared=declared)


BLANK = State(files=Files(missing_folders=("/shared", FOLDER)), topology=machine("ndv4"))


def test_a_blank_folder_gets_all_of_them_and_absent_takes_them_back():
    first = plan(BLANK, DESIRED)
    assert described(first)[:3] == [
        "declare section job_templates in /etc/gpu_node/node.json",
        "make the folder /shared",
        "make the folder /shared/jobs",
    ]
    made = applied(BLANK, first)
    assert plan(made, DESIRED).actions == ()
    gone = plan(made, dataclasses.replace(DESIRED, present=False))
    assert described(gone)[-3:] == [
        "remove the folder /shared/jobs, if it is empty",
        "remove the folder /shared, if it is empty",
        "take section job_templates out of /etc/gpu_node/node.json",
    ]
    assert sum(text.startswith("remove /shared/jobs/") for text in described(gone)) == len(NAMES) - 1
    assert plan(applied(made, gone), dataclasses.replace(DESIRED, present=False)).actions == ()


def test_another_folder_leaves_nothing_in_the_former_one():
    made = applied(BLANK, plan(BLANK, DESIRED))
    moved = described(plan(made, Desired(folder="/other")))
    assert "remove /shared/jobs/mpi-check.sh" in moved and "write /other/mpi-check.sh" in moved


@pytest.mark.parametrize("how", ["lost", "missing"])
def test_a_sick_machine_leaves_the_scripts_of_gpu_jobs(how):
    made = applied(BLANK, plan(BLANK, DESIRED))
    gpus = made.topology.gpus
    if how == "lost":
        gpus = (dataclasses.replace(gpus[0], fault="it is lost."), *gpus[1:])
    else:
        gpus = gpus[1:]
    sick = dataclasses.replace(
        made, topology=dataclasses.replace(made.topology, gpus=gpus), profile=profile("nd96asr_v4")
    )
    result = plan(sick, DESIRED)
    assert not any("remove" in text for text in described(result))
    assert not any(os.path.basename(getattr(one, "path", "")) in GPU_NAMES for one in result.actions)
    assert "left as they are" in result.notes[0]
    assert plan(applied(sick, result), DESIRED).actions == ()


def test_without_gpus_only_mpi_is_there():
    state = State(topology=machine("hb176"))
    result = plan(state, DESIRED)
    assert "this machine has no GPU" in result.notes[0]
    assert not any("nccl" in text for text in described(result)) and any(
        "mpi_check" in one for one in described(result)
    )


def test_more_ranks_than_gpus_is_one_sentence():
    result = plan(BLANK, dataclasses.replace(DESIRED, gpus_per_node=9))
    assert "this node has 8 GPU(s) to give" in str(result.refusals[0]) and result.actions == ()


SEEN = st.sampled_from(
    [Seen(), Seen("file", "#!/bin/sh\n" + MARKER + "\n", 0o755), Seen("file", "theirs\n", 0o755), Seen("link", MARKER)]
)


@settings(max_examples=15)
@given(
    st.lists(SEEN, min_size=len(NAMES), max_size=len(NAMES)),
    st.sampled_from([{}, {"files": [FOLDER + "/mpi-check.sh", "/old/x.sh", 3]}, {"files": "nonsense"}]),
    st.sampled_from(["ndv4", "hb176"]),
    st.sampled_from(
        [{}, {"name": 7}, {"name": "x", "data": {"gpus": 3, "thresholds": []}}, {"data": {"gpus": {"count": 9}}}]
    ),
    st.booleans(),
)
def test_every_state_has_a_plan_that_ends_and_touches_nothing_foreign(seen, declared, name, known, present):
    found = tuple(zip(["{0}/{1}".format(FOLDER, one) for one in NAMES], seen))
    state = State(Files(found, (), *named(declared)), declared, machine(name), known)
    desired = dataclasses.replace(DESIRED, present=present)
    result = plan(state, desired)
    for action in result.actions:
        assert not state.files.seen(getattr(action, "path", "")).foreign
    if not result.refusals:
        assert plan(applied(state, result), desired).actions == ()


@pytest.mark.parametrize(
    "options, told",
    [
        ({"folder": "jobs"}, "no absolute path"),
        ({"folder": "/"}, "no absolute path"),
        ({"folder": "/a b"}, "no absolute path"),
        ({"folder": "/a/../b"}, "no absolute path"),
        ({"nodes": 0}, "0 is out of range; give 1 to"),
        ({"gpus_per_node": 0}, "out of range"),
        ({"partition": "gpu; rm"}, "no name that Slurm knows"),
        ({"image": "$(reboot)"}, "no name of a container image"),
        ({"mounts": ("data",)}, "write it as /from:/to"),
        ({"mounts": ("",)}, "write it as /from:/to"),
        ({"mpi_module": "mpi hpcx"}, "no name of a module"),
        ({"nccl_tests": "/opt/$HOME"}, "no absolute path"),
        ({"time": "2 hours"}, "'2 hours' is no time limit of Slurm; write it as minutes, H:MM:SS or D-HH"),
        ({"memory": "all"}, "'all' is no size of memory"),
        ({"gres_type": "a100:8"}, "'a100:8' is no type of GPU"),
        ({"log_folder": "my logs"}, "'my logs' is no folder that sbatch can take"),
        ({"horovod_image": "a b"}, "no name of a container image"),
        (
            {"directives": ("-q train",)},
            "is no option of sbatch in its long form; write each as --name or",
        ),
        ({"directives": ("--qos=a\n#SBATCH --exclusive",)}, "is no option of sbatch"),
        ({"directives": ("--comment=$(reboot)", "--qos=a b")}, "is no option of sbatch"),
        ({"directives": ("--mem-per-cpu=12G",)}, "--mem-per-cpu has an option of its own; set memory"),
        ({"directives": ("--gpus=16",)}, "--gpus has an option of its own; set gpus_per_node"),
        ({"directives": ("--gpus-per-task=1",)}, "with --gpus-per-task a rank would not see all GPUs"),
        ({"directives": ("--gpu-bind=closest",)}, "with --gpu-bind a rank would not see all GPUs"),
        ({"directives": ("--core-spec=4",)}, "the ranks could not be bound to their cores"),
        (
            {"directives": ("--cpus-per-task=12",)},
            "could not be bound to their cores; the scripts take whole nodes;",
        ),
    ],
)
def test_wrong_options_are_one_sentence(options, told):
    with pytest.raises(NodeError, match=told):
        Desired(**dict({"folder": FOLDER}, **options))
    # Scripts that go away need none of it; where they are, they do.
    if "folder" in options:
        with pytest.raises(NodeError, match=told):
            Desired(present=False, **options)
    else:
        assert not Desired(present=False, folder=FOLDER, **options).present
