# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of the GPU memory that ECC found, and whether ECC is on."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from ...facts.gpu_info import GpuInformation
from ..types import GPU_LANE, Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy
from .gpu_common import REPLACE, RESET, declared, digits, each, figure, finding, lasted, over, unread

UNCORRECTED = "gpu_ecc_uncorrected_volatile_errors"
UNCORRECTED_SINCE_BUILT = "gpu_ecc_uncorrected_aggregate_errors"
CORRECTED_DRAM = "gpu_ecc_corrected_volatile_dram_errors"
CORRECTED_SRAM = "gpu_ecc_corrected_volatile_sram_errors"
_TOLD = (
    "ecc.total.volatile_uncorrected",
    "ecc.total.aggregate_uncorrected",
    "ecc.dram.volatile_corrected",
    "ecc.sram.volatile_corrected",
    "ecc.sram_status",
)


def _errors(gpu: GpuInformation, expected: Expected) -> Judgement:
    ecc = gpu.groups.get("ecc")
    findings: List[Finding] = unread(gpu, "ecc.total", "ecc.dram", "ecc.sram", "ecc.sram_status")
    if ecc is None or (ecc.current is None and ecc.total.volatile_uncorrected is None and not findings):
        return Judgement(not_applicable="no GPU here has ECC")
    if ecc.current is False:
        return Judgement()  # nothing is counted; gpu_ecc_mode says whether that is as it should be
    measured = figure(gpu, UNCORRECTED, ecc.total.volatile_uncorrected, better="lower")
    measured += figure(gpu, UNCORRECTED_SINCE_BUILT, ecc.total.aggregate_uncorrected, True, "lower")
    measured += figure(gpu, "gpu_ecc_corrected_aggregate_errors", ecc.total.aggregate_corrected, True, "lower")
    measured += figure(gpu, CORRECTED_DRAM, ecc.dram.volatile_corrected, better="lower")
    measured += figure(gpu, CORRECTED_SRAM, ecc.sram.volatile_corrected, better="lower")
    if ecc.sram_status is not None and ecc.sram_status.threshold_exceeded:
        reason = "its SRAM has had more uncorrectable errors than NVIDIA allows"
        findings.append(finding(gpu, Outcome.FAIL, reason, REPLACE, Remedy.REPLACE, "sram_threshold"))
    volatile = _uncorrected(gpu, ecc, expected)
    findings += volatile or _growth(gpu, measured, expected)
    for name, value, where in (
        (CORRECTED_DRAM, ecc.dram.volatile_corrected, "memory"),
        (CORRECTED_SRAM, ecc.sram.volatile_corrected, "SRAM"),
    ):
        outcome, limit = over(expected, name, value)
        if limit is not None:
            reason = "{0} errors of its {1} were corrected since the driver started, more than {2}".format(
                value, where, digits(limit)
            )
            code = "corrected_dram" if where == "memory" else "corrected_sram"
            findings.append(finding(gpu, outcome, reason, REPLACE, Remedy.REPLACE, code, Certainty.LIKELY))
    return Judgement(findings=tuple(findings), measured=measured)


def _uncorrected(gpu: GpuInformation, ecc: Any, expected: Expected) -> List[Finding]:
    """Errors since the driver started. If the driver reports a recovery action, it decides whether the GPU can stay in
    use. If not, and the memory replaces bad rows by spare ones (Ampere and later), gpu_row_remap and gpu_xid judge the
    same event: they fail if the replacement failed or the error was not contained. On other GPUs (Volta) every
    uncorrected error requires a reset."""
    errors: Optional[int] = ecc.total.volatile_uncorrected
    outcome, limit = over(expected, UNCORRECTED, errors)
    if limit is None:
        return []
    repair = gpu.groups.get("repair")
    advice_told = repair is not None and repair.recovery_action is not None
    rows = None if repair is None else repair.remapped_rows
    remapped = rows is not None and rows.uncorrectable > 0 and not rows.failure
    remapped = remapped and ecc.dram.volatile_uncorrected == errors
    if not advice_told and not remapped:
        outcome = Outcome.FAIL
    reason = "its memory has had {0} uncorrectable errors since the driver started".format(errors)
    if advice_told:
        reason += "; whether it may be used on is told by gpu_recovery_action"
    elif remapped:
        reason += ", and the bad rows are remapped; gpu_row_remap and gpu_xid report whether it can stay in use"
    return [finding(gpu, outcome, reason, RESET, Remedy.RESET_GPU, "uncorrected")]


def _growth(gpu: GpuInformation, measured: Tuple[Measured, ...], expected: Expected) -> List[Finding]:
    """Errors that a reset has wiped off the volatile count."""
    for one in measured:
        growth = expected.growth(one) if one.name == UNCORRECTED_SINCE_BUILT else None
        if growth is not None and growth.by > 0:
            reason = "its memory has had {0} uncorrectable errors within {1}".format(
                digits(growth.by), lasted(growth.hours * 3600)
            )
            remedy = "nothing when it was reset since; have the GPU replaced if they recur"
            return [finding(gpu, Outcome.WARN, reason, remedy, Remedy.WATCH, "uncorrected_growth")]
    return []


def _mode(gpu: GpuInformation, expected: Expected) -> Judgement:
    ecc = gpu.groups.get("ecc")
    missed = unread(gpu, "ecc.current", "ecc.pending")
    if missed:
        return Judgement(findings=tuple(missed))
    if ecc is None or ecc.current is None:
        return Judgement(not_applicable="no GPU here has ECC")
    asked = declared(gpu, expected, "ecc")
    wanted: bool = next((one for one in (asked, ecc.default) if isinstance(one, bool)), ecc.current)
    pending = ecc.current if ecc.pending is None else ecc.pending
    state = "on" if ecc.current else "off"
    by = "as declared" if isinstance(asked, bool) else "as it left the factory"
    if ecc.current == wanted:
        if pending == wanted:
            return Judgement()
        reason = "ECC is {0}, {1}, and changes at the next reset".format(state, by)
        remedy = "set it back with nvidia-smi --ecc-config={0:d}, or declare ecc for gpu_settings".format(wanted)
        return Judgement(findings=(finding(gpu, Outcome.WARN, reason, remedy, Remedy.CONFIGURE, "changes"),))
    # Without ECC an error of the memory is noticed by nobody.
    outcome = Outcome.FAIL if wanted else Outcome.WARN
    reason = "ECC is {0}, and should be {1}, {2}".format(state, "on" if wanted else "off", by)
    if pending == wanted:
        reason += "; it changes at the next reset"
        return Judgement(findings=(finding(gpu, outcome, reason, RESET, Remedy.RESET_GPU, "pending"),))
    remedy = "declare ecc for gpu_settings and converge the node, then reset the GPU or reboot"
    return Judgement(findings=(finding(gpu, outcome, reason, remedy, Remedy.CONFIGURE, state),))


CHECKS = (
    Check(
        "gpu_ecc",
        "No GPU has uncorrected memory errors, or too many corrected ones",
        Cost.QUICK,
        each("ECC counters", _errors, _TOLD),
        lane=GPU_LANE,
        gpu_groups=("ecc", "repair", "settings"),
    ),
    Check(
        "gpu_ecc_mode",
        "ECC is on",
        Cost.PASSIVE,
        each("ECC mode", _mode, ("ecc.current",)),
        lane=GPU_LANE,
        gpu_groups=("ecc",),
    ),
)
