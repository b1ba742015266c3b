# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The communication stack as the programs see it that read its files: Lmod, systemd, udev, enroot, srun, bash."""

from __future__ import annotations

import shlex

# As the real enroot knows them; a key that is not here would be passed over without a word.
ENROOT_KEYS = {
    "ENROOT_RUNTIME_PATH",
    "ENROOT_CACHE_PATH",
    "ENROOT_DATA_PATH",
    "ENROOT_TEMP_PATH",
    "ENROOT_SQUASH_OPTIONS",
    "ENROOT_ROOTFS_WRITABLE",
    "ENROOT_RESTRICT_DEV",
    "ENROOT_MOUNT_HOME",
    "MELLANOX_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
}
SHOW = 'echo "$LOADEDMODULES|$(command -v mpirun)|${OMPI_MCA_coll_hcoll_enable-}|${OTHER_MPI-}|${HPCX_DIR-}"'


def login(host, script):
    """What a login shell of bash prints; modules tell their errors there, too."""
    return host.run("bash -lc {0} 2>&1".format(shlex.quote(script)))


def test_check_mode_had_changed_nothing(host):
    assert host.run("diff /run/before_all /run/before_rdma").stdout == ""


def test_hpcx_is_loaded_and_unloaded(host):
    told = login(host, "{0}; module load mpi/hpcx; {0}; mpirun; module unload mpi/hpcx; {0}".format(SHOW))
    without, loaded, version, unloaded = told.stdout.splitlines()
    folder = "/opt/hpcx/2.24.1"
    assert loaded == "mpi/hpcx|{0}/ompi/bin/mpirun|0||{0}".format(folder)
    assert version == "2.24.1"
    assert unloaded == without == "||||"


def test_hpcx_is_not_loaded_beside_another_mpi(host):
    told = login(host, "module load openmpi/4.1; module load mpi/hpcx; {0}".format(SHOW)).stdout
    *reason, shown = told.splitlines()
    assert shown == "openmpi/4.1|||yes|" and "openmpi" in "".join(reason), told


def test_nccl_and_limits(host):
    assert "NCCL_DEBUG=WARN" in host.file("/etc/nccl.conf").content_string.splitlines()
    assert login(host, "echo $CUDA_DEVICE_ORDER").stdout == "PCI_BUS_ID\n"
    shown = host.check_output("systemctl show slurmd -p LimitMEMLOCK -p LimitNOFILE -p LimitSTACK").splitlines()
    assert sorted(shown) == ["LimitMEMLOCK=infinity", "LimitNOFILE=1048576", "LimitSTACK=infinity"]
    assert host.check_output("sysctl -n vm.zone_reclaim_mode net.ipv4.neigh.default.gc_thresh3") == "1\n16384"


def test_the_files_of_rdma_are_read_by_modprobe_and_udev(host):
    # What modprobe would do: with /bin/true in its place the module is not loaded.
    assert host.check_output("modprobe --show-depends ib_ipoib").split("\n")[-1].strip() == "install /bin/true"
    assert host.run("udevadm verify /etc/udev/rules.d/60-rdma-persistent-naming.rules").rc == 0


def test_enroot_is_installed_and_reads_what_was_written(host):
    assert host.check_output("enroot version") == "4.1.2"
    assert host.package("enroot+caps").version == "4.1.2-1"
    text = host.file("/etc/enroot/enroot.conf.d/50-gpu_node.conf").content_string
    keys = [line.split()[0] for line in text.splitlines() if not line.startswith("#")]
    assert set(keys) <= ENROOT_KEYS and len(keys) == len(set(keys)) > 5
    for path in ("enroot.conf", "enroot.conf.d/50-gpu_node.conf", "environ.d/50-gpu_node.env"):
        assert host.run("bash -n /etc/enroot/" + path).rc == 0
    assert "/var/lib/enroot/data/0" in host.check_output("bash -x /usr/bin/enroot version 2>&1")


def test_srun_has_the_option_of_pyxis(host):
    assert host.file("/etc/slurm/plugstack.conf.d/50-gpu_node_pyxis.conf").content_string.splitlines()[1:] == [
        "required /opt/gpu_node/pyxis/spank_pyxis.so container_scope=job"
    ]
    assert "--container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH" in host.check_output("srun --help")


def test_job_scripts_are_shell_that_can_be_read(host):
    found = host.check_output("ls /usr/local/share/gpu_node/jobs/*.sh").split()
    assert "/usr/local/share/gpu_node/jobs/mpi-check.sh" in found
    assert host.run("for file in {0}; do bash -n $file || exit 1; done".format(" ".join(found))).rc == 0
