# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/from_the_seeds.md: each command of the five documents is there, and what stands beside it exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.job_templates import scripts
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.variables import playbooks

ROOT = Path(__file__).resolve().parents[4]
# A | within code is written \| there.
ROWS = [
    [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in (ROOT / "docs/from_the_seeds.md").read_text(encoding="utf-8").splitlines()
    if re.match(r"\| [A-E]", line) and line.count(" | ") > 1
]
THERE = "\n".join(row[1] for row in ROWS)
HERE = [code for row in ROWS for code in re.findall(r"`([^`]+)`", row[2])]
# What a person types in the documents, each at least once.
TYPED = """
    ls /opt
    Packer
    NCCL_IB_PCI_RELAXED_ORDERING=1
    UCX_IB_PCI_RELAXED_ORDERING=on
    NCCL_TOPO_FILE
    CUDA_DEVICE_ORDER=PCI_BUS_ID
    OMPI_MCA_pml=ucx
    OMPI_MCA_btl=^openib,smcuda
    DeepSpeed and ONNX Runtime
    cyclecloud show_cluster
    terminate the cluster
    sbatch -N 4 ./nccl.slrm
    sbatch -N 1 -p hpc
    horovod.tensorflow.keras
    nvidia-smi topo -m
    nvidia-smi -i 0 --query-gpu=clocks.max.graphics
    nvidia-smi -i 0 -ac
    nvidia-smi -i 0 -rgc
    max_gpu_app_clocks.sh -r
    max_gpu_app_clocks.sh -l
    check_app_pinning.py
    lstopo
    bandwidthTest
    numactl
    hpl.sh
    alltoall_perf
    mdadm --create
    mkfs.xfs
    mount
    pdsh
    srun --cpu-bind=mask_cpu
    CUDA_VISIBLE_DEVICES=2,3,0,1,6,7,4,5
    --map-by ppr:2:numa
    OMPI_MCA_COLL_HCOLL_ENABLE=0
    AZCOPY_CONCURRENCY_VALUE=10
    --caps-mbps 2300
    BeeOND
    azhpc-diagnostics
    InstallAzureCLIDeb
    az login
    az extension add --name ssh
    az bicep upgrade
    gh auth login
    gh repo clone
    az vm image terms accept
    az deployment sub create
    az vm show
    az network bastion ssh
    createclustertemp.sh
    scp
    simpleslurmjob.sh
    resume_program.sh
    run_nccl_tests_slurm_enroot.slrm
    ClusterInitSpecs
    Standard_ND40rs_v2
    cyclecloud_slurm.sh scale
    destroy script
    module load anaconda/3.7
    conda init
    conda info
    .condarc
    unset CONDA_ENVS_PATH
    conda create --clone
    conda activate
    --gres=gpu:tesla-smx2:4
    --mem-per-cpu=12G
    --error=slurm-%j.err
    module load cuda/11.3.0
    HOROVOD_GPU_OPERATIONS=NCCL
    NCCL_DEBUG=WARN
    conda shell.bash hook
    mpiexec -np $SLURM_NTASKS
    sbatch run-job.sh
    tensorboard --logdir
    ssh L:6006:localhost
    HOROVOD_TIMELINE=timeline.json
    chrome://tracing
    openstack coe cluster create
    openstack coe nodegroup create
    kubectl get pod -n kube-system
    node-role.kubernetes.io/gpu=true:NoSchedule
    nvidia.com/device-plugin.config=slice-4
    nvidia.com/mig.config=3g.20gb-2x2g.10gb
    18288
"""


@pytest.mark.parametrize("command", [line.strip() for line in TYPED.strip().splitlines()])
def test_each_command_of_the_documents_has_a_row(command):
    assert command in THERE


@pytest.mark.parametrize("command", sorted({one for one in HERE if one.startswith("gpunode ")}))
def test_each_command_of_ours_is_one(command):
    assert main.parser().parse_args(shlex.split(command)[1:])


def test_each_playbook_script_and_variable_is_there():
    known = set(playbooks.OPTIONS)
    for path in ROOT.glob("roles/*/defaults/main.yml"):
        known |= set(re.findall(r"^#? ?(\w+):", path.read_text(encoding="utf-8"), re.MULTILINE))
    seen = 0
    for code in HERE:
        for playbook in re.findall(r"playbooks/\w+\.yml", code):
            seen += 1
            assert (ROOT / playbook).exists(), code
        for script in re.findall(r"[\w-]+\.(?:slurm|pyxis|mpirun)\.sh|mpi-check\.sh", code):
            seen += 1
            assert script in scripts.NAMES, code
        for variable in re.findall(r"^([a-z]+_\w+)(?=:|$)", code) + re.findall(r"(?<=, )([a-z]+_\w+)(?=:)", code):
            if variable.split("_")[0] not in ("clone", "gpu") or variable.startswith("gpu_settings"):
                seen += 1
                assert variable in known, code
    assert seen > 20
