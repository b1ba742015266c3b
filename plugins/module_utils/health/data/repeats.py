# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules over time: what of a part's history means that it will fail again, though all is well at this moment."""

from __future__ import annotations

from typing import Tuple

from ...core.frozen import frozen
from ..types import Certainty, Outcome, Remedy

_HOUR, _DAY = 3600.0, 86400.0
_RULES = "NVSentinel, charts/health-events-analyzer/values.yaml, rule "
_HOLDS = "; that it holds for a week, so that a quiet day does not bring the part back, is our choice"
_TEST = "run 'gpunode health --active' when no job runs, and NVIDIA's field diagnostics when it passes"
FATAL = (Remedy.RESET_GPU.value, Remedy.REBOOT.value, Remedy.REPLACE.value)


@frozen
class Rule:
    """``count`` events of a part within ``window`` seconds; the finding holds for ``holds`` seconds after the last.

    ``what``: fault or remedy. ``kind``, ``checks``, ``codes``, ``actions``: which ones, all where empty; ``without``:
    codes that are left out. ``by_unit``: on the same place of the part only. Events that begin within ``burst`` seconds
    after another one ended count with it; those with a code of ``sticky`` within ``sticky_seconds``, since what they
    leave behind is told again and again. ``together``: failures of whichever parts of one node that begin within so
    many seconds after one another are one event, which each of those parts has once.
    """

    code: str
    text: str
    count: int
    window: float
    holds: float
    outcome: Outcome
    action: Remedy
    certainty: Certainty
    remedy: str
    source: str
    what: str = "fault"
    kind: str = ""
    checks: Tuple[str, ...] = ()
    codes: Tuple[str, ...] = ()
    actions: Tuple[str, ...] = ()
    without: Tuple[str, ...] = ()
    by_unit: bool = False
    burst: float = 0.0
    together: float = 0.0
    sticky: Tuple[str, ...] = ()
    sticky_seconds: float = 0.0


REPEATS: Tuple[Rule, ...] = (
    Rule(
        "gpu_fatal_xids",
        "bursts of fatal Xids",
        5,
        _DAY,
        7 * _DAY,
        Outcome.FAIL,
        Remedy.REPLACE,
        Certainty.LIKELY,
        "have the GPU replaced, or redeploy the machine",
        _RULES
        + "RepeatedXIDErrorOnSameGPU; 45 follows other Xids (its issue 1629: 77 healthy nodes); a program that hogs "
        "the GPU causes 109 as well, so that we leave it out" + _HOLDS,
        kind="gpu",
        checks=("gpu_xid",),
        actions=FATAL,
        without=("xid_31", "xid_45", "xid_109"),
        burst=180.0,
        sticky=("xid_74", "xid_79", "xid_95", "xid_119"),
        sticky_seconds=3 * _HOUR,
    ),
    Rule(
        "gpu_xid_31",
        "bursts of Xid 31 (page faults, mostly of applications)",
        2,
        _DAY,
        _DAY,
        Outcome.WARN,
        Remedy.LOOK,
        Certainty.POSSIBLE,
        _TEST,
        _RULES + "RepeatedXID31OnSameGPU, which runs diagnostics; any user can cause this Xid, so it never drains",
        kind="gpu",
        codes=("xid_31",),
        burst=180.0,
    ),
    Rule(
        "gpu_xid_13",
        "bursts of Xid 13 (exceptions, mostly of applications) on the same GPC and TPC",
        2,
        _DAY,
        _DAY,
        Outcome.WARN,
        Remedy.LOOK,
        Certainty.POSSIBLE,
        _TEST,
        _RULES + "RepeatedXID13OnSameGPCAndTPC, which runs diagnostics; any user can cause it, so it never drains",
        kind="gpu",
        codes=("xid_13",),
        by_unit=True,
        burst=180.0,
    ),
    Rule(
        "{kind}_remedies",
        "remedies that did not last",
        5,
        7 * _DAY,
        7 * _DAY,
        Outcome.FAIL,
        Remedy.REPLACE,
        Certainty.LIKELY,
        "have the part replaced, or redeploy the machine",
        _RULES + "MultipleRemediations, there of a node",
        what="remedy",
    ),
    Rule(
        "port_failures",
        "failures of its link",
        3,
        _HOUR,
        _DAY,
        Outcome.FAIL,
        Remedy.LOOK,
        Certainty.LIKELY,
        "have its cable replaced, then the card; redeploy a virtual machine",
        _RULES
        + "RepeatedNICDriverError and link_downed, 3 on one port; that it holds for a day is our choice, and that "
        "failures of the ports of a node within 5 minutes of one another are one event, as when their switch restarts",
        kind="port",
        checks=("ib_ports", "ib_flaps", "network_flaps"),
        codes=("link_down", "link_downed", "carrier"),
        together=300.0,
    ),
    Rule(
        "gpu_corrected_errors",
        "floods of corrected memory errors",
        3,
        7 * _DAY,
        7 * _DAY,
        Outcome.FAIL,
        Remedy.REPLACE,
        Certainty.LIKELY,
        "have the GPU replaced, or redeploy the machine",
        "NVSentinel, issue 1748: 9.6e9 corrected errors went unseen; what a flood is says gpu_ecc, that three within a "
        "week are too many is our choice",
        kind="gpu",
        checks=("gpu_ecc",),
        codes=("corrected_dram", "corrected_sram"),
    ),
)
# What a report over nodes counts: long enough for a part to be moved meanwhile, our choice. Xids of applications, and
# one that follows others (the rules above), say nothing of a part.
WINDOW_SECONDS = 30 * _DAY
OF_APPLICATIONS = ("xid_13", "xid_31", "xid_45")
# Their warnings count, too.
WARNINGS = ("gpu_ecc",)
