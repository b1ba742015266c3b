# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The generated modulefiles under the real Lmod and the real Environment Modules: load, unload, conflict."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.module_systems import SUFFIXES
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import hpcx
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.hpcx import modulefile
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.hpcx import hpcx_tarball

ODD = 'a "b" $HOME [exit] {x \\ ; `c` #'
OTHER = {
    "lmod": 'conflict("mpi")\nsetenv("MPI_HOME", "/other")\n',
    "environment_modules": "#%Module1.0\nconflict mpi\nsetenv MPI_HOME /other\n",
}
SHOW = """
show() {
    for name in $(compgen -e); do
        case $name in *MODULE*|*LM*|_*) ;; *) echo "$1 $name=${!name}";; esac
    done
}
"""


PROGRAMS = {
    "lmod": ["/usr/share/lmod/lmod/libexec/lmod"],
    "environment_modules": ["/usr/lib/*/modulecmd.tcl", "/usr/share/[mM]odules/libexec/modulecmd.tcl"],
}


def module_command(kind):
    # Where it is not installed, it lies unpacked in the environment (tools/setup/unpacked.py).
    places = [root + path for root in ("", sys.prefix + "/debian") for path in PROGRAMS[kind]]
    found = [one for path in places for one in glob.glob(path)]
    return "{0} {1} bash".format({"lmod": "", "environment_modules": "tclsh"}[kind], found[0]) if found else None


@pytest.fixture(name="shell", params=sorted(OTHER))
def _shell(request, tmp_path):
    """Runs lines of bash with ``module`` on two versions of HPC-X and one other MPI; gives what they print."""
    kind, command = request.param, module_command(request.param)
    if command is None:
        pytest.skip("run make setup, or install {0}, to see its modules load".format(kind.replace("_", "-")))
    desired = hpcx.Desired(ucx={"UCX_TLS": "rc,sm"}, environment={"ODD": ODD})
    folder = tmp_path / "modules/mpi"
    folder.mkdir(parents=True)
    for name in ("hpcx", "hpcx-2.24.1"):
        hpcx_tarball.image_tree(tmp_path, "/" + name, "2.24.1")
        text = modulefile.text(kind, str(tmp_path / name), "2.24.1", desired)
        (folder / (name + SUFFIXES[kind])).write_text(text)
    (folder / ("other" + SUFFIXES[kind])).write_text(OTHER[kind])

    def run(lines):
        module = 'module() { eval "$(' + command + ' "$@")"; }\n'
        environment = {"PATH": "/usr/bin:/bin", "MODULEPATH": str(folder.parent), "HOME": str(tmp_path), "USER": "x"}
        done = subprocess.run(
            ["bash", "-c", module + SHOW + lines],
            env=dict(environment, LMOD_IGNORE_CACHE="1"),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.stdout, done.stderr

    run.kind, run.root = kind, tmp_path
    return run


def variables(output, word):
    lines = [line[len(word) + 1 :] for line in output.splitlines() if line.startswith(word + " ")]
    return dict(line.split("=", 1) for line in lines)


def test_loaded_and_unloaded(shell):
    output, errors = shell("show before; module load mpi/hpcx; show loaded; module unload mpi/hpcx; show after")
    before, loaded, after = (variables(output, word) for word in ("before", "loaded", "after"))
    home = str(shell.root / "hpcx")
    assert loaded["HPCX_DIR"] == loaded["HPCX_HOME"] == home, errors
    assert loaded["OPAL_PREFIX"] == loaded["MPI_HOME"] == home + "/ompi"
    assert loaded["PATH"] == "{0}/ompi/bin:{0}/ucx/bin:/usr/bin:/bin".format(home)
    assert loaded["LD_LIBRARY_PATH"].split(":")[:3] == [
        home + "/ompi/lib",
        home + "/nccl_rdma_sharp_plugin/lib",
        home + "/sharp/lib",
    ]
    assert loaded["MANPATH"].startswith(home + "/ompi/share/man:")  # what follows the colon are the system's pages
    assert loaded["HPCX_OSU_DIR"] == home + "/ompi/tests/osu-micro-benchmarks-7.4"
    assert loaded["HPCX_OSU_CUDA_DIR"] == loaded["HPCX_OSU_DIR"] + "-cuda"
    assert (loaded["OMPI_MCA_pml"], loaded["OMPI_MCA_btl"]) == ("ucx", "^openib")
    assert (loaded["OMPI_MCA_coll_hcoll_enable"], loaded["UCX_TLS"], loaded["ODD"]) == ("0", "rc,sm", ODD)
    assert "HPCX_HCOLL_DIR" not in loaded  # this one has no HCOLL
    after.pop("MANPATH", None)  # may stay as ":", which means the system's pages
    assert after == before


def test_unloading_takes_all_back_although_the_folder_has_gone(shell):
    lines = "show before; module load mpi/hpcx; mv {0}/hpcx {0}/gone; module unload mpi/hpcx; show after"
    output, errors = shell(lines.format(shell.root))
    before, after = variables(output, "before"), variables(output, "after")
    after.pop("MANPATH", None)
    assert after == before, errors


@pytest.mark.parametrize("second", ["mpi/hpcx-2.24.1", "mpi/other"])
def test_never_two_at_once(shell, second):
    output, errors = shell("module load mpi/hpcx; module load {0}; show loaded".format(second))
    loaded = variables(output, "loaded")
    if shell.kind == "environment_modules":
        assert "conflict" in errors and loaded["HPCX_HOME"] == str(shell.root / "hpcx")
    else:
        assert loaded.get("HPCX_HOME") == (str(shell.root / "hpcx-2.24.1") if "hpcx" in second else None)
        assert str(shell.root / "hpcx") + "/" not in loaded["PATH"]


MPI = """
import ctypes
library = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)
world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, "ompi_mpi_comm_world")))
if library.MPI_Init(None, None) == 0 and library.MPI_Barrier(world) == 0 and library.MPI_Finalize() == 0:
    print("through the barrier")
"""


def test_our_settings_let_a_job_run_on_a_node_without_infiniband_and_gpus():
    """Where 'pml ucx' alone ends it: under a real Open MPI of version 4, whose UCX has shared memory and TCP only."""
    if shutil.which("mpirun") is None or shutil.which("ompi_info") is None:
        pytest.skip("install openmpi-bin to see a job run")
    told = subprocess.run(["ompi_info"], capture_output=True, text=True, timeout=120, check=False).stdout
    if "MCA pml: ucx" not in told or "Open MPI: 4." not in told:
        pytest.skip("this Open MPI is not of version 4 with UCX")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "UCX_"))}
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    job = ["mpirun", "--oversubscribe", "-np", "2", sys.executable, "-c", MPI]

    def run(variables):
        environment = dict(kept, **root, **variables)
        return subprocess.run(job, env=environment, capture_output=True, text=True, timeout=300, check=False)

    done = run(hpcx.Desired().variables)
    assert done.returncode == 0 and done.stdout.count("through the barrier") == 2, done.stderr
    if not os.path.isdir("/sys/class/infiniband") and not os.path.exists("/dev/nvidiactl"):
        assert "PML ucx cannot be selected" in run({"OMPI_MCA_pml": "ucx"}).stderr
