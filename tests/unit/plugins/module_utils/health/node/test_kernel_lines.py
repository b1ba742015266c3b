# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of the kernel that belong together, or that are of another time than they seem."""

from __future__ import annotations

import pytest

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
