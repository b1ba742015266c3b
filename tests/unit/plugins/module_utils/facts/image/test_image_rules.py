# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The software of an image: four images in good health, and each wrong pair in them told as what it is, and nothing
else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.image import answer as image
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.image import rules, types
from ansible_collections.trainyard.gpu_node.tests.unit.data.image import images
from ansible_collections.trainyard.gpu_node.tests.unit.data.image.binaries import elf, module
from ansible_collections.trainyard.gpu_node.tests.unit.data.image.images import LIB, LIB64

HPCX = "/opt/hpcx-v2.18-gcc-mlnx_ofed-ubuntu22.04-cuda12-x86_64"
AZURE_KERNEL = "5.15.0-1064-azure"


def problems(root):
    return image.judge(image.look(Host(str(root.path))))


@pytest.mark.parametrize("name", images.IMAGES)
def test_an_image_in_good_health_is_silent(tmp_path, name):
    assert [str(one) for one in problems(images.IMAGES[name](tmp_path))] == []


@pytest.mark.parametrize(
    "name, known",
    [
        (
            "azure_hpc",
            {
                "distribution": "ubuntu 22.04",
                "driver": "535.161.08",
                "driver_kind": "proprietary",
                "fabric_manager": "535.161.08",
                "cuda": "12.2.2",
                "nccl": "2.19.3",
                "nccl_cuda": "12.2",
                "ofed": "MLNX_OFED_LINUX-24.01-0.3.3.1",
                "hpcx": "2.18",
                "openmpi": "4.1.7",
                "mvapich": "2.3.7",
                "intel_mpi": "2021.9.0",
                "pmix": "4.2.9",
                "slurm": "23.11.7",
                "gdrcopy": "2.4",
                "azure_hpc": "CUDA 12.2, OFED 24.01-0.3.3.1",
            },
        ),
        (
            "dgx_os",
            {
                "driver": "550.90.07",
                "driver_kind": "open",
                "cuda": "12.4.1",
                "cuda_toolkits": "11.8.0, 12.4.1",
                "docker": "26.1.3-1~ubuntu.22.04~jammy",
                "ofed": "2.7.0",
                "dgx": "6.2.0",
            },
        ),
        (
            "el9",
            {
                "distribution": "rocky 9.4",
                "nccl": "2.25.1",
                "nccl_cuda": "12.8",
                "openmpi": "4.1.1",
                "ucx": "1.15.0",
                "slurm": "22.05.9",
                "dcgm": "4.1.1-1",
            },
        ),
        ("bare_debian", {"distribution": "debian 12", "kernel": "6.1.0-28-amd64", "rdma_core": "44.0-2"}),
    ],
)
def test_versions_of_an_image(tmp_path, name, known):
    found = image.versions(image.look(Host(str(images.IMAGES[name](tmp_path).path))))
    assert {one: found.get(one) for one in known} == known
    if name == "bare_debian":
        assert found == known


def _driver(version, kind="proprietary"):
    def broken(root):
        root.driver(version, kind)
        for name in ("libcuda.so", "libnvidia-ml.so"):
            folder = LIB if root.at(LIB).exists() else LIB64
            root.file("{0}/{1}.{2}".format(folder, name, version))
            root.link("{0}/{1}.1".format(folder, name), "{0}.{1}".format(name, version))

    return broken


def _other_library(root):
    root.file(LIB + "/libnvidia-ml.so.535.183.01")
    root.link(LIB + "/libnvidia-ml.so.1", "libnvidia-ml.so.535.183.01")


def _no_module(root):
    """As a kernel update leaves it: nothing for this kernel, and nothing loaded."""
    for path in ("/proc/driver/nvidia/version", "/sys/module/nvidia/version"):
        root.remove(path)
    root.file("/lib/modules/5.15.0-1046-nvidia/modules.dep", "kernel/drivers/net/dummy.ko:\n")


def _dkms_unbuilt(name, *kept):
    def broken(root):
        folder = root.at("/var/lib/dkms/" + name)
        for version in folder.iterdir():
            (version / AZURE_KERNEL).rename(version / "5.15.0-1063-azure")
        root.file(
            "/lib/modules/{0}/modules.dep".format(AZURE_KERNEL),
            "".join("updates/dkms/{0}.ko:\n".format(one) for one in kept),
        )

    return broken


def _nvidia_unbuilt(root):
    _dkms_unbuilt("nvidia", "gdrdrv", "mlx5_core")(root)
    for path in ("/proc/driver/nvidia/version", "/sys/module/nvidia/version"):
        root.remove(path)


def _next_kernel(root):
    root.kernel("5.15.0-1068-azure", ("updates/dkms/mlx5_core.ko",), running=False)


def _open_on_v100(root):
    root.driver("570.86.15", "open")
    root.file("/lib/firmware/nvidia/570.86.15/gsp_tu10x.bin")


def _open_590(root):
    """The newer branch has the open module only."""
    _driver("590.48.01", "open")(root)
    root.file("/lib/firmware/nvidia/590.48.01/gsp_tu10x.bin")


def _older(device, version):
    def broken(root):
        root.pci((device,) * 4)
        _driver(version)(root)

    return broken


def _proprietary_on_b200(root):
    root.pci(("2901",) * 8, switches=4)
    root.driver("550.90.07", "proprietary")


def _fabric_manager(root):
    root.dpkg({"nvidia-fabricmanager-535": "535.183.01-1", "slurm-smd-slurmd": "23.11.7-1"})


def _no_fabric_manager(root):
    root.dpkg({"libnccl2": "2.19.3-1+cuda12.2"})
    root.remove("/usr/bin/nv-fabricmanager")


def _without_peermem(root):
    root.loaded("nvidia", "mlx5_core")
    root.at("/sys/module/nvidia_peermem").rmdir()


def _two_mpis(root):
    root.program("/opt/mvapich-4.0/bin/mpirun")
    root.program("/opt/mvapich-4.0/bin/mpicc")
    root.file("/etc/profile.d/zz-mvapich.sh", "PATH=/opt/mvapich-4.0/bin:$PATH\n")
    root.remove("/opt/mvapich-4.0/bin/mpicc")


#: A fault of an image, and all that is told of it: rule, outcome, and words of the sentence.
FAULTS = {
    "driver_library": ("azure_hpc", _other_library, "fail", "libraries are of 535.183.01", "is of 535.161.08"),
    "driver_module": ("dgx_os", _no_module, "fail", "libraries are of 550.90.07", "kernel 5.15.0-1046-nvidia has no"),
    "dkms/nvidia": ("azure_hpc", _nvidia_unbuilt, "fail", "DKMS module nvidia", "535.161.08", AZURE_KERNEL),
    "dkms/gdrdrv": (
        "azure_hpc",
        _dkms_unbuilt("gdrdrv", "nvidia", "mlx5_core"),
        "warn",
        "DKMS module gdrdrv",
        "2.4.1",
        AZURE_KERNEL,
    ),
    "next_kernel": ("azure_hpc", _next_kernel, "warn", "kernel 5.15.0-1068-azure", "no module nvidia"),
    "module_kind": ("el9", _open_on_v100, "fail", "is the open one", "Volta (V100)"),
    "module_kind/b200": ("dgx_os", _proprietary_on_b200, "fail", "is the proprietary one", "Blackwell"),
    "last_branch": ("el9", _driver("590.48.01"), "fail", "it is of 590.48.01", "580 is the last branch"),
    "last_branch/open": ("el9", _open_590, "fail", "580 is the last branch"),
    "last_branch/m60": ("el9", _older("13f2", "590.48.01"), "fail", "580 is the last branch", "Maxwell"),
    "last_branch/k80": ("el9", _older("102d", "570.86.15"), "fail", "470 is the last branch", "Kepler"),
    "gsp_firmware": (
        "dgx_os",
        lambda root: root.remove("/lib/firmware/nvidia/550.90.07/gsp_ga10x.bin"),
        "fail",
        "firmware",
    ),
    "nouveau": ("azure_hpc", lambda root: root.loaded("nvidia", "nvidia_peermem", "nouveau"), "fail", "nouveau"),
    "fabric_manager": ("azure_hpc", _fabric_manager, "fail", "it is of 535.183.01", "driver is of 535.161.08"),
    "fabric_manager/none": ("azure_hpc", _no_fabric_manager, "fail", "has NVSwitches", "not installed"),
    "cuda_driver": ("azure_hpc", lambda root: root.cuda("13.0.1"), "fail", "CUDA 13.0.1", "driver 580", "535.161.08"),
    "cuda_driver/other": (
        "azure_hpc",
        lambda root: root.cuda("13.0.1", default=False),
        "warn",
        "/usr/local/cuda-13.0",
        "driver 580",
    ),
    "cuda_ptx": ("azure_hpc", lambda root: root.cuda("12.4.1"), "warn", "CUDA 12.4.1", "made with CUDA 12.2"),
    "nccl_cuda": (
        "dgx_os",
        lambda root: root.nccl("/usr/local/nccl/lib", "2.28.3", "13.0"),
        "warn",
        "CUDA 13.0",
        "11 and 12",
    ),
    "nccl_minimum": ("el9", lambda root: root.nccl(LIB64, "2.11.4", "12.8"), "warn", "libnccl 2.11.4", "before 2.12"),
    "peermem": ("azure_hpc", _without_peermem, "warn", "neither nvidia-peermem is loaded nor DMA-BUF", "modprobe"),
    "sharp_plugin": (
        "azure_hpc",
        lambda root: root.remove(HPCX + "/sharp/lib/libsharp_coll.so.5"),
        "warn",
        "libsharp_coll.so.5, which is not found",
    ),
    "mpi_ucx": ("el9", lambda root: root.remove(LIB64 + "/libucp.so.0.0.0"), "fail", "libucp.so.0 of UCX"),
    "one_mpi": ("dgx_os", _two_mpis, "warn", "mpirun is /opt/mvapich-4.0/bin/mpirun", "mpicc is /usr/mpi/gcc"),
    "pmix": ("azure_hpc", lambda root: root.remove("/opt/pmix/4.2.9/lib/libpmix.so"), "fail", "/opt/pmix/4.2.9"),
    # As Debian 12 builds it: the folder is a string of its own, and libpmix.so.2 is in the search path of ld.so.
    "pmix/folder": (
        "el9",
        lambda root: root.file(
            LIB64 + "/slurm/mpi_pmix_v4.so", elf(sections={".rodata": b"libpmix.so\0/usr/lib64/pmix2/lib\0"})
        ),
        "fail",
        "does not find /usr/lib64/pmix2/lib/libpmix.so",
    ),
    "pmix/none": ("el9", lambda root: root.remove(LIB64 + "/slurm/mpi_pmix.so"), "fail", "no plugin mpi_pmix.so"),
    "container_cli": (
        "dgx_os",
        lambda root: root.at("/usr/bin/nvidia-container-cli").chmod(0o750),
        "fail",
        "only root",
    ),
    "container_cli/library": (
        "dgx_os",
        lambda root: root.file("/usr/bin/nvidia-container-cli", elf(("libnvidia-container-go.so.1",)), 0o755),
        "fail",
        "libnvidia-container-go.so.1, which is not found",
    ),
    "broken_link": (
        "azure_hpc",
        lambda root: root.link("/usr/local/cuda-11.8", "/opt/cuda-11.8"),
        "warn",
        "/usr/local/cuda-11.8",
        "leads to /opt/cuda-11.8",
    ),
}
#: What a fault has for another one that it brings with it: a library that is gone leaves a link to it.
WITH = {"mpi_ucx": ("broken_link",)}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_pair_is_told_and_nothing_else(tmp_path, fault):
    name, break_it, outcome, *words = FAULTS[fault]
    root = images.IMAGES[name](tmp_path)
    break_it(root)
    told = problems(root)
    rule = fault.split("/")[0]
    assert {one.rule for one in told} == {rule, *WITH.get(rule, ())}, [str(one) for one in told]
    found = [one for one in told if one.rule == rule]
    assert [one.outcome for one in found] in ([outcome], [outcome] * 2), [str(one) for one in found]
    for word in words:
        assert word in str(found[0]), str(found[0])


def test_every_rule_has_a_fault_that_it_tells():
    assert {one.id for one in rules.RULES} == {fault.split("/")[0] for fault in FAULTS}
    assert all(one.source for one in rules.RULES)
    assert {one.about for one in rules.RULES} == {"driver", "cuda", "communication", "containers", "links"}


# What is no fault ---------------------------------------------------------------------------------------


def test_the_package_for_older_drivers_makes_a_new_toolkit_fit(tmp_path):
    root = images.azure_hpc(tmp_path)
    root.cuda("13.0.1")
    root.file("/usr/local/cuda-13.0/compat/libcuda.so.1")
    assert problems(root) == ()


def test_dma_buf_stands_in_for_peermem(tmp_path):
    root = images.dgx_os(tmp_path)
    root.loaded("nvidia", "mlx5_core")
    root.at("/sys/module/nvidia_peermem").rmdir()
    assert problems(root) == ()


def test_an_older_version_that_dkms_still_has_need_not_be_built(tmp_path):
    root = images.azure_hpc(tmp_path)
    root.dkms("gdrdrv", "2.3", "5.15.0-1063-azure", ("gdrdrv",))
    root.file(
        "/lib/modules/{0}/modules.dep".format(AZURE_KERNEL), "updates/dkms/nvidia.ko:\nupdates/dkms/mlx5_core.ko:\n"
    )
    assert problems(root) == ()


def test_a_driver_newer_than_the_table_is_not_called_too_old(tmp_path):
    root = images.dgx_os(tmp_path)
    root.cuda("13.9.0")
    _driver("999.10.01", "open")(root)
    root.file("/lib/firmware/nvidia/999.10.01/gsp_ga10x.bin")
    root.dpkg({"nvidia-fabricmanager-999": "999.10.01-1"})
    assert problems(root) == ()


def test_a_builder_without_gpus_and_without_the_driver_loaded(tmp_path):
    """As Packer has it: the module lies on the disk, and tells version and kind."""
    root = images.azure_hpc(tmp_path)
    for path in ("/proc/driver/nvidia/version", "/sys/module/nvidia/version", "/proc/modules"):
        root.remove(path)
    found = image.look(Host(str(tmp_path)))
    assert (found.driver.loaded, found.driver.module, found.driver.kind) == (None, "535.161.08", "proprietary")
    assert image.judge(found) == ()
    path = "/lib/modules/{0}/updates/dkms/nvidia.ko".format(AZURE_KERNEL)
    root.file(path, module("535.183.01", "Dual MIT/GPL"))
    found = image.look(Host(str(tmp_path)))
    assert (found.driver.module, found.driver.kind) == ("535.183.01", "open")
    assert [one.rule for one in image.judge(found)] == ["driver_library", "gsp_firmware", "fabric_manager"]


def test_a_second_look_at_the_same_image_is_the_same(tmp_path):
    root = images.azure_hpc(tmp_path)
    first, second = (image.look(Host(str(root.path))) for dummy in range(2))
    assert first == second
    told = image.to_dict(first, image.judge(first))
    assert json.loads(json.dumps(told)) == told and told["schema"] == image.SCHEMA


# Trees that are not what they should be ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "path, content",
    [
        ("/etc/ld.so.cache", b"glibc-ld.so.cache1.1\xff\xff\xff\xff\xff\xff\xff\xff"),
        ("/etc/ld.so.cache", b""),
        ("/usr/local/cuda-12.2/version.json", b"[]"),
        ("/usr/local/cuda-12.2/version.json", b'{"cuda": {"version": []}}'),
        ("/opt/azurehpc/component_versions.txt", b"\xff\xfe{"),
        ("/opt/azurehpc/component_versions.txt", b"[1]"),
        ("/etc/gpu_node/node.json", b"[]"),
        ("/etc/gpu_node/node.json", b'{"job_templates": {"files": 7}}'),
        (LIB + "/libnccl.so.2.19.3", b"\x7fELF\x02\x01" + b"\xff" * 90),
        (HPCX + "/ompi/lib/openmpi/mca_pml_ucx.so", b"\x7fELF"),
        ("/var/lib/dpkg/status", b"Package: libnccl2\n"),
        ("/proc/driver/nvidia/version", b"\xff"),
        ("/etc/os-release", b"\xff\x00="),
    ],
)
def test_a_damaged_file_ends_no_look(tmp_path, path, content):
    root = images.azure_hpc(tmp_path)
    root.file(path, content)
    found = image.look(Host(str(tmp_path)))
    assert found.distribution or path == "/etc/os-release"
    json.dumps(image.to_dict(found, image.judge(found)))


def test_a_damaged_database_of_rpm_is_a_note(tmp_path):
    root = images.el9(tmp_path)
    root.file("/var/lib/rpm/rpmdb.sqlite", b"no database at all" * 100)
    found = image.look(Host(str(tmp_path)))
    assert len(found.notes) == 1 and "cannot be read" in found.notes[0]
    root.remove("/var/lib/rpm/rpmdb.sqlite")
    root.file("/var/lib/rpm/Packages", b"\0")
    assert "Berkeley DB" in image.look(Host(str(tmp_path))).notes[0]


_TEXTS = (
    st.none()
    | st.sampled_from(["", "abc", "0", "13", "12.4.1", "535.161.08", "600", "v9", ".", "1.", "-1"])
    | st.text()
)


@given(st.data())
def test_whatever_versions_say_judging_ends_in_sentences(data):
    """What a file holds is not ours to choose; a version that is none is no version."""

    def text():
        return data.draw(_TEXTS)

    found = types.Image(
        kernel=text(),
        gpu_ids=("10de:1db5", "10de:2901", "10de:", text() or ""),
        nvswitches=1,
        rdma_devices=("mlx5_0",),
        driver=types.Driver(text(), text(), text(), text(), data.draw(st.sampled_from(["open", "proprietary", None]))),
        toolkits=(types.Toolkit("/usr/local/cuda-1", text(), True), types.Toolkit("/usr/local/cuda-2", text())),
        nccl=(types.Library("/usr/lib/libnccl.so.2", text(), text()),),
        dkms=(types.Dkms("nvidia", text() or "", False),),
    )
    assert all(str(one).isprintable() for one in image.judge(found))
    json.dumps(image.to_dict(found, image.judge(found)))


def test_a_text_that_is_no_version_is_not_called_too_old():
    nccl = (types.Library("/usr/lib/libnccl.so.2", "new"),)
    for version, toolkit in (("535.161.08", "new"), ("new", "13.0")):
        toolkits = (types.Toolkit("/usr/local/cuda-1", toolkit, True),)
        found = types.Image(driver=types.Driver(version), toolkits=toolkits, nccl=nccl)
        assert image.judge(found) == ()


def test_an_empty_root(tmp_path):
    found = image.look(Host(str(tmp_path)))
    assert image.judge(found) == () and image.versions(found) == {}


# What runs decides, and not the files ----------------------------------------------------------------------

INFORMATION = (
    "Model: \t\t NVIDIA H100 80GB HBM3\nVideo BIOS: \t 96.00.da.00.0c\nGPU Firmware: \t {0}\nGPU Excluded:\t No\n"
)


def _without_firmware(tmp_path):
    root = images.dgx_os(tmp_path)
    root.remove("/lib/firmware/nvidia/550.90.07/gsp_ga10x.bin")
    return root


@pytest.mark.parametrize(("firmware", "rules"), [("550.90.07", []), ("N/A", ["gsp_firmware"])])
def test_the_firmware_that_runs_counts_wherever_its_files_are(tmp_path, firmware, rules):
    root = _without_firmware(tmp_path)
    root.file("/proc/driver/nvidia/gpus/0001:00:00.0/information", INFORMATION.format(firmware))
    assert [one.rule for one in problems(root)] == rules


@pytest.mark.parametrize(
    "folder",
    [
        "/lib/firmware/updates/nvidia/550.90.07",
        "/lib/firmware/5.15.0-1046-nvidia/nvidia/550.90.07",
        "/run/nvidia/driver/lib/firmware/nvidia/550.90.07",
    ],
)
def test_firmware_is_searched_in_the_directories_of_the_kernel(tmp_path, folder):
    root = _without_firmware(tmp_path)
    root.file("/sys/module/firmware_class/parameters/path", "/run/nvidia/driver/lib/firmware\n")
    assert [one.rule for one in problems(root)] == ["gsp_firmware"]
    root.file(folder + "/gsp_ga10x.bin.xz")
    assert [one.rule for one in problems(root)] == []


@pytest.mark.parametrize("fault", ["module_kind", "module_kind/b200", "last_branch", "last_branch/k80"])
def test_a_gpu_that_the_loaded_driver_has_accepted_needs_no_other_driver(tmp_path, fault):
    name, break_it, dummy, *words = FAULTS[fault]
    root = images.IMAGES[name](tmp_path)
    break_it(root)
    before = [one.rule for one in problems(root)]
    assert fault.split("/")[0] in before
    for address in Host(str(root.path)).names("/sys/bus/pci/devices"):
        root.file("/proc/driver/nvidia/gpus/{0}/information".format(address), INFORMATION.format("N/A"))
    assert fault.split("/")[0] not in [one.rule for one in problems(root)]


def _bound(root, address, driver):
    root.file("/sys/bus/pci/drivers/{0}/bind".format(driver))
    root.link("/sys/bus/pci/devices/{0}/driver".format(address), "../../drivers/" + driver)


@pytest.mark.parametrize(("device", "rules"), [("1d01", []), (None, ["nouveau"])])
def test_nouveau_may_have_a_display_card(tmp_path, device, rules):
    root = images.azure_hpc(tmp_path)
    root.loaded("nvidia", "nvidia_peermem", "nouveau")
    addresses = Host(str(root.path)).names("/sys/bus/pci/devices")
    gpus = [
        one for one in addresses if (root.at("/sys/bus/pci/devices/" + one) / "class").read_text().startswith("0x03")
    ]
    for address in gpus[1:]:
        _bound(root, address, "nvidia")
    _bound(root, gpus[0], "nouveau")
    if device is not None:
        root.file("/sys/bus/pci/devices/{0}/device".format(gpus[0]), "0x{0}\n".format(device))
    assert [one.rule for one in problems(root)] == rules


def test_an_old_fabric_manager_package_may_remain_while_a_container_runs_the_current_one(tmp_path):
    root = images.azure_hpc(tmp_path)
    _fabric_manager(root)
    assert [one.rule for one in problems(root)] == ["fabric_manager"]
    root.file("/proc/4711/comm", "nv-fabricmanage\n")
    root.file("/proc/4711/status", "Name:\tnv-fabricmanage\nUid:\t0\t0\t0\t0\n")
    assert [one.rule for one in problems(root)] == []
    root.link("/proc/4711/exe", "../../usr/bin/nv-fabricmanager")
    assert [one.rule for one in problems(root)] == ["fabric_manager"]


def test_a_fabric_manager_has_nothing_to_do_without_nvswitches(tmp_path):
    root = images.azure_hpc(tmp_path)
    _fabric_manager(root)
    for address in Host(str(root.path)).names("/sys/bus/pci/devices"):
        kind = root.at("/sys/bus/pci/devices/" + address) / "class"
        if kind.read_text().startswith("0x0680"):
            root.file("/sys/bus/pci/devices/{0}/class".format(address), "0x060400\n")
    assert [one.rule for one in problems(root)] == []


def test_an_hgx_b200_needs_a_fabric_manager(tmp_path):
    root = images.azure_hpc(tmp_path)
    _no_fabric_manager(root)
    for address in Host(str(root.path)).names("/sys/bus/pci/devices"):
        directory = "/sys/bus/pci/devices/" + address
        if (root.at(directory) / "class").read_text().startswith("0x0680"):
            root.file(directory + "/vendor", "0x15b3\n")
            root.file(directory + "/class", "0x020700\n")
            root.file(directory + "/vpd", b"\x82\x0b\x00Nvidia ConnectX-7")
    assert problems(root) == ()  # these functions are ordinary ones
    root.file(directory + "/vpd", b"\x82\x0b\x00\xffSMDL=SW_MNG\x00")
    assert [one.rule for one in problems(root)] == ["fabric_manager"]


@pytest.mark.parametrize("newest", [AZURE_KERNEL, "5.15.0-1068-azure"])
def test_a_failed_dkms_build_is_a_warning_while_the_former_module_is_loaded(tmp_path, newest):
    root = images.azure_hpc(tmp_path)
    _dkms_unbuilt("nvidia", "gdrdrv", "mlx5_core")(root)
    if newest != AZURE_KERNEL:
        _next_kernel(root)
    (found,) = problems(root)
    assert (found.rule, found.outcome) == ("next_kernel", "warn")
    assert newest in found.thing and "no module nvidia" in found.reason
    assert "dkms autoinstall -k " + newest in found.remedy and "boot loader" not in found.remedy


@pytest.mark.parametrize(
    "module",
    [
        "updates/dkms/nvidia.ko",
        "updates/dkms/nvidia.ko.zst",
        "updates/dkms/nvidia-current.ko",
        "updates/dkms/nvidia-tesla-535-open.ko.xz",
        "kernel/nvidia-535srv/nvidia.ko",
        "extra/nvidia.ko.xz",
        "weak-updates/nvidia/nvidia.ko",
    ],
)
def test_a_module_in_any_directory_of_the_kernel_is_enough(tmp_path, module):
    root = images.azure_hpc(tmp_path)
    _dkms_unbuilt("nvidia", "gdrdrv", "mlx5_core")(root)
    assert problems(root) != ()
    with root.at("/lib/modules/{0}/modules.dep".format(AZURE_KERNEL)).open("a") as stream:
        stream.write(module + ":\n")
    assert [str(one) for one in problems(root)] == []


@pytest.mark.parametrize("module", ["nvidia-uvm", "nvidia-current-uvm", "nvidia-peermem", "nvidia-fs"])
def test_another_module_of_nvidia_is_not_the_driver(tmp_path, module):
    root = images.azure_hpc(tmp_path)
    _dkms_unbuilt("nvidia", "gdrdrv", "mlx5_core", module)(root)
    assert [one.rule for one in problems(root)] == ["next_kernel"]


def test_a_driver_container_needs_no_module_on_the_disk(tmp_path):
    root = images.azure_hpc(tmp_path)
    _dkms_unbuilt("nvidia", "gdrdrv", "mlx5_core")(root)
    _next_kernel(root)
    root.program("/run/nvidia/driver/usr/bin/nvidia-smi")
    assert [one.rule for one in problems(root)] == []


def test_a_loaded_driver_without_dkms_needs_no_module_on_the_disk(tmp_path):
    root = images.azure_hpc(tmp_path)
    _dkms_unbuilt("nvidia", "gdrdrv", "mlx5_core")(root)
    for directory in root.at("/var/lib/dkms/nvidia").iterdir():
        (directory / "source").unlink()
    _next_kernel(root)
    assert [one.rule for one in problems(root)] == []
