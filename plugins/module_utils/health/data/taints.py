# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bits of /proc/sys/kernel/tainted. Those of the driver are normal on a node with GPUs."""

from __future__ import annotations

from typing import Tuple

from ...core.frozen import frozen
from ..types import Outcome, Remedy

_SOURCE = "Linux, Documentation/admin-guide/tainted-kernels.rst"


@frozen
class Taint:
    """``outcome`` pass: the bit says nothing against the node. ``remedy`` is for people."""

    bit: int
    letter: str
    code: str
    meaning: str
    outcome: Outcome
    action: Remedy
    remedy: str
    source: str


def _normal(bit: int, letter: str, code: str, meaning: str) -> Taint:
    return Taint(bit, letter, code, meaning, Outcome.PASS, Remedy.WATCH, "nothing", _SOURCE)


def _bad(bit: int, letter: str, code: str, meaning: str, outcome: Outcome, action: Remedy, remedy: str) -> Taint:
    return Taint(bit, letter, code, meaning, outcome, action, remedy, _SOURCE)


_REBOOT = "look at 'dmesg' for the first trace, then reboot: only that clears it"
_WARNING = "look at 'dmesg' for lines with 'WARNING:' and 'cut here', and reboot at the next occasion"

TAINTS: Tuple[Taint, ...] = (
    _normal(0, "P", "proprietary_module", "a module with another licence than the kernel's was loaded"),
    _bad(1, "F", "forced_module", "a module was loaded by force", Outcome.WARN, Remedy.REBOOT, _REBOOT),
    _normal(2, "S", "out_of_specification", "the processor runs outside of its specification"),
    _bad(3, "R", "forced_unload", "a module was unloaded by force", Outcome.WARN, Remedy.REBOOT, _REBOOT),
    _bad(
        4,
        "M",
        "machine_check",
        "the processor reported a machine check exception",
        Outcome.FAIL,
        Remedy.REPLACE,
        "look at 'dmesg' for lines with 'Hardware Error', then reboot; redeploy or replace the machine when it repeats",
    ),
    _bad(5, "B", "bad_page", "the kernel found a bad memory page", Outcome.FAIL, Remedy.REBOOT, _REBOOT),
    _normal(6, "U", "user", "a program asked for it"),
    _bad(7, "D", "died", "the kernel has died once (an oops or a bug)", Outcome.FAIL, Remedy.REBOOT, _REBOOT),
    _normal(8, "A", "acpi_table", "an ACPI table was overridden"),
    _bad(9, "W", "warning", "the kernel printed a warning with a trace", Outcome.WARN, Remedy.LOOK, _WARNING),
    _normal(10, "C", "staging_driver", "a staging driver was loaded"),
    _normal(11, "I", "firmware_workaround", "a severe bug of the firmware was worked around"),
    _normal(12, "O", "out_of_tree_module", "a module from outside of the kernel was loaded"),
    _normal(13, "E", "unsigned_module", "a module without signature was loaded"),
    _bad(14, "L", "soft_lockup", "a CPU was stuck in the kernel", Outcome.WARN, Remedy.REBOOT, _REBOOT),
    _normal(15, "K", "live_patch", "the kernel was patched while it ran"),
    _normal(16, "X", "auxiliary", "the distribution says so"),
    _normal(17, "T", "random_structure_layout", "the kernel was built with a random layout of structures"),
    _normal(18, "N", "test", "a test of the kernel ran"),
    _normal(19, "J", "firmware_control", "a program talked to firmware past its driver"),
)
