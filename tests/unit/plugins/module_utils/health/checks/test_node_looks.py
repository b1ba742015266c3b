# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks of bare metal, network cards and hung processes: each fault exactly, and silence where nothing is wrong."""

from __future__ import annotations

import json
import os
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.virtual import virtual
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import Options, examine
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import (
    ipmi_events,
    pcie_acs,
    processes_stuck,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.ipmi_events import EVENTS, meant
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Origin, Threshold
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks.bare_metal_node import (
    CPUFREQ,
    SWITCH,
    BareMetalNode,
    config,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks.test_node_faults import told

IB = tuple("010{0}:00:00.0".format(number) for number in range(1, 5))
ETH, ETH_KEY = "/sys/class/net/eth0/", "0201:00:00.0"
ACS = SWITCH.format(0, 8)  # above network device 0
HANGS = ("4711", "100")


@pytest.fixture
def metal(tmp_path, monkeypatch):
    made = BareMetalNode(tmp_path)
    monkeypatch.setenv("PATH", "{0}:{1}".format(made.bin, os.environ["PATH"]))
    monkeypatch.setattr(processes_stuck, "_PAUSE_SECONDS", 0.0)
    return made


def test_a_healthy_machine_of_metal_has_no_finding(metal):
    verdict = metal.verdict()
    assert told(verdict) == set(), [str(one) for one in verdict.findings]
    of_software = {"image_cuda", "image_communication", "image_containers", "image_software"}
    assert (
        set(verdict.not_applicable)
        == {"ib_partition_keys", "clock_synchronised", "converge", "lease", "beeond_leftover", "env_deepspeed"}
        | of_software
    )


def pcie(node, number, **values):
    for name, value in values.items():
        node.write("/sys/bus/pci/devices/{0}/{1}".format(IB[number], name), value)


def carrier(node, now, before, rdma=False):
    node.write(ETH + "carrier_changes", str(now))
    node.grown("network_carrier_changes", ETH_KEY, before)
    if rdma:
        node.write("/sys/class/net/eth0/device/infiniband/mlx5_eth0/x", "")


def hung(
    node, pid="4711", started="100", command="python3", state="D", switches=(40, 2), flags=4194304, wchan="nfs_wait"
):
    """A process as the kernel shows it; the load is that of one that hangs."""
    fields = [state, "1", pid, pid, "0", "-1", str(flags), *["0"] * 12, started, "0"]
    node.write("/proc/{0}/stat".format(pid), "{0} ({1}) {2}".format(pid, command, " ".join(fields)))
    node.write(
        "/proc/{0}/status".format(pid),
        "Name:\tx\nvoluntary_ctxt_switches:\t{0}\nnonvoluntary_ctxt_switches:\t{1}".format(*switches),
    )
    node.write("/proc/{0}/wchan".format(pid), wchan)
    node.write("/proc/loadavg", "1.00 1.00 0.90 1/200 999")


def seen_before(node, *points, key="4711/100"):
    node.origins[("process_wait_switches", key)] = tuple(Origin(float(value), hours) for value, hours in points)


def entry(sensor, event, hours=1.0, state="Asserted", form="%m/%d/%Y"):
    moment = time.gmtime(time.time() - hours * 3600)
    return "  1a | {0} | {1} UTC | {2} #0x53 | {3} | {4}".format(
        time.strftime(form, moment), time.strftime("%H:%M:%S", moment), sensor, event, state
    )


def odd(node, counter, many=500000):
    node.jobs_ran(counter, (900, 1200, 1000, many))


def moved(node, number, numa):
    node.write("/sys/bus/pci/devices/{0}/numa_node".format(IB[number]), numa)


FAULTS = {
    "narrow link": (lambda node: pcie(node, 2, current_link_width="8"), ("ib_pcie", "width", IB[2], "fail", "replace")),
    "slow link": (
        lambda node: pcie(node, 2, current_link_speed="8.0 GT/s PCIe"),
        ("ib_pcie", "speed", IB[2], "fail", "replace"),
    ),
    "narrow and slow link": (
        lambda node: pcie(node, 1, current_link_speed="8.0 GT/s PCIe", current_link_width="4"),
        ("ib_pcie", "width", IB[1], "fail", "replace"),
    ),
    "a card in a lesser slot": (
        lambda node: [
            pcie(node, 0, current_link_width="8"),
            node.write(ACS + "/max_link_width", "8"),
        ],
        ("ib_pcie", "width", IB[0], "warn", "look"),
    ),
    "a card at another NUMA node": (
        lambda node: moved(node, 0, "1"),
        ("ib_pcie", "numa", "15b3:1021", "warn", "look"),
    ),
    "a card at no NUMA node": (lambda node: moved(node, 3, "-1"), ("ib_pcie", "numa_unknown", IB[3], "warn", "look")),
    "receivers not ready": (
        lambda node: node.grow(1, "hw_counters/rnr_nak_retry_err", 7 + 3600 * 11, hours=1.0),
        ("ib_errors", "receiver_not_ready", IB[1], "warn", "look"),
    ),
    "slow restarts": (
        lambda node: node.grow(1, "hw_counters/roce_slow_restart", 7 + 3600 * 11, hours=1.0),
        ("ib_errors", "slow_restarts", IB[1], "warn", "look"),
    ),
    "packets out of sequence on one port": (
        lambda node: odd(node, "hw_counters/out_of_sequence"),
        ("ib_errors", "out_of_sequence_packets_of_siblings", IB[3], "warn", "look"),
    ),
    "sequence errors on one port": (
        lambda node: odd(node, "hw_counters/packet_seq_err"),
        ("ib_errors", "sequence_errors_of_siblings", IB[3], "warn", "look"),
    ),
    "acknowledgements late on one port": (
        lambda node: odd(node, "hw_counters/local_ack_timeout_err"),
        ("ib_errors", "acknowledge_timeouts_of_siblings", IB[3], "warn", "look"),
    ),
    "discards on one port": (
        lambda node: odd(node, "counters/port_xmit_discards"),
        ("ib_errors", "transmit_discards_of_siblings", IB[3], "warn", "look"),
    ),
    "adaptive retransmissions on one port": (
        lambda node: odd(node, "hw_counters/roce_adp_retrans"),
        ("ib_errors", "adaptive_retransmissions_of_siblings", IB[3], "warn", "look"),
    ),
    "no buffers on one port": (
        lambda node: odd(node, "hw_counters/out_of_buffer"),
        ("ib_errors", "out_of_buffer_drops_of_siblings", IB[3], "warn", "look"),
    ),
    "a link that flaps": (lambda node: carrier(node, 13, 3), ("network_flaps", "carrier", ETH_KEY, "warn", "look")),
    "a link of RDMA that went down twice": (
        lambda node: carrier(node, 7, 3, rdma=True),
        ("network_flaps", "carrier", ETH_KEY, "warn", "look"),
    ),
    "a link of RDMA that flaps": (
        lambda node: carrier(node, 13, 3, rdma=True),
        ("network_flaps", "carrier", ETH_KEY, "fail", "look"),
    ),
    "a process that hangs": (
        lambda node: [hung(node), seen_before(node, (42, 0.2), (42, 0.1))],
        ("processes_stuck", "stuck", "4711", "warn", "reboot"),
    ),
    "one governor of another kind": (
        lambda node: node.write(CPUFREQ.format(2) + "scaling_governor", "powersave"),
        ("cpu_governor", "mixed", "", "warn", "configure"),
    ),
    "the lowest clock": (
        lambda node: [node.write(CPUFREQ.format(n) + "scaling_governor", "powersave") for n in range(4)],
        ("cpu_governor", "lowest", "", "warn", "configure"),
    ),
    "ACS sends requests to the processor": (
        lambda node: node.registers(ACS, config(0x1D)),
        ("pcie_acs", "redirects", ACS.rpartition("/")[2], "warn", "configure"),
    ),
    "ACS sends completions to the processor": (
        lambda node: node.registers(ACS, config(0x08)),
        ("pcie_acs", "redirects", ACS.rpartition("/")[2], "warn", "configure"),
    ),
    "registers of a port cut": (
        lambda node: node.registers(ACS, config()[:64]),
        ("pcie_acs", "", "", "unknown", "look"),
    ),
    "event log that cannot be read": (
        lambda node: [node.bin.mkdir(exist_ok=True), node.program("ipmitool", "echo no BMC >&2; exit 1")],
        ("ipmi_events", "", "", "unknown", "look"),
    ),
}
LOG = {
    "memory": (("Memory", "Uncorrectable ECC"), "fail", "replace"),
    "processor": (("Processor", "IERR"), "fail", "replace"),
    "bus": (("Critical Interrupt", "Bus Fatal Error"), "fail", "look"),
    "firmware": (("System Firmware Error", "BIOS corruption detected"), "fail", "replace"),
    "temperature": (("Temperature", "Upper Critical going high"), "warn", "look"),
    "fan": (("Fan", "Lower Critical going low "), "warn", "look"),
    "throttled": (("Processor", "Throttled"), "warn", "look"),
    "power": (("Power Supply", "Failure detected"), "warn", "look"),
    "drive": (("Drive Slot", "Drive Fault"), "warn", "look"),
}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_fault_gives_its_finding_and_no_other(metal, fault):
    damage, expected = FAULTS[fault]
    damage(metal)
    verdict = metal.verdict()
    assert told(verdict) == {expected}, [str(one) for one in verdict.findings]
    for found in (pair[1] for pair in verdict.findings):
        assert found.thing and found.reason and found.remedy and "{" not in str(found)


@pytest.mark.parametrize("code", sorted(LOG))
def test_an_entry_of_the_event_log_gives_its_finding_and_no_other(metal, code):
    (sensor, event), outcome, action = LOG[code]
    metal.sel = [entry("Memory", "Correctable ECC"), entry(sensor, event), entry(sensor, event, form="%m/%d/%y")]
    verdict = metal.verdict()
    assert told(verdict) == {("ipmi_events", code, "", outcome, action)}
    assert "2 times within the last day" in verdict.findings[0][1].reason
    assert set(LOG) == {one.code for one in EVENTS}


HARMLESS = {
    "a link that went down once": lambda node: carrier(node, 5, 3, rdma=True),
    "an interface made anew": lambda node: carrier(node, 2, 3000, rdma=True),
    "a bond": lambda node: [
        node.write("/sys/class/net/bond0/type", "1"),
        node.write("/sys/class/net/bond0/carrier_changes", "99"),
    ],
    "the link of a virtual function's representor": lambda node: [
        carrier(node, 99, 3, rdma=True),
        node.write(ETH + "phys_port_name", "pf0vf3"),
    ],
    "all ports err alike": lambda node: node.jobs_ran("hw_counters/out_of_sequence", (500000, 600000, 550000, 900000)),
    "few errors on one port": lambda node: node.jobs_ran(
        "hw_counters/out_of_sequence", (0, 0, 0, 999), packets=(1000000,) * 4
    ),
    "one port alone carries a job": lambda node: node.jobs_ran(
        "hw_counters/out_of_sequence", (0, 0, 0, 500000), packets=(10, 10, 10, 500000000)
    ),
    "a job that ended while its peers sent": lambda node: node.grow(
        1, "hw_counters/rnr_nak_retry_err", 7 + 3000, hours=1.0
    ),
    "a link that the bus does not tell": lambda node: pcie(
        node, 0, current_link_width="63", current_link_speed="Unknown", max_link_speed="Unknown"
    ),
    "a process that waits for a disk now": hung,
    "a process that waits again and again": lambda node: [hung(node), seen_before(node, (41, 0.3), (41, 0.1))],
    "another process of that number": lambda node: [hung(node), seen_before(node, (42, 9.0), key="4711/99")],
    "a short wait": lambda node: [hung(node), seen_before(node, (7, 1.0), (42, 0.05))],
    "a thread of the kernel": lambda node: [hung(node, flags=0x208040), seen_before(node, (42, 9.0))],
    "a frozen process": lambda node: [hung(node, wchan="__refrigerator"), seen_before(node, (42, 9.0))],
    "a process that sleeps": lambda node: [hung(node, state="S"), seen_before(node, (42, 9.0))],
    "a governor of the driver's own": lambda node: [
        node.write(CPUFREQ.format(number) + name, text)
        for number in range(4)
        for name, text in (("scaling_governor", "powersave"), ("scaling_driver", "intel_pstate"))
    ],
    "ACS that redirects nothing": lambda node: node.registers(ACS, config(0x13)),
    "a port without ACS": lambda node: node.registers(ACS, config(0x1D, chain=((0x01, 0x148), (0x19, 0)))),
    "old entries of the event log": lambda node: node.sel.extend([entry("Memory", "Uncorrectable ECC", 60.0)] * 3),
    "an entry of no time": lambda node: node.sel.append(
        "  2 | Pre-Init | 0000000012| Memory #0x53 | Uncorrectable ECC | Asserted"
    ),
    "an entry of next year": lambda node: node.sel.append(entry("Memory", "Uncorrectable ECC", -9000.0)),
    "what ended": lambda node: node.sel.append(entry("Fan", "Lower Critical going low", state="Deasserted")),
    "notes": lambda node: node.sel.extend(
        [entry("Power Supply", "Presence detected"), entry("OS Boot", "boot completed"), "SEL has no entries", "x | y"]
    ),
    "an NFS server that answers again": lambda node: node.say(
        "nfs: server nas01 not responding, still trying",
        "nfs: server nas01 not responding, timed out",
        "nfs: server nas01 OK",
    ),
}


@pytest.mark.parametrize("what", sorted(HARMLESS))
def test_what_is_no_fault_gives_no_finding(metal, what):
    HARMLESS[what](metal)
    verdict = metal.verdict()
    assert told(verdict) == set(), [str(one) for one in verdict.findings]


LINES = {
    "mlx5_core 0102:00:00.0: mlx5_pcie_event:299:(pid 2683): Detected insufficient power on the PCIe slot (27W).": (
        "ib_device_faults",
        "slot_power",
        IB[1],
    ),
    "mlx5_core 0102:00:00.0: mlx5_pcie_event:301: Detected insufficient power on the PCIe slot (27W).": (
        "ib_device_faults",
        "slot_power",
        IB[1],
    ),
    "mlx5_core 0102:00:00.0: Port module event[error]: module 0, Cable error, Power budget exceeded": (
        "ib_device_faults",
        "module_unpowered",
        IB[1],
    ),
    "mlx5_core 0102:00:00.0: Port module event[error]: module 0, Cable error, High Temperature": (
        "ib_device_faults",
        "module_hot",
        IB[1],
    ),
    "mlx5_core 0102:00:00.0: Port module event[error]: module 0, Cable error, Bad or shorted cable/module": (
        "ib_device_faults",
        "module_failed",
        IB[1],
    ),
    "mlx5_core 0102:00:00.0: temp_warn:168:(pid 0): High temperature on sensors with bit set 0 1": (
        "ib_device_faults",
        "hot",
        IB[1],
    ),
    "NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 3 timed out": ("ib_device_faults", "queue_timeout", "eth0"),
    # Linux 6.7 and newer.
    "mlx5_core 0102:00:00.0 ib1: NETDEV WATCHDOG: CPU: 12: transmit queue 3 timed out 5432 ms": (
        "ib_device_faults",
        "queue_timeout",
        "ib1",
    ),
    "nfs: server nas01.example.org not responding, still trying": (
        "nfs_servers",
        "not_responding",
        "nas01.example.org",
    ),
    "nfs: server [fd00::1] not responding, timed out": ("nfs_servers", "timed_out", "[fd00::1]"),
    "lockd: server nas01 not responding, still trying": ("nfs_servers", "not_responding", "nas01"),
}


@pytest.mark.parametrize("line", sorted(LINES))
def test_a_line_of_the_kernel_log_gives_its_finding_and_no_other(metal, line):
    metal.say("nfs: server nas02 OK", line, line, "nfs: server nas02 OK")
    verdict = metal.verdict()
    check, code, key = LINES[line]
    assert [(one, found.code, found.key, found.outcome.value) for one, found in verdict.findings] == [
        (check, code, key, "warn")
    ]
    assert "2 times" in verdict.findings[0][1].reason


def test_one_nfs_server_that_answers_settles_no_other(metal):
    trying = "nfs: server {0} not responding, still trying"
    metal.say(trying.format("nas01"), trying.format("nas02"), "nfs: server nas01 OK", trying.format("nas03"))
    assert {found.key for dummy, found in metal.verdict().findings} == {"nas02", "nas03"}


@pytest.mark.parametrize("known", [True, False])
def test_what_is_of_bare_metal_is_not_told_of_a_virtual_machine(metal, known):
    metal.registers(ACS, config(0x1D))
    metal.say(next(one for one in LINES if "pcie_event:299" in one))
    metal.sel = [entry("Memory", "Uncorrectable ECC")]
    metal.write("/proc/cpuinfo", "flags\t\t: fpu hypervisor msr")
    if not known:
        for path in ("/sys/class/dmi/id/sys_vendor", "/sys/class/dmi/id/product_name", "/proc/cpuinfo"):
            metal.remove(path)
    verdict = metal.verdict()
    assert told(verdict) == set()
    assert {"pcie_acs", "ipmi_events"} <= set(verdict.not_applicable)
    word = "virtual machine" if known else "not known"
    assert all(word in verdict.not_applicable[name] for name in ("pcie_acs", "ipmi_events"))


@pytest.mark.parametrize(
    ("vendor", "product", "flags", "expected"),
    [
        ("Microsoft Corporation", "Virtual Machine", "fpu", True),
        ("Microsoft Corporation", "C2080", "fpu", False),
        ("Amazon EC2", "p4d.24xlarge", None, True),
        ("Amazon EC2", "p4d.metal", "fpu", False),
        ("Google", "Google Compute Engine", None, True),
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", None, True),
        ("Supermicro", "SYS-821GE-TNHR", "fpu hypervisor", True),
        ("Supermicro", "SYS-821GE-TNHR", "fpu x-hypervisor-x", False),
        ("NVIDIA", "GB200 NVL", None, False),
        ("", "", "fpu", False),
        ("", "", None, None),
    ],
)
def test_a_machine_is_virtual_by_its_firmware_or_its_processor(tmp_path, vendor, product, flags, expected):
    folder = tmp_path / "sys/class/dmi/id"
    folder.mkdir(parents=True)
    (tmp_path / "proc").mkdir()
    (folder / "sys_vendor").write_text(vendor + "\n", encoding="utf-8")
    (folder / "product_name").write_text(product + "\n", encoding="utf-8")
    if flags is not None:
        (tmp_path / "proc/cpuinfo").write_text("processor\t: 0\nflags\t\t: " + flags + "\n", encoding="utf-8")
    assert virtual(Host(str(tmp_path))) is expected


# Hung processes -----------------------------------------------------------------------------------------


def test_an_idle_machine_looks_at_no_process(metal):
    hung(metal)
    metal.write("/proc/loadavg", "9.00 0.49 0.10 1/200 999")
    assert processes_stuck.look(Evidence(Host(str(metal.root)), {}, {})) == processes_stuck.Seen((), False)


@pytest.mark.parametrize("place", ["kernel_clone", "_do_fork", "do_fork", "wait_for_vfork_done", "kernel_clone.part.0"])
def test_a_parent_that_waits_for_its_vfork_child_does_not_hang(metal, place):
    for pid in range(1000, 1040):
        hung(metal, str(pid), wchan=place)
    hung(metal, "4711")
    seen = processes_stuck.look(Evidence(Host(str(metal.root)), {}, {}))
    assert [one.pid for one in seen.processes] == [4711]


def test_the_processes_of_one_user_do_not_hide_another_user_s_processes(metal):
    for pid in range(1000, 1040):
        hung(metal, str(pid))
        path = metal.root / "proc" / str(pid) / "status"
        path.write_text("Uid:\t1001\t1001\t1001\t1001\n" + path.read_text())
    hung(metal, "4711")
    seen = processes_stuck.look(Evidence(Host(str(metal.root)), {}, {}))
    assert len(seen.processes) == 16 and 4711 in {one.pid for one in seen.processes}


def test_how_many_are_told_is_bounded(metal):
    for pid in range(5000, 5100):
        hung(metal, str(pid))
    seen = processes_stuck.look(Evidence(Host(str(metal.root)), {}, {}))
    assert len(seen.processes) == 16


@pytest.mark.parametrize("limit", [Threshold("lower", 300, 3600, "test")])
def test_a_site_may_let_a_long_wait_fail(metal, limit):
    metal.limits["process_stuck_seconds"] = limit
    hung(metal)
    seen_before(metal, (42, 1.5), (42, 0.1))
    assert told(metal.verdict()) == {("processes_stuck", "stuck", "4711", "fail", "reboot")}


NAMES = st.text(st.characters(exclude_characters="\0/", exclude_categories=("Cs",)), max_size=15)


@examples(80)
@given(NAMES | st.sampled_from([") D 1 1", "x) S (", "a\n4711 (b) D", "))((", ""]), st.sampled_from("DSRZ"), NAMES)
def test_the_name_of_a_process_changes_neither_its_state_nor_what_it_waited(tmp_path_factory, name, state, place):
    node = FakeProcesses({})
    hung(node, command=name, state=state, wchan=place)
    found = processes_stuck._waiting(node, 4711)
    assert (found is not None) == (state == "D" and place.strip() not in ("__refrigerator", "refrigerator"))
    assert found is None or (found.pid, found.started, found.switches) == (4711, 100, 42)


class FakeProcesses:
    """Files of /proc in memory."""

    def __init__(self, files):
        self.files = files

    def write(self, path, text):
        self.files[path] = text + "\n"

    def read(self, path, limit=None):
        return self.files.get(path)

    def read_line(self, path):
        text = self.files.get(path)
        return None if text is None else text.strip()


# Registers and the event log ----------------------------------------------------------------------------


@examples(200)
@given(st.binary(max_size=600), st.integers(0, 4096))
def test_no_registers_hang_it(data, size):
    pcie_acs._control((data * 20)[:size])


def test_a_list_of_capabilities_that_bites_its_tail_ends():
    assert pcie_acs._control(config(0x1D, chain=((0x01, 0x148), (0x19, 0x100)))) is None
    assert pcie_acs._control(config(0x1D)) == 0x1D


@examples(200)
@given(st.text(max_size=80) | st.lists(st.text(max_size=12), max_size=7).map(" | ".join))
def test_no_line_of_the_event_log_crashes_it(line):
    found = ipmi_events._entry(line)
    assert found is None or meant(found.sensor, found.text) is None or found.number >= 0


def test_gpus_of_virtual_machines_need_access_control(metal):
    metal.registers(ACS, config(0x1D))
    metal.write("/sys/bus/pci/drivers/vfio-pci/x", "")
    metal.link("/sys/bus/pci/devices/0001:00:00.0/driver", "{0}/sys/bus/pci/drivers/vfio-pci".format(metal.root))
    assert "given to virtual machines" in metal.verdict().not_applicable["pcie_acs"]


def test_registers_that_may_not_be_read_name_the_file(metal):
    metal.remove(ACS + "/config")
    with pytest.raises(NodeError, match="config: it cannot be read"):
        pcie_acs.look(Evidence(Host(str(metal.root)), {}, {}))


# Healthy lives, and the whole way -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(int(os.environ.get("HEALTHY_RUNS", "5"))))
def test_a_machine_of_metal_has_no_finding_at_any_moment(metal, seed):
    chance = random.Random(seed)
    errors = chance.randint(0, 400000)
    for counter in ("hw_counters/out_of_sequence", "hw_counters/packet_seq_err", "counters/port_xmit_discards"):
        metal.jobs_ran(counter, [int(errors * chance.uniform(0.3, 2.0)) for dummy in range(4)])
    metal.grow(chance.randrange(4), "hw_counters/rnr_nak_retry_err", chance.randint(7, 200000), hours=20.0)
    carrier(metal, chance.randint(3, 5), 3, rdma=chance.random() < 0.5)
    hung(metal, switches=(chance.randint(50, 90), 2), state=chance.choice("DRS"))
    seen_before(metal, (chance.randint(1, 40), 1.0))
    metal.write("/proc/loadavg", "{0:.2f} {0:.2f} 0.10 1/200 999".format(chance.uniform(0, 90)))
    governor, driver = chance.choice(
        [("performance", "acpi-cpufreq"), ("schedutil", "cppc_cpufreq"), ("powersave", "intel_pstate")]
    )
    for number in range(4):
        metal.write(CPUFREQ.format(number) + "scaling_governor", governor)
        metal.write(CPUFREQ.format(number) + "scaling_driver", driver)
    every = [entry(*LOG[chance.choice(sorted(LOG))][0], hours=chance.uniform(50, 9000)) for dummy in range(40)]
    metal.sel = every + [entry("Memory", "Correctable ECC"), entry("OS Boot", "C: boot completed")]
    assert told(metal.verdict()) == set(), "seed {0}".format(seed)


@pytest.mark.parametrize(("observe", "outcome"), [([], "fail"), (["ib_ports"], "pass"), (["ib_flaps"], "fail")])
def test_what_the_declaration_observes_does_not_count(metal, observe, outcome):
    metal.write(metal.port(1) + "/state", "1: DOWN")
    section = {"health": {"observe": observe}, "profile": {"name": "small", "data": metal.profile}}
    metal.write("/etc/gpu_node/node.json", json.dumps(section))
    verdict = examine(Host(str(metal.root)), "node", Options(only=("ib_ports", "cpu_governor")))
    assert verdict.outcome.value == outcome
    assert bool(verdict.observed) == (outcome == "pass")
