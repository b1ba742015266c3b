# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Xids and SXids of captured kernel logs: parsed, judged by the table, settled and acknowledged."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.fabric import Fabric
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import attempts, finding_name
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.attempts import Attempt
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import (
    gpu_acknowledged,
    gpu_nvswitch,
    gpu_xid,
    gpu_xid_lines,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data import xids
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.kernel_log import KernelLog
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Expected
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples

BOOTED = 1790000000.0
GPU, OTHER = "0000:0b:00.0", "0000:0c:00.0"
BUS = "PCI:0000:0b:00"
RESET_LINE = "NVRM: Xid (PCI:0000:0b:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
LOADED_LINE = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05"


def expected(**health):
    return Expected("unknown", {}, {}, {}, {}, health, BOOTED + 7200)


def log(*lines):
    """A line is a text, each a minute after the one before, or (seconds, text)."""
    pairs = [line if isinstance(line, tuple) else (60.0 * (at + 1), line) for at, line in enumerate(lines)]
    records = tuple("3,{0},{1:d},-;{2}".format(at, int(pair[0] * 1e6), pair[1]) for at, pair in enumerate(pairs))
    return KernelLog("ring buffer", records, True, BOOTED)


def judged(*lines, actions=(), resets=(), **health):
    kernel = log(*lines)
    seen = gpu_xid.Seen(gpu_xid_lines.read_xids(kernel), True, BOOTED, dict(actions), dict(resets))
    return gpu_xid.judge(seen, expected(**health))


def told(judgement):
    return [(one.code, one.outcome.value, one.action.value, one.key) for one in judgement.findings]


@pytest.mark.parametrize(
    ("text", "address", "code", "severity", "unit", "process", "rest"),
    [
        (
            "NVRM: Xid (PCI:0000:dc:00): 45, pid=4711, name=python3, Ch 00000010",
            "0000:dc:00.0",
            45,
            "",
            "",
            "python3 (4711)",
            "Ch 00000010",
        ),
        (
            "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 13, pid='<unknown>', name=<unknown>, Graphics Exception",
            "0000:01:00.0",
            13,
            "",
            "",
            "",
            "Graphics Exception",
        ),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", "0000:03:00.0", 14, "", "", "", "Channel 00000001"),
        (
            "NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004505c6 0x00000000)",
            "0018:01:00.0",
            149,
            "Fatal",
            "NETIR_LINK_EVT",
            "",
            "NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004505c6 0x00000000)",
        ),
        (
            "NVRM: Xid (PCI:0018:01:00): 145, pid=12, name=nccl, RLW_REMAP Nonfatal XC1 i0 Link -1 (0x00000004)",
            "0018:01:00.0",
            145,
            "Nonfatal",
            "RLW_REMAP",
            "nccl (12)",
            "RLW_REMAP Nonfatal XC1 i0 Link -1 (0x00000004)",
        ),
        (
            "NVRM: Xid (PCI:10000:E1:00.0): 79, GPU has fallen off the bus.",
            "10000:e1:00.0",
            79,
            "",
            "",
            "",
            "GPU has fallen off the bus.",
        ),
        ("NVRM: Xid (PCI:0000:66:00): 79", "0000:66:00.0", 79, "", "", "", ""),
    ],
)
def test_a_line_is_taken_apart(text, address, code, severity, unit, process, rest):
    (event,) = gpu_xid_lines.read_xids(log((5.0, text))).events
    assert (event.pci_address, event.code, event.text) == (address, code, rest)
    assert (event.severity, event.unit, event.process) == (severity, unit, process)
    assert (event.count, event.first, event.last) == (1, 5.0, 5.0)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid : 32, pid=2280636",
        "NVRM: Xid (PCI:0000:66:00): abc, pid=1",
        "NVRM: Xid (PCI:zz): 79, x",
        "NVRM: Xid (): 79, x",
        "[171167.6] NVRM: Xid (PCI:0000:66:00): 79, x",
        "NVRM: GPU at PCI:0000:03:00: GPU-b850f46d",
        "",
    ],
)
def test_what_is_no_xid_is_none(text):
    assert gpu_xid_lines.read_xids(log(text)) == gpu_xid_lines.Xids()


# Each code that must be told, by hand from NVIDIA's catalogue: code, outcome, action.
@pytest.mark.parametrize(
    ("code", "outcome", "action"),
    [
        (46, "fail", "reset_gpu"),
        (48, "fail", "reset_gpu"),
        (54, "fail", "replace"),
        (57, "fail", "replace"),
        (62, "fail", "reset_gpu"),
        (64, "fail", "replace"),
        (74, "fail", "reset_gpu"),
        (78, "warn", "configure"),
        (79, "fail", "reboot"),
        (94, "warn", "watch"),
        (95, "fail", "reset_gpu"),
        (109, "fail", "reset_gpu"),
        (110, "fail", "reset_gpu"),
        (119, "fail", "reset_gpu"),
        (120, "fail", "reset_gpu"),
        (136, "fail", "reset_gpu"),
        (140, "fail", "reset_gpu"),
        (143, "fail", "reset_gpu"),
        (151, "fail", "reboot"),
        (155, "fail", "reset_gpu"),
        (158, "fail", "reset_gpu"),
        (159, "fail", "reset_gpu"),
        (173, "fail", "reboot"),
        (174, "warn", "watch"),
        (175, "fail", "reset_gpu"),
        (176, "warn", "look"),
        (20, "warn", "look"),  # not used by current drivers
        (4711, "warn", "look"),  # newer than the table
    ],
)
def test_a_code_is_told_with_its_remedy(code, outcome, action):
    judgement = judged("NVRM: Xid ({0}): {1}, pid=7, name=python3, some words".format(BUS, code))
    assert told(judgement) == [("xid_{0}".format(code), outcome, action, GPU)]
    assert "process python3 (7)" in judgement.findings[0].reason
    assert "2 h ago" in judgement.findings[0].reason
    assert finding_name("gpu_xid", judgement.findings[0]) == "gpu_xid/xid_{0}/{1}".format(code, GPU)


@pytest.mark.parametrize(
    "code", [8, 11, 13, 31, 32, 39, 43, 45, 60, 63, 68, 69, 80, 86, 92, 106, 121, 126, 137, 141, 157, 160, 161]
)
def test_an_application_of_its_own_fault_leaves_the_node_alone(code):
    judgement = judged(*["NVRM: Xid ({0}): {1}, pid=7, name=python3, some words".format(BUS, code)] * 3)
    assert told(judgement) == []
    assert judgement.seen == "3 Xids of applications"
    assert [(one.name, one.value, one.key) for one in judgement.measured] == [("gpu_xid_events", 3.0, GPU)]


@pytest.mark.parametrize("code", range(144, 151))
def test_nvlink_codes_hang_on_the_word_fatal(code):
    line = "NVRM: Xid (PCI:0000:0b:00): {0}, UNIT_X {1} XC0 i0 Link 03 (0x004505c6 0x00000000)"
    fatal, other = line.format(code, "Fatal"), line.format(code, "Nonfatal")
    assert told(judged(fatal)) == [("xid_{0}_fatal".format(code), "fail", "reset_gpu", GPU)]
    assert told(judged(other)) == [("xid_{0}_nonfatal".format(code), "warn", "look", GPU)]
    assert len(told(judged(fatal, other))) == 2
    assert "UNIT_X" in judged(fatal).findings[0].reason


LINK_EVENT = "NVRM: Xid (PCI:0000:0b:00): {0}, {1} {2} XC0 i0 Link 08 (0x{3:08x} 0x{4:08x} 0x0)"


@pytest.mark.parametrize(
    ("code", "unit", "severity", "info", "status", "outcome"),
    [
        # Subcodes of a link that went down, before R575 and since.
        (149, "NETIR_LINK_EVT", "Fatal", 0b100110 << 20 | 0b0111000110, 0, None),
        (149, "NETIR_LINK_DOWN", "Fatal", 0b100110 << 20 | 0b0010001, 0, None),
        (149, "NETIR_LINK_EVT", "Fatal", 0b101000 << 20 | 0b0111000110, 0, None),
        (149, "NETIR_LINK_EVT", "Fatal", 0b100100 << 20 | 0b0111000110, 0, "fail"),
        (149, "NETIR_LINK_EVT", "Fatal", 0b1100110 << 20 | 0b0111000110, 0, None),  # bits above are of no matter
        (149, "NETIR_MFDE_EVENT", "Fatal", 0b100110 << 20, 1, "fail"),
        (149, "NETIR_LINK_EVT", "Nonfatal", 0b100110 << 20, 0, "warn"),
        (144, "NETIR_LINK_EVT", "Fatal", 0b100110 << 20, 0, "fail"),
        *[(145, "RLW_REMAP", "Nonfatal", 0x82, status, None) for status in (1, 2, 4, 8, 0x10, 0x20)],
        (145, "RLW_REMAP", "Nonfatal", 0x82, 0x100, None),
        (145, "RLW_REMAP", "Fatal", 0x82, 0x40, "fail"),
        (145, "RLW_SRC_TRACK", "Nonfatal", 0xE2, 4, None),
        (145, "RLW_SRC_TRACK", "Nonfatal", 0xE2, 8, None),
        (145, "RLW_SRC_TRACK", "Nonfatal", 0xE2, 2, None),
        (145, "RLW_SRC_TRACK", "Nonfatal", 0xE2, 0x80000000, "warn"),
    ],
)
def test_registers_of_an_nvlink_error_decide_where_the_catalogue_has_a_row(code, unit, severity, info, status, outcome):
    found = told(judged(LINK_EVENT.format(code, unit, severity, info, status)))
    assert [one[1] for one in found] == ([outcome] if outcome else [])


def test_a_harmless_link_event_hides_no_other_of_its_code():
    harmless = LINK_EVENT.format(149, "NETIR_LINK_EVT", "Fatal", 0b100110 << 20 | 0b0111000110, 0)
    other = LINK_EVENT.format(149, "NETIR_LINK_EVT", "Fatal", 0b000100 << 20 | 0b0111000110, 0)
    assert told(judged(harmless)) == []
    for lines in ((harmless, other), (other, harmless)):
        assert told(judged(*lines)) == [("xid_149_fatal", "fail", "reset_gpu", GPU)]


@pytest.mark.parametrize(
    ("words", "outcome", "action"),
    [
        ("GPU Reset Required", "fail", "reset_gpu"),
        ("PF FLR", "fail", "reset_gpu"),
        ("Node Reboot Required", "fail", "reboot"),
        ("OS Reboot", "fail", "reboot"),
        ("Drain P2P", "fail", "reset_gpu"),
        ("Drain and Reset", "warn", "reset_gpu"),
    ],
)
def test_xid_154_speaks_for_the_driver(words, outcome, action):
    line = "NVRM: Xid ({0}): 154, GPU recovery action changed from 0x0 (None) to 0x1 ({1})".format(BUS, words)
    assert told(judged(line)) == [("xid_154", outcome, action, GPU)]
    assert told(judged(line, RESET_LINE)) == []
    assert told(judged(line, LOADED_LINE)) == []


@pytest.mark.parametrize(
    ("number", "outcome", "action"),
    [("0x0", None, None), ("0x1", "fail", "reset_gpu"), ("0x4", "warn", "reset_gpu"), ("0x63", "fail", "look")],
)
def test_an_action_in_new_words_goes_by_its_number(number, outcome, action):
    line = "NVRM: Xid ({0}): 154, GPU recovery action changed from 0x7 (Old) to {1} (Some New)".format(BUS, number)
    judgement = judged(line)
    assert told(judgement) == ([("xid_154", outcome, action, GPU)] if outcome else [])
    assert all("some new" in one.reason and one.certainty.value == "likely" for one in judgement.findings)
    assert (told(judged(UNCONTAINED, line)) == []) == (number == "0x0")  # nothing more asked for settles it
    cut = line[: line.index("to 0x")]
    assert told(judged(cut)) == [("xid_154", "fail", "look", GPU)]


UNCONTAINED = "NVRM: Xid ({0}): 95, pid=7, name=python3, Uncontained: LTC TAG".format(BUS)
FALLEN = "NVRM: Xid ({0}): 79, GPU has fallen off the bus.".format(BUS)


@pytest.mark.parametrize("settling", [RESET_LINE, LOADED_LINE])
def test_a_reset_afterwards_settles_what_a_reset_can(settling):
    assert told(judged(UNCONTAINED, settling)) == []
    assert judged(UNCONTAINED, settling).seen == "0 Xids of applications, 1 settled"
    assert told(judged(settling, UNCONTAINED)) == [("xid_95", "fail", "reset_gpu", GPU)]
    assert told(judged(FALLEN, settling)) == [("xid_79", "fail", "reboot", GPU)]


ASKED = "NVRM: Xid ({0}): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)".format(BUS)


def test_xid_154_ends_with_what_nvml_tells_now():
    """A reset destroys the object of the GPU in the driver, and with it what it asked for: no line says so."""
    assert told(judged(ASKED, actions={GPU: "none"})) == []
    for actions in ({GPU: "gpu_reset"}, {GPU: ""}, {OTHER: "none"}, {}):
        assert told(judged(ASKED, actions=actions)) == [("xid_154", "fail", "reset_gpu", GPU)]


@pytest.mark.parametrize("asks", ["", "none"])
def test_a_reset_by_our_remedy_settles_what_came_before_it(asks):
    now = {GPU: asks}
    assert told(judged(UNCONTAINED, actions=now, resets={GPU: 60.0})) == []
    assert told(judged(UNCONTAINED, actions=now, resets={GPU: 59.0}))[0][0] == "xid_95"
    assert told(judged(UNCONTAINED, actions=now, resets={OTHER: 99.0}))[0][0] == "xid_95"
    assert told(judged(UNCONTAINED, UNCONTAINED, actions=now, resets={GPU: 60.0}))[0][0] == "xid_95"
    assert told(judged(FALLEN, actions=now, resets={GPU: 99.0}))[0][0] == "xid_79"  # a reset does not mend that


def test_a_reset_that_left_something_asked_for_settles_nothing():
    for actions in ({GPU: "gpu_reset"}, {}):
        assert told(judged(UNCONTAINED, actions=actions, resets={GPU: 99.0}))[0][:2] == ("xid_95", "fail")


def test_the_resets_that_count_were_carried_out_since_the_boot():
    def tried(seconds, boot="b", remedy="reset_gpu", gpus=("GPU-1",)):
        return Attempt(remedy, "gpu:GPU-1", BOOTED, boot, log_seconds=seconds, gpus=gpus)

    assert attempts.resets([tried(None), tried(9.0, boot="a")], "b") == ()
    assert attempts.resets([tried(9.0, boot="")], "") == ()
    both = tried(3.0, remedy="restart_service", gpus=("GPU-1", "GPU-2"))
    assert attempts.resets([tried(9.0), both], "b") == ((9.0, {"GPU-1"}), (3.0, {"GPU-1", "GPU-2"}))


def test_a_reset_of_another_gpu_settles_nothing():
    assert len(told(judged(UNCONTAINED, RESET_LINE.replace("0b", "0c")))) == 1


def test_the_driver_may_ask_for_nothing_now():
    judgement = judged(UNCONTAINED, actions={GPU: "none"})
    assert told(judgement) == [("xid_95", "warn", "reset_gpu", GPU)]
    assert judgement.findings[0].certainty.value == "possible"
    assert told(judged(UNCONTAINED, actions={GPU: "gpu_reset"}))[0][1] == "fail"
    assert told(judged(UNCONTAINED, actions={OTHER: "none"}))[0][1] == "fail"
    assert told(judged(FALLEN, actions={GPU: "none"}))[0][1] == "fail"


LOST = "NVRM: GPU 0000:0b:00.0: GPU has fallen off the bus."
LOST_AT_LOAD = (
    "NVRM: The NVIDIA GPU 0000:0b:00.0\\x0aNVRM: (PCI ID: 10de:2330) installed in this system has\\x0a"
    "NVRM: fallen off the bus and is not responding to commands."
)
NOT_STARTED = "NVRM: GPU 0000:0b:00.0: RmInitAdapter failed! (0x26:0xffff:1480)"


@pytest.mark.parametrize("line", [LOST, LOST_AT_LOAD, "NVRM: GPU at 0000:0b:00.0 has fallen off the bus."])
def test_a_gpu_that_fell_off_the_bus_is_told_without_an_xid(line):
    assert told(judged(line)) == [("xid_79", "fail", "reboot", GPU)]
    assert told(judged(line, acknowledged=[{"code": 79, "before": BOOTED + 60}])) == []


def test_what_the_driver_says_twice_is_told_once():
    judgement = judged((60.0, FALLEN), (60.0, LOST))
    assert told(judgement) == [("xid_79", "fail", "reboot", GPU)]
    assert "once" in judgement.findings[0].reason
    assert "2 times" in judged((60.0, FALLEN), (60.0, LOST), (90.0, LOST)).findings[0].reason
    assert len(told(judged((60.0, FALLEN), (60.0, LOST.replace("0b", "0c"))))) == 2


def test_a_gpu_that_the_driver_could_not_start_is_told_until_it_answers():
    minor = "NVRM: GPU 0000:0b:00.0: rm_init_adapter failed, device minor number 5"
    judgement = judged(NOT_STARTED, minor, NOT_STARTED, minor)
    assert told(judgement) == [("not_started", "fail", "reset_gpu", GPU)]
    assert "2 times" in judgement.findings[0].reason
    assert told(judged(NOT_STARTED, LOADED_LINE)) == []
    assert told(judged(LOADED_LINE, NOT_STARTED)) != []
    assert told(judged(NOT_STARTED, actions={OTHER: ""}))[0][1] == "fail"
    assert told(judged(NOT_STARTED, actions={GPU: ""}))[0][1] == "warn"


@pytest.mark.parametrize(
    ("entry", "quiet"),
    [
        ({"code": 79, "before": BOOTED + 60}, True),
        ({"code": 79, "before": BOOTED + 59}, False),
        ({"code": 79, "before": BOOTED + 600, "pci_address": "0000:0B:00.0"}, True),
        ({"code": 79, "before": BOOTED + 600, "pci_address": "0b:00"}, True),
        ({"code": 79, "before": BOOTED + 600, "pci_address": OTHER}, False),
        ({"code": 78, "before": BOOTED + 600}, False),
        ({"code": 79, "before": "2026-09-21T14:14:20Z"}, True),
        ({"code": 79, "before": "2026-09-21T14:14:19Z"}, False),
        ({"code": 79, "before": "2026-09-21T16:14:20+02:00"}, True),
        ({"code": 79, "before": "2026-09-21T14:14:20"}, True),
    ],
)
def test_an_acknowledged_xid_is_told_no_more(entry, quiet):
    assert told(judged(FALLEN, acknowledged=[entry])) == ([] if quiet else [("xid_79", "fail", "reboot", GPU)])


def test_it_comes_again_after_it_was_acknowledged():
    entry = {"code": 79, "before": BOOTED + 60}
    assert len(told(judged(FALLEN, (4000.0, FALLEN), acknowledged=[entry]))) == 1


@pytest.mark.parametrize(
    "given_",
    [
        {"code": 79},
        [{"code": 79}],
        [{"before": 1}],
        [{"code": True, "before": 1}],
        [{"code": 79, "before": "yesterday"}],
        [{"code": 79, "before": 1, "pci_address": "GPU 3"}],
        ["79"],
    ],
)
def test_an_entry_that_says_nothing_is_told(given_):
    judgement = judged(FALLEN, acknowledged=given_)
    assert [(one[0], one[1], one[2]) for one in told(judgement)] == [
        ("acknowledged", "warn", "configure"),
        ("xid_79", "fail", "reboot"),
    ]


FATAL = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
NON_FATAL = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)"
GOES_ON = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Severity 0 Engine instance 32 Sub-engine instance 00"


def switches(*lines, **health):
    kernel = log(*lines)
    events, loads = gpu_xid_lines.read_switches(kernel), gpu_xid_lines.read_xids(kernel).loads
    return gpu_nvswitch.judge(gpu_nvswitch.Seen(events, loads, BOOTED), expected(**health))


def test_sxids_of_switches():
    assert told(switches(FATAL)) == [("sxid_20034", "fail", "reboot", "0000:c1:00.0")]
    assert told(switches(NON_FATAL, GOES_ON)) == []
    assert switches(NON_FATAL, GOES_ON).seen == "1 SXids"
    assert told(switches(FATAL, LOADED_LINE)) == []
    assert told(switches(LOADED_LINE, FATAL)) != []
    assert told(switches(FATAL, acknowledged=[{"code": 20034, "before": BOOTED + 60}])) == []


@pytest.mark.parametrize(
    ("recovered", "why_down", "reset", "outcome"),
    [
        # A driver that reports no recovery action. The SXid is in second 60.
        (None, "", None, "fail"),
        (None, "", 59.0, "fail"),
        (None, "", 60.0, "warn"),
        (None, "GPU 3 has not joined it", 60.0, "fail"),
        # A driver that does.
        (True, "", None, "warn"),
        (True, "", 59.0, "warn"),
        (False, "", 60.0, "fail"),
        (True, "GPU 3 has not joined it", 60.0, "fail"),
    ],
)
def test_a_fatal_sxid_is_a_warning_after_a_reset_of_the_fabric(recovered, why_down, reset, outcome):
    kernel, fabric = log(FATAL), Fabric(there=True, recovered=recovered, why_down=why_down)
    seen = gpu_nvswitch.Seen(gpu_xid_lines.read_switches(kernel), (), BOOTED, fabric, reset)
    (finding,) = gpu_nvswitch.judge(seen, expected()).findings
    assert finding.outcome.value == outcome
    assert ("a remedy has reset all GPUs since" in finding.reason) == (outcome == "warn" and recovered is None)
    by_hand = outcome == "fail" and recovered is None and not why_down
    assert ("add the SXid to acknowledged" in finding.remedy) == by_hand


def test_an_sxid_after_the_reset_fails_again():
    kernel, fabric = log(FATAL, FATAL), Fabric(there=True)
    seen = gpu_nvswitch.Seen(gpu_xid_lines.read_switches(kernel), (), BOOTED, fabric, 60.0)
    assert told(gpu_nvswitch.judge(seen, expected()))[0][1] == "fail"


@pytest.mark.parametrize(
    ("gpus", "resets", "at"),
    [
        ("ab", [(5.0, "ab")], 5.0),
        ("ab", [(5.0, "ab"), (9.0, "ab"), (7.0, "ab")], 9.0),
        ("ab", [(5.0, "abc")], 5.0),
        ("a", [(5.0, "a")], 5.0),
        # A reset of one GPU alone does not include the NVSwitches, nor do several of them.
        ("ab", [(5.0, "a")], None),
        ("ab", [(5.0, "a"), (6.0, "b")], None),
        ("ab", [(5.0, "ab"), (9.0, "b")], 5.0),
        ("abd", [(5.0, "abc")], None),
        ("ab", [], None),
        ("", [(5.0, "ab")], None),
        ([None], [(5.0, "a")], None),
    ],
)
def test_only_a_reset_of_all_gpus_at_once_includes_the_nvswitches(gpus, resets, at):
    given = [(seconds, frozenset(names)) for seconds, names in resets]
    assert gpu_nvswitch.reset_of_all(Fabric(gpus=tuple(gpus)), given) == at


PROBED = "nvidia-nvlink: Nvlink Core is being initialized, major device number 234"


def test_a_fault_while_the_driver_loads_is_not_settled_by_that_load():
    """The driver probes the NVSwitches before it writes that it was loaded."""
    fatal = ("sxid_20034", "fail", "reboot", "0000:c1:00.0")
    assert told(switches((9.1, FATAL), (9.9, LOADED_LINE))) == [fatal]
    assert told(switches((8.0, PROBED), (9.0, FATAL), (90.0, LOADED_LINE))) == [fatal]
    assert told(switches((7.0, FATAL), (8.0, PROBED), (9.0, LOADED_LINE))) == []
    assert told(switches((8.0, PROBED), (9.1, FATAL), (9.9, LOADED_LINE), (500.0, PROBED), (501.0, LOADED_LINE))) == []
    # A load that failed leaves its beginning behind, and the next one its own.
    assert told(switches((8.0, PROBED), (9.1, FATAL), (12.0, PROBED), (13.0, LOADED_LINE))) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10008, Fatal, Firmware initialization failure (0x1/0x2, 0x3, 0x4", [("sxid_10008", "fail")]),
        ("24007, Fatal, PRI WRITE SYS error, instance=1, chiplet=0", [("sxid_24007", "fail")]),
        ("10006, TSENSE OVERT Threshold reached. Shutting Down", [("sxid_10006", "fail")]),
        ("26006, SOE HALTED", [("sxid_26006", "warn")]),
        ("26008, SOE Watchdog error", [("sxid_26008", "warn")]),
        ("27006, Module 3 boot failure", [("sxid_27006", "warn")]),
        ("10007, IO failure", [("sxid_10007", "warn")]),
        ("12028, Non-fatal, Link 46 egress non-posted PRIV error (First)", []),
        ("28006, Correctable, Link 46 something", []),
        ("20034, Severity 1 Engine instance 30 Sub-engine instance 00", []),
        ("20034, Data {0x00000001, 0x00000001}", []),
        ("10004, NVSWITCH Temperature 95C | TSENSE WARN Threshold 90C", []),
        ("10005, Thermal slowdown Disengaged", []),
    ],
)
def test_every_form_of_an_sxid_of_the_driver(text, found):
    judgement = switches("nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): " + text)
    assert [(one.code, one.outcome.value) for one in judgement.findings] == found


def link_errors(count, gpus=8, links=18, gap=0.01):
    bus = "NVRM: Xid (PCI:0000:{0:02x}:00): 145, pid=4711, name=python3, RLW_SRC_TRACK Nonfatal XC1 i0 Link {1:02d} "
    registers = "(0x040988e2 0x00000008 0x00000000 0x00000000 0x00000000 0x00000000)"
    return [(600 + at * gap, bus.format(0x66 + at % gpus, at // gpus % links) + registers) for at in range(count)]


def test_a_storm_of_harmless_nvlink_errors_on_all_links_is_a_warning():
    judgement = judged(*link_errors(872))
    assert told(judgement) == [("nvlink_storm", "warn", "look", "")]
    assert "872 NVLink errors" in judgement.findings[0].reason and "18 links of 8 GPUs" in judgement.findings[0].reason
    assert "nccl_all_reduce" in judgement.findings[0].remedy
    assert told(judged(*link_errors(200, gpus=1)))[0][0] == "nvlink_storm"
    # Afterwards one more line a day hides nothing, and a new load of the driver settles it.
    assert told(judged(*link_errors(872), (90000.0, link_errors(1)[0][1])))[0][0] == "nvlink_storm"
    assert told(judged(*link_errors(872), (700.0, LOADED_LINE))) == []


def test_a_few_nvlink_errors_for_each_link_are_normal():
    assert told(judged(*link_errors(288))) == []  # a job was killed
    assert told(judged(*link_errors(2000, gap=3600.0))) == []  # many jobs, over months
    assert told(judged(*link_errors(872, links=2))) == []


def test_a_flood_is_counted_not_kept():
    kernel = log(*[(60.0 + at, FALLEN.replace("0b", "{0:02x}".format(at % 4))) for at in range(5000)])
    events = gpu_xid_lines.read_xids(kernel).events
    assert [(one.count, one.first, one.last) for one in events] == [(1250, 60.0 + n, 5056.0 + n) for n in range(4)]


def test_nothing_is_read_where_there_is_no_gpu(tmp_path):
    evidence = Evidence(Host(str(tmp_path)), {}, {})  # there is no kernel log to read here either
    assert gpu_xid.judge(gpu_xid.look(evidence), expected()).not_applicable
    assert gpu_nvswitch.judge(gpu_nvswitch.look(evidence), expected()).not_applicable


def test_every_table_is_whole():
    tables = [
        *xids.XIDS.values(),
        *xids.BUCKETS.values(),
        *xids.NVLINK_XIDS.values(),
        *xids.SWITCH_XIDS.values(),
    ]
    assert all(isinstance(one.source, str) and len(one.source) > 10 for one in tables)
    codes = set(xids.XIDS) | set(xids.NVLINK_XIDS) | {xids.RECOVERY_ACTION_CHANGED}
    assert codes == set(range(1, 177))
    assert set(xids.BUCKETS) == set(xids.Bucket)


TEXTS = st.one_of(
    st.text(),
    st.from_regex(r"NVRM: Xid \([A-Za-z0-9:. -]{0,30}\): [0-9]{1,7},? ?[ -~]{0,60}", fullmatch=True),
    st.from_regex(
        r"nvidia-nvswitch[0-9]{1,4}: SXid \(PCI:[0-9a-f:.]{0,14}\): [0-9]{1,7}, (Fatal|Non-fatal), [ -~]{0,40}"
    ),
    st.sampled_from(
        [RESET_LINE, LOADED_LINE, UNCONTAINED, FALLEN, LOST, NOT_STARTED, FATAL, NON_FATAL, GOES_ON]
    ).flatmap(lambda line: st.integers(0, len(line)).map(lambda end: line[:end])),
)


@examples(60)
@given(st.lists(st.tuples(st.floats(0, 1e9), TEXTS), max_size=6))
def test_no_log_crashes_a_judge_and_each_finding_is_whole(lines):
    clean = [(seconds, " ".join(text.split("\n"))) for seconds, text in lines]
    for judgement in (judged(*clean), switches(*clean)):
        for one in judgement.findings:
            assert one.reason and one.remedy and one.code and one.key


JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["code", "before", "pci_address", "x"]), inner, max_size=3),
    ),
    max_leaves=6,
)


@examples(60)
@given(JUNK)
def test_no_setting_crashes_the_reader(value):
    entries, wrong = gpu_acknowledged.acknowledged({"acknowledged": value})
    assert all(dataclasses.is_dataclass(one) for one in (*entries, *wrong))
