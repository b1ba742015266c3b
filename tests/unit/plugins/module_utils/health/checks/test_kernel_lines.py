# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of the kernel that belong together, or that are of another time than they seem."""

from __future__ import annotations

import types

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import kernel_messages
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.kernel_messages import MESSAGES
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.kernel_log import KernelLog

BERT = (
    "BERT: Error records from previous boot:",
    "[Hardware Error]: event severity: fatal",
    "[Hardware Error]:  Error 0, type: fatal",
    "[Hardware Error]:   section_type: PCIe error",
)
LIVE = ("{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 512",) + tuple(
    "{1}" + line for line in BERT[1:]
)


def found(*lines):
    records = tuple("3,{0},{1},-;{2}".format(number, 1000 * number, line) for number, line in enumerate(lines))
    log = KernelLog("ring buffer", records, True)
    return [
        (MESSAGES[place].check, MESSAGES[place].code, match.groupdict().get("key"), MESSAGES[place].outcome.value)
        for place, match, dummy in log.find([one.rule for one in MESSAGES])
    ]


def test_an_error_of_the_previous_boot_is_no_error_of_this_one():
    assert found(*BERT) == [("kernel_machine_checks", "previous_boot", None, "warn")]
    assert found(*LIVE) == [("kernel_machine_checks", "uncorrected", None, "fail")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "mlx5_core 0102:00:00.0: print_health_info:431:(pid 0): synd 0x8: unrecoverable hardware error",
            [("ib_device_faults", "hardware", "0102:00:00.0", "fail")],
        ),
        ("mlx5_core 0102:00:00.0: print_health_info:431:(pid 0): synd 0x10: High temperature", []),
        (
            "pcieport 0000:00:01.0: DPC: containment event, status:0x1f01 source:0x0000",
            [("pci_errors", "containment", "0000:00:01.0", "fail")],
        ),
        ("pcieport 0000:00:01.0: DPC: error containment capabilities: Int Msg #0, RPExt+ PoisonedTLP+ SwTrigger+", []),
    ],
)
def test_what_a_device_says_of_itself(line, expected):
    assert found(line) == expected


def judged(*lines, hours=1.0):
    """(check, code, outcome, key) of all findings; the lines are from the first second of the boot."""
    records = tuple("3,{0},{1},-;{2}".format(number, 1000 * number, line) for number, line in enumerate(lines))
    evidence = types.SimpleNamespace(
        kernel_log=KernelLog("ring buffer", records, True),
        host=types.SimpleNamespace(read=lambda path, limit=None: "{0} 0".format(hours * 3600)),
    )
    return [
        (check, one.code, one.outcome.value, one.key)
        for check in kernel_messages.TITLES
        for one in kernel_messages.judge(kernel_messages._look(evidence, check), None).findings
    ]


def record(number, event, *parts):
    """A record of the firmware; each part is (section type, severity, device)."""
    lines = ["Hardware error from APEI Generic Hardware Error Source: 1", "event severity: " + event]
    for at, (kind, severity, device) in enumerate(parts):
        lines += [" Error {0}, type: {1}".format(at, severity), "  section_type: " + kind]
        lines += ["  port_type: 0, PCIe end point", "  device_id: " + device, "  slot: 9"] if device else []
    return ["{{{0}}}[Hardware Error]: {1}".format(number, line) for line in lines]


DISK, CARD = "0000:5e:00.0", "0000:17:00.0"
UNCORRECTED = ("kernel_machine_checks", "uncorrected", "fail", "")


@pytest.mark.parametrize(
    ("event", "parts", "found"),
    [
        ("recoverable", [("PCIe error", "recoverable", DISK)], [("pci_errors", "nonfatal", "warn", DISK)]),
        ("fatal", [("PCIe error", "fatal", DISK)], [("pci_errors", "fatal", "fail", DISK)]),
        ("recoverable", [("PCIe error", "recoverable", "")], [("pci_errors", "nonfatal", "warn", "")]),
        ("corrected", [("PCIe error", "corrected", DISK)], []),
        ("info", [("PCIe error", "info", DISK)], []),
        ("corrected", [("memory error", "corrected", "")], []),
        ("recoverable", [("memory error", "recoverable", "")], [UNCORRECTED]),
        ("fatal", [("general processor error", "fatal", "")], [UNCORRECTED]),
        ("recoverable", [("unknown, 6d5244f2-2712-11ec-bea7-cb3fdb95c786", "recoverable", "")], [UNCORRECTED]),
        ("recoverable", [], [UNCORRECTED]),
        # The severity of the section counts, not that of the worst one.
        (
            "recoverable",
            [("PCIe error", "recoverable", DISK), ("memory error", "corrected", ""), ("PCIe error", "corrected", CARD)],
            [("pci_errors", "nonfatal", "warn", DISK)],
        ),
        (
            "recoverable",
            [("PCIe error", "recoverable", DISK), ("memory error", "recoverable", "")],
            [UNCORRECTED, ("pci_errors", "nonfatal", "warn", DISK)],
        ),
    ],
)
def test_a_record_of_the_firmware_is_one_event_judged_by_its_sections(event, parts, found):
    assert judged(*record(1, event, *parts)) == found


def test_records_of_two_sources_may_alternate():
    disk = record(7, "recoverable", ("PCIe error", "recoverable", DISK))
    memory = record(8, "corrected", ("memory error", "corrected", ""))
    mixed = [line for pair in zip(disk, memory + [memory[-1]] * 3) for line in pair]
    assert judged(*mixed) == [("pci_errors", "nonfatal", "warn", DISK)]


def test_a_pcie_error_from_the_firmware_expires_after_a_day_like_an_aer_error():
    native = "nvme {0}: AER: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer".format(DISK)
    firmware = record(1, "recoverable", ("PCIe error", "recoverable", DISK))
    assert judged(*firmware, native) == [("pci_errors", "nonfatal", "warn", DISK)]
    assert judged(*firmware, hours=40.0) == judged(native, hours=40.0) == []
    assert judged(*record(1, "recoverable", ("memory error", "recoverable", "")), hours=40.0) == [UNCORRECTED]
