# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is left of the spare rows and pages of the GPU memory, and which repairs wait for a reset."""

from __future__ import annotations

from typing import List

from ...facts.gpu_info import GpuInformation
from ..types import GPU_LANE, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy, worst
from .gpu_common import REPLACE, RESET, digits, each, figure, finding, lasted, over, unread

ROWS = "gpu_remapped_uncorrectable_rows"
PENDING = "gpu_pending_row_remaps"
BANKS = "gpu_memory_exhausted_banks"
PAGES = "gpu_retired_pages"
DOUBLE_BIT = "gpu_retired_pages_double_bit"
_ROWS_PATHS = ("repair.remapped_rows", "repair.spare_rows")
_PAGES_PATHS = ("repair.retired_pages_corrected", "repair.retired_pages_uncorrected", "repair.retired_pages_pending")
_REPAIR_PATHS = ("repair.channel_repair_pending", "repair.tpc_repair_pending", "repair.unrepairable_memory")


def _row_remap(gpu: GpuInformation, expected: Expected) -> Judgement:
    repair = gpu.groups.get("repair")
    findings: List[Finding] = unread(gpu, *_ROWS_PATHS)
    rows = None if repair is None else repair.remapped_rows
    banks = None if repair is None else repair.spare_rows
    if rows is None and banks is None and not findings:
        return Judgement(not_applicable="no GPU here remaps rows, or MIG hides it")
    measured = figure(gpu, ROWS, rows and rows.uncorrectable, True, "lower")
    measured += figure(gpu, "gpu_remapped_correctable_rows", rows and rows.correctable, True, "lower")
    measured += figure(gpu, BANKS, banks and banks.none_banks, better="lower")
    if rows is not None and rows.failure:
        reason = "a bad row of its memory could not be replaced by a spare one"
        findings.append(finding(gpu, Outcome.FAIL, reason, REPLACE, Remedy.REPLACE, "failure"))
    elif rows is not None:
        outcome, limit = over(expected, ROWS, rows.uncorrectable)
        if limit is not None:
            reason = "{0} rows were remapped for uncorrectable errors, more than {1}".format(
                rows.uncorrectable, digits(limit)
            )
            findings.append(finding(gpu, outcome, reason, REPLACE, Remedy.REPLACE, "rows"))
    if rows is not None and rows.pending:
        outcome, limit = over(expected, PENDING, 1)
        if limit is not None:
            reason = "a row remap waits for a reset; until then the driver keeps the bad memory out of use"
            findings.append(finding(gpu, outcome, reason, RESET, Remedy.RESET_GPU, "pending"))
    if banks is not None and not (rows is not None and rows.failure):
        outcome, limit = over(expected, BANKS, banks.none_banks)
        if limit is not None:
            reason = "{0} of {1} memory banks have no spare row left".format(banks.none_banks, banks.max_banks)
            remedy = "plan a replacement: the next bad row in such a bank cannot be remapped"
            findings.append(finding(gpu, outcome, reason, remedy, Remedy.REPLACE, "banks"))
    return Judgement(findings=tuple(findings), measured=measured)


def _retired_pages(gpu: GpuInformation, expected: Expected) -> Judgement:
    repair = gpu.groups.get("repair")
    findings: List[Finding] = unread(gpu, *_PAGES_PATHS)
    corrected = None if repair is None else repair.retired_pages_corrected
    uncorrected = None if repair is None else repair.retired_pages_uncorrected
    if corrected is None and uncorrected is None and not findings:
        return Judgement(not_applicable="no GPU here retires pages")
    pages = (corrected or 0) + (uncorrected or 0)
    measured = figure(gpu, PAGES, pages, True, "lower") + figure(gpu, DOUBLE_BIT, uncorrected, True, "lower")
    outcome, limit = over(expected, PAGES, pages)
    if limit is not None:
        reason = "{0} pages of its memory are retired, more than {1}".format(pages, digits(limit))
        findings.append(_pages(gpu, outcome, reason, "pages"))
    elif uncorrected is not None:
        findings += _double_bit(gpu, uncorrected, measured[-1], expected)
    if repair is not None and repair.retired_pages_pending:
        reason = "pages of its memory are to be retired at the next start of the driver"
        remedy = "drain the node, then reset the GPU with nvidia-smi --gpu-reset, or reboot"
        findings.append(finding(gpu, Outcome.WARN, reason, remedy, Remedy.RESET_GPU, "pending"))
    return Judgement(findings=tuple(findings), measured=measured)


def _double_bit(gpu: GpuInformation, pages: int, counted: Measured, expected: Expected) -> List[Finding]:
    """Many pages that were retired for double-bit errors: it fails when more have come lately."""
    outcome, limit = over(expected, DOUBLE_BIT, pages)
    if limit is None:
        return []
    reason = "{0} pages of its memory are retired for double-bit errors, more than {1}".format(pages, digits(limit))
    growth = expected.growth(counted)
    if growth is not None:
        reason += "; {0} of them within {1}".format(digits(growth.by), lasted(growth.hours * 3600))
        outcome = worst((outcome, over(expected, DOUBLE_BIT + "_per_week", growth.by)[0]))
    return [_pages(gpu, outcome, reason, "double_bit")]


def _pages(gpu: GpuInformation, outcome: Outcome, reason: str, code: str) -> Finding:
    if outcome is Outcome.FAIL:
        return finding(gpu, outcome, reason, REPLACE, Remedy.REPLACE, code)
    remedy = "watch it: with 64 retired pages no more can be retired"
    return finding(gpu, outcome, reason, remedy, Remedy.WATCH, code)


def _repair(gpu: GpuInformation, expected: Expected) -> Judgement:
    repair = gpu.groups.get("repair")
    findings: List[Finding] = unread(gpu, *_REPAIR_PATHS)
    told = [] if repair is None else [getattr(repair, path.partition(".")[2]) for path in _REPAIR_PATHS]
    if all(value is None for value in told) and not findings:
        return Judgement(not_applicable="no GPU here, or not this driver, tells of such repairs")
    if repair is not None and repair.unrepairable_memory:
        reason = "its memory has errors that cannot be repaired"
        findings.append(finding(gpu, Outcome.FAIL, reason, REPLACE, Remedy.REPLACE, "unrepairable"))
    for name, what in (("channel_repair_pending", "memory channel"), ("tpc_repair_pending", "compute cluster (TPC)")):
        if repair is not None and getattr(repair, name):
            reason = "the repair of a {0} waits for a reset".format(what)
            findings.append(finding(gpu, Outcome.WARN, reason, RESET, Remedy.RESET_GPU, name))
    return Judgement(findings=tuple(findings))


CHECKS = (
    Check(
        "gpu_row_remap",
        "No GPU has run out of spare memory rows or waits for a remap",
        Cost.QUICK,
        each("remapped rows", _row_remap, _ROWS_PATHS),
        lane=GPU_LANE,
        gpu_groups=("repair", "settings"),
    ),
    Check(
        "gpu_retired_pages",
        "No GPU is short of pages that can be retired",
        Cost.QUICK,
        each("retired pages", _retired_pages, _PAGES_PATHS),
        lane=GPU_LANE,
        gpu_groups=("repair", "settings"),
    ),
    Check(
        "gpu_repair",
        "No GPU waits for a repair or cannot be repaired",
        Cost.QUICK,
        each("repairs", _repair, _REPAIR_PATHS),
        lane=GPU_LANE,
        gpu_groups=("repair", "settings"),
    ),
)
