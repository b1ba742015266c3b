# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""enroot, pyxis and the modulefiles over their lives: installed, changed, upgraded, failing, removed.

Slurm, the compiler and dpkg are real, and there is a mirror on the node's own loopback interface. The packages are
small ones with the names, places and commands of the real ones (tests/packages). The tests of each of the three build
on each other.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
import slurm_guest

pytestmark = pytest.mark.soak

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = "/srv/packages"
MIRROR, BREAKS_OFF = "http://127.0.0.1:8401", "http://127.0.0.1:8402"
OLD, NEW = "3.5.0-1", "4.1.2-1"
SETTINGS = "/etc/enroot/enroot.conf.d/50-gpu_node.conf"
PLUGIN = "/opt/gpu_node/pyxis/spank_pyxis.so"
SLURM_CONF = (
    """ClusterName=virtual
SlurmctldHost={name}(127.0.0.1)
"""
    + slurm_guest.DAEMONS
    + """ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SlurmdParameters=config_overrides
NodeName={name} NodeAddr=127.0.0.1 CPUs=4 Sockets=4 CoresPerSocket=1 ThreadsPerCore=1 RealMemory=1500
PartitionName=all Nodes=ALL Default=YES State=UP
"""
)
STOP_SLURM = r"""
systemctl stop slurmd slurmctld munge
rm -rf /etc/slurm/slurm.conf /etc/munge/munge.key /var/lib/slurm/slurmctld /var/lib/slurm/slurmd
userdel -r trainee 2>/dev/null
true
"""
# A maintenance release of Slurm as a node sees it: its programs tell another number, and so do its headers. Both
# numbers have the same length, so the library that the programs take theirs from stays whole. Debian has one release
# only, and the node has no way to the Internet.
RENUMBER = r"""
set -e
library=$(ls /usr/lib/*/slurm-wlm/libslurmfull.so)
LC_ALL=C sed -i 's/{old}/{new}/g' "$library"
sed -i 's/^\(#define SLURM_VERSION_NUMBER\s*\)0x.*/\1{number}/' /usr/include/slurm/slurm_version.h
srun --version
"""
OTHER_MPI = {
    "/etc/environment-modules/modules/openmpi/4.1": "#%Module1.0\nsetenv OTHER_MPI yes\n",
    "/etc/lmod/modules/openmpi/4.1.lua": 'setenv("OTHER_MPI", "yes")\n',
}
SHOW = 'echo "$LOADEDMODULES|$(command -v mpirun)|${OMPI_MCA_coll_hcoll_enable-}|${OTHER_MPI-}|${HPCX_DIR-}"'


class Guest:
    def __init__(self, node, given):
        self.node, self.given = node, given
        self.ssh, self.module = node.ssh, node.module

    def tree(self, name):
        """What lies on the node, by the same script as in the Molecule scenario."""
        self.ssh("rm -f /run/tree-{0}; sh {1}/snapshot /run/tree-{0}".format(name, PACKAGES))
        return self.ssh("cat /run/tree-{0}".format(name)).stdout.splitlines()

    def enroot(self, version=None, mirror=MIRROR, **options):
        packages = [
            dict(one, source=one["source"].replace(PACKAGES, mirror)) for one in self.given["packages_enroot"][version]
        ]
        return self.module("enroot", packages=packages, **options)

    def pyxis(self, **options):
        return self.module("pyxis", **dict(self.given["packages_pyxis"], **options))

    def slurmd(self):
        return self.ssh("systemctl show slurmd -p MainPID --value").stdout.strip()

    def wait_idle(self, seconds=120):
        deadline = time.monotonic() + seconds
        while self.ssh("sinfo -h -N -o %T; squeue -h", check=False).stdout.split() != ["idle"]:
            assert time.monotonic() < deadline, self.ssh("sinfo -R; squeue; tail -n 20 /var/log/slurm/*.log").stdout
            time.sleep(1)


@pytest.fixture(scope="module")
def guest(shared_node, tmp_path_factory):
    folder = tmp_path_factory.mktemp("comm") / "packages"
    subprocess.run([sys.executable, str(REPOSITORY / "tests/packages/build.py"), str(folder)], check=True, timeout=120)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in (*folder.iterdir(), REPOSITORY / "tests/packages/mirror.py"):
            archive.add(str(path), arcname=path.name)
        archive.add(str(REPOSITORY / "extensions/molecule/shared/snapshot"), arcname="snapshot")
    command = "mkdir -p {0} && tar -x --no-same-owner -C {0}".format(PACKAGES)
    done = shared_node.node.ssh(command, 120, packed.getvalue())
    assert done.returncode == 0, done.stderr
    ports = [one.rsplit(":", 1)[1] for one in (MIRROR, BREAKS_OFF)]
    run = "systemd-run --quiet --unit=comm-mirror python3 {0}/mirror.py {0} {1}"
    shared_node.ssh(run.format(PACKAGES, " ".join(ports)))
    yield Guest(shared_node, json.loads((folder / "variables.json").read_text()))
    shared_node.ssh("systemctl stop comm-mirror; rm -rf {0} /run/tree-*".format(PACKAGES))


@pytest.fixture(scope="module")
def slurm(guest):
    """A controller and a node in one, idle."""
    guest.node.write("/etc/slurm/slurm.conf", SLURM_CONF.format(name=guest.node.name))
    try:
        guest.ssh(slurm_guest.PREPARE + "systemctl start slurmctld slurmd", timeout=300)
        guest.wait_idle()
        yield guest
    finally:
        guest.ssh(STOP_SLURM)


def kinds(result):
    return [one["action"] for one in result["actions"]]


# enroot -------------------------------------------------------------------------------------------------


def test_enroot_comes_from_the_mirror_and_then_nothing_changes(guest):
    guest.before_enroot = guest.tree("before_enroot")
    planned = guest.enroot(OLD, check=True)
    assert planned["changed"] and guest.tree("planned") == guest.before_enroot
    made = guest.enroot(OLD)
    assert made["changed"] and made["version"] == OLD, made
    assert guest.ssh("enroot version; dpkg-query -W -f '${Version}' enroot+caps").stdout == "3.5.0\n" + OLD
    assert not guest.enroot(OLD)["changed"]


@pytest.mark.parametrize("how", ["wrong sum", "breaks off", "not there"])
def test_a_version_that_cannot_be_had_leaves_the_old_one_working(guest, how):
    standing = guest.tree("standing")
    if how == "wrong sum":
        guest.given["packages_enroot"]["wrong"] = [
            dict(one, sha256="0" * 64) for one in guest.given["packages_enroot"][NEW]
        ]
        failed, told = guest.enroot("wrong"), "its sha256 is"
    elif how == "breaks off":
        failed, told = guest.enroot(NEW, BREAKS_OFF), "mirror"
    else:
        failed, told = guest.enroot(NEW, "http://127.0.0.1:8403"), "mirror"
    assert failed["failed"] and told in failed["msg"] and "Traceback" not in failed["msg"], failed
    assert guest.tree("standing") == standing
    assert guest.ssh("enroot version").stdout == "3.5.0\n"


def test_a_changed_setting_is_what_enroot_reads(guest):
    result = guest.enroot(OLD, settings={"ENROOT_MOUNT_HOME": "yes", "ENROOT_DATA_PATH": "/srv/containers/$(id -un)"})
    assert kinds(result) == ["write_file"], result
    guest.ssh("bash -n " + SETTINGS)
    read = "bash -c 'set -- version; . /usr/bin/enroot >/dev/null; echo $ENROOT_MOUNT_HOME $ENROOT_DATA_PATH'"
    assert guest.ssh(read).stdout == "yes /srv/containers/root\n"


def test_enroot_is_upgraded(guest):
    result = guest.enroot(NEW)
    assert "install_packages" in kinds(result) and result["version"] == NEW, result
    assert guest.ssh("enroot version").stdout == "4.1.2\n"
    assert not guest.enroot(NEW)["changed"]


def test_enroot_is_removed_without_a_trace(guest):
    assert guest.module("enroot", state="absent")["changed"]
    assert guest.tree("after_enroot") == guest.before_enroot
    assert not guest.module("enroot", state="absent")["changed"]


# HPC-X as a module --------------------------------------------------------------------------------------


def test_hpcx_is_loaded_unloaded_and_refused_beside_another_mpi(guest):
    before = guest.tree("before_hpcx")
    assert guest.module("hpcx", **guest.given["packages_hpcx"])["changed"]
    (other,) = [path for path in OTHER_MPI if guest.ssh("ls -d " + path.split("/openmpi")[0], check=False).stdout]
    guest.node.write(other, OTHER_MPI[other])
    show = "{0}; module load mpi/hpcx; {0}; mpirun; module unload mpi/hpcx; {0}"
    without, loaded, version, unloaded = guest.ssh("bash -lc '{0}'".format(show.format(SHOW))).stdout.splitlines()
    assert loaded == "mpi/hpcx|/opt/hpcx/2.24.1/ompi/bin/mpirun|0||/opt/hpcx/2.24.1" and version == "2.24.1"
    assert unloaded == without
    script = "module load openmpi/4.1; module load mpi/hpcx; {0}".format(SHOW)
    refused = guest.ssh("bash -lc '{0}' 2>&1".format(script), check=False).stdout
    assert refused.splitlines()[-1] == without.replace("|||", "||yes|").replace("|", "openmpi/4.1|", 1), refused
    assert "openmpi" in "".join(refused.splitlines()[:-1]), refused  # the reason is told
    guest.ssh("rm -r $(dirname {0})".format(other))
    assert guest.module("hpcx", state="absent")["changed"]
    assert guest.tree("after_hpcx") == before


# pyxis under Slurm --------------------------------------------------------------------------------------


def needs_compiler(guest):
    if guest.ssh("command -v gcc", check=False).returncode != 0:
        pytest.skip("this suite's guest has no compiler")


def container_of(guest, image):
    step = "cd /tmp && runuser -u trainee -- timeout 90 srun --container-image={0} printenv CONTAINER_IMAGE_OF_STEP"
    return guest.ssh(step.format(image), check=False, timeout=120).stdout.strip()


def test_pyxis_is_built_and_a_step_has_it(slurm):
    needs_compiler(slurm)
    slurm.before_pyxis = slurm.tree("before_pyxis")
    first = slurm.slurmd()
    assert "--container-image" not in slurm.ssh("srun --help").stdout
    made = slurm.pyxis()
    assert "build_plugin" in kinds(made) and kinds(made)[-1] == "restart_slurmd", made
    assert made["built_for"] == made["slurm_version"] and made["plugstack_reached"] and not made["restart_pending"]
    second = slurm.slurmd()
    assert second not in ("0", first)
    slurm.wait_idle()
    assert "--container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH" in slurm.ssh("srun --help").stdout
    assert container_of(slurm, "nvcr.io#nvidia/pytorch:25.02-py3") == "nvcr.io#nvidia/pytorch:25.02-py3"
    again = slurm.pyxis()
    assert not again["changed"] and not again["restart_pending"] and slurm.slurmd() == second


def test_new_options_wait_for_the_end_of_a_job_and_slurmd_is_restarted_once(slurm):
    needs_compiler(slurm)
    slurm.wait_idle()
    before = slurm.slurmd()
    slurm.ssh("cd /tmp && runuser -u trainee -- sbatch -Q -o /dev/null --wrap 'sleep 900'")
    deadline = time.monotonic() + 90
    while slurm.ssh("squeue -h -o %T").stdout.strip() != "RUNNING":
        assert time.monotonic() < deadline
        time.sleep(1)
    for _run in range(2):
        waiting = slurm.pyxis(options={"container_scope": "job"})
        assert not waiting["changed"] and slurm.slurmd() == before, waiting
        assert any("job" in note for note in waiting["notes"]), waiting
    slurm.ssh("scancel --user=trainee")
    slurm.wait_idle()
    due = slurm.pyxis(options={"container_scope": "job"})
    assert kinds(due)[-1] == "restart_slurmd" and kinds(due).count("restart_slurmd") == 1, due
    assert not due["restart_pending"], due
    after = slurm.slurmd()
    assert after not in ("0", before)
    last = slurm.pyxis(options={"container_scope": "job"})
    assert not last["changed"] and not last["restart_pending"] and slurm.slurmd() == after


def test_an_upgrade_of_slurm_is_exactly_one_build(slurm):
    needs_compiler(slurm)
    slurm.wait_idle()
    old = re.search(r"\d+\.\d+\.\d+", slurm.ssh("srun --version").stdout).group(0)
    major, minor, micro = old.split(".")
    new = "{0}.{1}.{2}".format(major, minor, (int(micro) + 1) % 10)
    number = "0x{0:02x}{1:02x}{2:02x}"
    try:
        told = slurm.ssh(RENUMBER.format(old=old, new=new, number=number.format(*map(int, new.split(".")))))
        assert new in told.stdout
        options = {"options": {"container_scope": "job"}}
        upgraded = slurm.pyxis(**options)
        assert kinds(upgraded) == ["fetch_source", "build_plugin", "restart_slurmd"], upgraded
        assert upgraded["built_for"] == new and not upgraded["restart_pending"]
        assert not slurm.pyxis(**options)["changed"] and not slurm.pyxis(**options)["changed"]
        slurm.wait_idle()
        assert container_of(slurm, "ubuntu") == "ubuntu"
    finally:
        slurm.ssh(RENUMBER.format(old=new, new=old, number=number.format(*map(int, old.split(".")))))


def test_a_build_that_fails_leaves_the_plugin_that_works(slurm):
    needs_compiler(slurm)
    options = {"options": {"container_scope": "job"}}
    slurm.pyxis(**options)
    slurm.wait_idle()
    slurm.ssh(
        "cd {0} && tar -xf pyxis.tar && echo '#error no' >>pyxis-0.24.0/pyxis.c && tar -cf bad.tar pyxis-0.24.0".format(
            PACKAGES
        )
    )
    digest = slurm.ssh("sha256sum {0}/bad.tar".format(PACKAGES)).stdout.split()[0]
    before = slurm.ssh("sha256sum " + PLUGIN).stdout
    failed = slurm.pyxis(source=PACKAGES + "/bad.tar", sha256=digest, **options)
    assert failed["failed"] and "error: #error no" in failed["msg"], failed
    assert slurm.ssh("sha256sum " + PLUGIN).stdout == before
    assert container_of(slurm, "ubuntu") == "ubuntu"
    slurm.ssh("rm -r {0}/bad.tar {0}/pyxis-0.24.0".format(PACKAGES))


def test_pyxis_is_removed_without_a_trace(slurm):
    needs_compiler(slurm)
    slurm.wait_idle()
    gone = slurm.module("pyxis", state="absent")
    assert gone["changed"] and kinds(gone)[-1] == "restart_slurmd", gone
    assert slurm.tree("after_pyxis") == slurm.before_pyxis
    assert "--container-image" not in slurm.ssh("srun --help").stdout
    slurm.wait_idle()
    assert container_of(slurm, "ubuntu") == ""
    assert not slurm.module("pyxis", state="absent")["changed"]
