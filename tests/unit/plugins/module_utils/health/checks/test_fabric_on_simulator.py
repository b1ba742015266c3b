# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One rule for "is there an NVLink fabric, and is it up?": each fault beside a healthy machine that looks like it."""

from __future__ import annotations

import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import attempts
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.attempts import Attempt
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks.health_on_simulator import (
    NVSWITCHES,
    Node,
    names,
)

pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
pytest.importorskip("yaml", reason="needs PyYAML")

T4, A100, H100, B200 = "openstack_t4", "nd96asr_v4", "nd96isr_h100_v5", "dgx_b200"
VM = "vm_h100"
FATAL = "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up"
MANAGER, IMEX, PERSISTENCED = "nvidia-fabricmanager.service", "nvidia-imex.service", "nvidia-persistenced.service"
HOST, CONTAINER = "usr/bin/nv-fabricmanager", "run/nvidia/driver/usr/bin/nv-fabricmanager"


@pytest.fixture(name="node")
def _node(nvml_simulator, tmp_path):
    def make(machine=H100, *settings, profile=True):
        return Node(nvml_simulator(machine, *settings), machine, tmp_path, profile)

    return make


def control(node, *lines):
    for line in lines:
        node.simulator.control(*line.split())


def of(node, check, **options):
    return [one[1:4] for one in names(node.verdict(**options)) if one[0] == check]


# The state in the fabric -------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("driver", ["525.147.05", "535.161.08", "550.163.01", "580.95.05", "595.45.04"])
def test_a_gpu_that_waits_for_its_fabric_fails_with_each_driver(node, driver):
    sick = node(H100, "driver.version=" + driver)
    assert of(sick, "gpu_fabric", level="quick") == []
    control(sick, "set gpu.3.fabric.state 2")
    assert of(sick, "gpu_fabric", level="quick") == [("state", "fail", "restart_service")]


@pytest.mark.parametrize(
    "uptime, told",
    [
        (20, [("joining", "unknown", "watch")]),
        (299, [("joining", "unknown", "watch")]),
        (301, [("state", "fail", "restart_service")]),
    ],
)
def test_a_gpu_may_still_join_its_fabric_after_a_boot(node, uptime, told):
    young = node(H100)
    young.write("proc/uptime", "{0}.50 10.00\n".format(uptime))
    assert of(young, "gpu_fabric", level="quick") == []
    control(young, "set gpu.3.fabric.state 2")
    assert of(young, "gpu_fabric", level="quick") == told
    # One that was refused, or is unhealthy, is so at any time.
    control(young, "set gpu.3.fabric.state 3", "set gpu.3.fabric.status 1")
    assert [one[1] for one in of(young, "gpu_fabric", level="quick")] == ["fail"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("driver", ["470.256.02", "525.147.05", "535.161.08", "580.95.05"])
def test_gpus_before_hopper_report_no_fabric(node, driver):
    verdict = node(A100, "driver.version=" + driver).verdict("quick")
    assert not [one for one in names(verdict) if one[0] == "gpu_fabric"]
    assert "gpu_fabric" not in {one["id"] for one in verdict["results"]}


def test_a_driver_without_a_health_reports_a_fabric_that_is_complete(node):
    healthy = node(H100, "driver.version=535.161.08")
    code = (
        "import json; from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import gpu_info; "
        "gpu = gpu_info.gather(gpu_info.Options(groups=('fabric',))).gpus[0]; f = gpu.groups['fabric']; "
        "print(json.dumps([f.state, f.status, f.health_summary, sorted(gpu.failed)]))"
    )
    assert healthy.simulator.python(code) == ["completed", "success", None, []]


def test_the_health_mask_counts_where_the_driver_has_no_summary(node):
    sick = node(H100, "driver.version=550.163.01")
    control(sick, "set gpu.3.fabric.health_mask 150")  # each part reported, and the route unhealthy (bits 4 and 5)
    assert of(sick, "gpu_fabric", level="quick") == [("unhealthy", "fail", "reset_gpu")]
    control(sick, "set gpu.3.fabric.health_mask 170")  # each part reported as healthy
    assert of(sick, "gpu_fabric", level="quick") == []


def test_a_gpu_outside_the_fabric_of_its_siblings_is_unknown(node):
    sick = node(H100, profile=False)
    control(sick, "set gpu.3.fabric.state 0")
    assert names(sick.verdict("quick")) == [("gpu_fabric", "outside", "unknown", "look", sick.gpus[3])]


def test_eight_gpus_outside_a_fabric_are_unknown_where_the_profile_has_switches(node):
    sick = node(H100, "gpu.feature.fabric=no")
    assert of(sick, "gpu_fabric", level="quick") == [("outside", "unknown", "look")] * 8


def test_links_to_switches_without_a_fabric_are_unknown(node):
    sick = node(H100, "gpu.feature.fabric=no", profile=False)
    assert of(sick, "gpu_fabric") == [("outside", "unknown", "look")] * 8


def test_one_passed_through_gpu_needs_no_fabric(node):
    healthy = node(VM)
    assert names(healthy.verdict()) == []
    assert services(healthy, MANAGER)[0] == services(healthy, IMEX)[0] == []


def test_a_gpu_in_mig_mode_need_not_be_in_the_fabric_of_its_siblings(node):
    healthy = node(H100)
    control(healthy, "set gpu.3.fabric.state 0", "set gpu.3.mig_mode yes")
    assert of(healthy, "gpu_fabric", level="quick") == []


def test_the_remedy_of_a_fabric_names_the_reset_of_all_gpus(node):
    sick = node(H100)
    control(sick, "set gpu.3.fabric.state 2")
    found = [one["findings"][0] for one in sick.verdict("quick")["results"] if one["id"] == "gpu_fabric"]
    assert "reset all GPUs" in found[0]["remedy"]


# Services ----------------------------------------------------------------------------------------------

SERVICES = """
import json, sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Completed, Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import service_running
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Expected

class Machine(Host):
    def run(self, argv, timeout_seconds=60.0, accept=(0,)):
        if argv[0] != "systemctl":
            return super().run(argv, timeout_seconds, accept)
        return Completed(tuple(argv), 0, sys.argv[2], "")

seen = service_running.look(Evidence(Machine(sys.argv[1]), {}, {}))
made = service_running.judge(seen, Expected("", {}, {}, {}, {}, {}, 0.0))
print(json.dumps([[[one.code, one.outcome.value, one.key, one.remedy] for one in made.findings], made.seen]))
"""


def services(node, unit, active="failed", result="exit-code"):
    """([code, outcome, unit] of each finding, what was seen) on a machine where one enabled unit does not run."""
    node.write("run/systemd/system/x", "")
    shown = "Id={0}\nLoadState=loaded\nActiveState={1}\nSubState={1}\nUnitFileState=enabled\nResult={2}\n"
    text = shown.format(unit, active, result)
    found, seen = node.simulator.python(SERVICES, str(node.root), text)
    return [tuple(one[:3]) for one in found], seen, [one[3] for one in found]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("unit", [MANAGER, IMEX])
@pytest.mark.parametrize("machine", [T4, VM, "rtx_pro_6000"])
@pytest.mark.parametrize("active", ["failed", "inactive"])
def test_a_fabric_service_may_fail_on_a_machine_without_a_fabric(node, unit, machine, active):
    found, seen, dummy = services(node(machine, profile=False), unit, active)
    assert found == [] and unit + " does not run and is not needed" in seen


def test_the_fabric_manager_must_run_on_a_machine_with_nvswitches(node):
    sick = node(A100)
    sick.fabric_manager(sick.driver)
    found, dummy, remedies = services(sick, MANAGER)
    assert found == [("failed", "fail", MANAGER)] and "reset all GPUs" in remedies[0]


def test_the_fabric_manager_is_not_needed_where_a_guest_has_the_nvswitches(node):
    healthy = node(T4, profile=False)
    healthy.fabric_manager("535.161.08")
    (healthy.root / "sys/bus/pci/drivers/vfio-pci").mkdir(parents=True)
    for address in NVSWITCHES:
        (healthy.root / "sys/bus/pci/devices" / address / "driver").symlink_to("../../drivers/vfio-pci")
    assert services(healthy, MANAGER)[0] == []


def test_the_fabric_manager_must_run_where_a_gpu_waits_for_a_fabric(node):
    sick = node(B200, profile=False)
    assert services(sick, MANAGER)[0] == []  # complete, and its switches are not on the bus
    control(sick, "set gpu.5.fabric.state 1")
    assert services(sick, MANAGER)[0] == [("failed", "fail", MANAGER)]


BRIDGE = "0000:05:00.0"


def test_the_fabric_manager_must_run_on_an_hgx_b200_whose_gpus_have_joined(node):
    sick = node(B200, profile=False)
    sick.pci(BRIDGE, "0x020700", "0x15b3")
    vpd = sick.write("sys/bus/pci/devices/{0}/vpd".format(BRIDGE), "Nvidia ConnectX-7")
    assert services(sick, MANAGER)[0] == []  # an ordinary network adapter
    vpd.write_text("Nvidia ConnectX-7 SMDL=SW_MNG")
    found, dummy, remedies = services(sick, MANAGER)
    assert found == [("failed", "fail", MANAGER)] and "reset all GPUs" in remedies[0]
    assert services(sick, IMEX)[0] == []
    control(sick, "set gpu.5.fabric.state 1")
    assert services(sick, IMEX)[0] == []  # its switches are its own
    assert of(sick, "fabric_manager_version") == [("missing", "warn", "configure")]


def test_imex_must_run_in_a_domain_of_several_nodes(node):
    sick = node(B200, profile=False)
    assert services(sick, IMEX)[0] == []
    control(sick, "set gpu.fabric.cluster 7")
    assert services(sick, IMEX)[0] == [("failed", "fail", IMEX)]
    assert services(sick, MANAGER)[0] == []  # it runs in the switch trays


@pytest.mark.parametrize("count", [1, 8])
def test_imex_is_not_needed_by_a_gpu_that_waits_for_its_fabric_manager(node, count):
    sick = node(B200, "gpu.count={0}".format(count), profile=False)
    control(sick, "set gpu.0.fabric.state 1")
    assert services(sick, MANAGER)[0] == [("failed", "fail", MANAGER)]
    assert services(sick, IMEX)[0] == []


def test_imex_is_not_needed_by_eight_gpus_behind_switches_of_their_own(node):
    healthy = node(H100)
    healthy.fabric_manager(healthy.driver)
    assert services(healthy, IMEX)[0] == []


@pytest.mark.parametrize("unit", [MANAGER, IMEX])
def test_a_fabric_that_could_not_be_asked_for_is_unknown(node, unit):
    sick = node(T4, profile=False)
    control(sick, "fault driver not-loaded")
    assert services(sick, unit)[0] == [("failed", "unknown", unit)]


def test_a_machine_without_gpus_needs_no_fabric_manager(node):
    healthy = node(T4, "gpu.count=0", profile=False)
    for gpu in healthy.gpus:
        (healthy.root / "sys/bus/pci/devices" / gpu / "vendor").unlink()
    assert services(healthy, MANAGER)[0] == []


def process(node, name, uid, program=None):
    node.write("proc/4711/comm", name + "\n")
    node.write("proc/4711/status", "Name:\t{0}\nUid:\t{1}\t{1}\t{1}\t{1}\n".format(name, uid))
    if program is not None:
        os.symlink(str(node.root / program), str(node.root / "proc/4711/exe"))


def test_a_fabric_manager_that_runs_in_a_container_counts(node):
    healthy = node(H100)
    healthy.fabric_manager(healthy.driver)
    process(healthy, "nv-fabricmanage", 1000)  # any user can use this name
    assert services(healthy, MANAGER)[0] == [("failed", "fail", MANAGER)]
    programs(healthy, healthy.driver, healthy.driver)
    process(healthy, "nv-fabricmanage", 0, CONTAINER)
    found, seen, dummy = services(healthy, MANAGER)
    assert found == [] and "it runs outside systemd" in seen


def test_a_fabric_manager_of_an_unknown_container_counts_if_the_fabric_is_up(node):
    machine = node(H100)
    programs(machine, machine.driver)
    assert services(machine, MANAGER)[0] == [("failed", "fail", MANAGER)]  # nothing runs
    machine.write("opt/other/nv-fabricmanager", "#!/bin/sh\n")
    process(machine, "nv-fabricmanage", 0, "opt/other/nv-fabricmanager")
    found, seen, dummy = services(machine, MANAGER)
    assert found == [] and "it runs outside systemd" in seen
    control(machine, "fault driver not-loaded")
    assert services(machine, MANAGER)[0] == [("failed", "unknown", MANAGER)]
    control(machine, "clear driver")


def test_a_root_process_with_the_name_of_the_fabric_manager_is_not_one(node):
    sick = node(H100)
    programs(sick, sick.driver)
    sick.write("opt/other/nv-fabricmanager", "#!/bin/sh\n")
    process(sick, "nv-fabricmanage", 0, "opt/other/nv-fabricmanager")
    control(sick, "set gpu.5.fabric.state 2")
    assert services(sick, MANAGER)[0] == [("failed", "fail", MANAGER)]
    (sick.root / "proc/4711/exe").unlink()
    process(sick, "nv-fabricmanage", 0, HOST)
    assert services(sick, MANAGER)[0] == []


def test_persistenced_is_not_needed_while_persistence_mode_is_on(node):
    machine = node(A100)
    assert services(machine, PERSISTENCED, "inactive")[0] == []
    control(machine, "set gpu.3.persistence_mode 0")
    assert services(machine, PERSISTENCED, "inactive")[0] == [("not_running", "warn", PERSISTENCED)]


# The version of the Fabric Manager ------------------------------------------------------------------------


def programs(node, host=None, container=None):
    node.fabric_manager(host)
    if container is not None:
        text = "#!/bin/sh\necho 'Fabric Manager version is : {0}'\n".format(container)
        node.write(CONTAINER, text).chmod(0o755)


@pytest.mark.parametrize(
    ("host", "container", "runs", "told"),
    [
        ("550.90.07", "same", CONTAINER, []),
        ("same", "590.48.01", CONTAINER, [("version", "fail", "configure")]),
        ("same", "590.48.01", HOST, []),
        ("550.90.07", "same", HOST, [("version", "fail", "configure")]),
        # No process was found: a container of the GPU operator mounts its root here only while it runs.
        ("550.90.07", "same", None, []),
        ("same", "590.48.01", None, [("version", "fail", "configure")]),
    ],
)
def test_the_fabric_manager_that_runs_is_judged(node, host, container, runs, told):
    machine = node(H100)
    programs(machine, *(machine.driver if one == "same" else one for one in (host, container)))
    if runs is not None:
        process(machine, "nv-fabricmanage", 0, runs)
    assert of(machine, "fabric_manager_version") == told


@pytest.mark.parametrize(("state", "told"), [("3", []), ("2", [("unread", "unknown", "look")])])
def test_a_complete_fabric_proves_a_fabric_manager_of_unknown_version(node, state, told):
    machine = node(H100)
    programs(machine, "550.90.07")
    machine.write("opt/other/nv-fabricmanager", "#!/bin/sh\ntouch " + str(machine.root / "executed")).chmod(0o755)
    process(machine, "nv-fabricmanage", 0, "opt/other/nv-fabricmanager")
    control(machine, "set gpu.3.fabric.state " + state)
    assert of(machine, "fabric_manager_version") == told
    assert not (machine.root / "executed").exists()  # a root process of a container can have any program


# SXids -------------------------------------------------------------------------------------------------


def sxid(node, *lines):
    node.fabric_manager(node.driver)
    node.log((1000.0, FATAL))
    control(node, *lines)
    return of(node, "nvswitch_sxid")


def test_a_fatal_sxid_is_a_warning_after_the_fabric_is_up_again(node):
    assert sxid(node(H100)) == [("sxid_20034", "warn", "reboot")]


def test_a_fatal_sxid_of_an_a100_is_a_warning_after_all_links_are_up_again(node):
    assert sxid(node(A100)) == [("sxid_20034", "warn", "reboot")]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "fault",
    [
        "set gpu.3.fabric.state 2",
        "set gpu.3.fabric.state 0",
        "set gpu.3.fabric.health_summary 2",
        "nvlink 3 7 down",
        "fault gpu 3 recovery-action 1",
        "fault gpu 3 lost",
        "fault call nvmlDeviceGetGpuFabricInfoV gpu 3 return UNKNOWN",
        "fault driver not-loaded",
    ],
)
def test_a_fatal_sxid_fails_while_anything_of_the_fabric_is_not_up(node, fault):
    assert sxid(node(H100), fault) == [("sxid_20034", "fail", "reboot")]


OLD = "gpu.feature.recovery_action=no"  # as branch 535


def reset(node, *gpus):
    """A remedy has reset these GPUs after second 1000 of the log."""
    uuids = node.simulator.python(
        "import json, pynvml as n\nn.nvmlInit()\n"
        "print(json.dumps([n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(one)) for one in range(8)]))"
    )
    node.write("proc/sys/kernel/random/boot_id", "boot\n")
    host = Host(str(node.root))
    names = tuple(uuids[one] for one in gpus)
    attempt = Attempt("restart_service", MANAGER, 1.0, "boot", ended=2.0, log_seconds=1000.0, gpus=names)
    attempts.write(host, attempts.read(host).added(attempt))


@pytest.mark.parametrize(
    ("gpus", "told"),
    [
        (range(8), [("sxid_20034", "warn", "reboot")]),
        (range(7), [("sxid_20034", "fail", "reboot"), ("xid_95", "fail", "reset_gpu")]),
    ],
)
def test_with_an_old_driver_only_a_reset_of_all_gpus_makes_a_fatal_sxid_a_warning(node, gpus, told):
    machine = node(H100, OLD)
    machine.fabric_manager(machine.driver)
    machine.log((999.0, "NVRM: Xid (PCI:{0}): 95, pid=7, name=a".format(machine.gpus[7][:-2])), (1000.0, FATAL))
    reset(machine, *gpus)
    found = names(machine.verdict())
    assert sorted(one[1:4] for one in found if one[0] in ("nvswitch_sxid", "gpu_xid")) == told
