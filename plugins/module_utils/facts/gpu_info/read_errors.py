# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readings of errors: ECC counters, repairs of memory, and what the driver recommends."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from ..nvml import values
from . import names
from .ask import Ask
from .types import Ecc, ErrorCounts, RemappedRows, Repair, SpareRows, SramErrors

_CORRECTED, _UNCORRECTED = 0, 1
_VOLATILE, _AGGREGATE = 0, 1
_DRAM, _SRAM = 2, 7
_CAUSE_CORRECTED, _CAUSE_UNCORRECTED = 0, 1
_FIELD_RECOVERY_ACTION = 230


def ecc(ask: Ask) -> Ecc:
    mode = ask.gpu.read("nvmlDeviceGetEccMode")
    return Ecc(
        current=ask.take("current", mode.map(lambda pair: values.flag(pair[0]))),
        pending=ask.take("pending", mode.map(lambda pair: values.flag(pair[1]))),
        default=ask("default", lambda one: values.flag(one[0]), "nvmlDeviceGetDefaultEccMode"),
        total=_counts(ask, "total", "nvmlDeviceGetTotalEccErrors"),
        dram=_counts(ask, "dram", "nvmlDeviceGetMemoryErrorCounter", _DRAM),
        sram=_counts(ask, "sram", "nvmlDeviceGetMemoryErrorCounter", _SRAM),
        sram_status=ask.take(
            "sram_status",
            ask.struct("nvmlDeviceGetSramEccErrorStatus", "c_nvmlEccSramErrorStatus_v1_t").map(_sram_status),
        ),
    )


def _counts(ask: Ask, field: str, function: str, *location: int) -> ErrorCounts:
    def count(name: str, error_type: int, counter: int) -> Optional[int]:
        return ask("{0}.{1}".format(field, name), values.whole, function, error_type, counter, *location)

    return ErrorCounts(
        volatile_corrected=count("volatile_corrected", _CORRECTED, _VOLATILE),
        volatile_uncorrected=count("volatile_uncorrected", _UNCORRECTED, _VOLATILE),
        aggregate_corrected=count("aggregate_corrected", _CORRECTED, _AGGREGATE),
        aggregate_uncorrected=count("aggregate_uncorrected", _UNCORRECTED, _AGGREGATE),
    )


def _sram_status(status: Any) -> SramErrors:
    return SramErrors(
        volatile_corrected=values.whole(status.volatileCor),
        volatile_uncorrected_parity=values.whole(status.volatileUncParity),
        volatile_uncorrected_secded=values.whole(status.volatileUncSecDed),
        aggregate_corrected=values.whole(status.aggregateCor),
        aggregate_uncorrected_parity=values.whole(status.aggregateUncParity),
        aggregate_uncorrected_secded=values.whole(status.aggregateUncSecDed),
        threshold_exceeded=values.flag(status.bThresholdExceeded),
    )


def repair(ask: Ask) -> Repair:
    pending = ask.gpu.read("nvmlDeviceGetRepairStatus")
    (recovery,) = ask.fields([(_FIELD_RECOVERY_ACTION, 0)])
    return Repair(
        remapped_rows=ask("remapped_rows", _remapped_rows, "nvmlDeviceGetRemappedRows"),
        spare_rows=ask("spare_rows", _spare_rows, "nvmlDeviceGetRowRemapperHistogram"),
        retired_pages_corrected=ask("retired_pages_corrected", len, "nvmlDeviceGetRetiredPages", _CAUSE_CORRECTED),
        retired_pages_uncorrected=ask(
            "retired_pages_uncorrected", len, "nvmlDeviceGetRetiredPages", _CAUSE_UNCORRECTED
        ),
        retired_pages_pending=ask("retired_pages_pending", values.flag, "nvmlDeviceGetRetiredPagesPendingStatus"),
        channel_repair_pending=ask.take("channel_repair_pending", pending.map(lambda pair: values.flag(pair[0]))),
        tpc_repair_pending=ask.take("tpc_repair_pending", pending.map(lambda pair: values.flag(pair[1]))),
        unrepairable_memory=ask("unrepairable_memory", values.flag, "nvmlDeviceGetUnrepairableMemoryFlag_v1"),
        recovery_action=ask.take("recovery_action", recovery.map(names.named(names.RECOVERY_ACTIONS))),
    )


def _remapped_rows(answer: Tuple[int, int, int, int]) -> RemappedRows:
    correctable, uncorrectable, pending, failure = answer
    return RemappedRows(
        values.whole(correctable), values.whole(uncorrectable), values.flag(pending), values.flag(failure)
    )


def _spare_rows(banks: Any) -> SpareRows:
    return SpareRows(*(values.whole(part) for part in (banks.max, banks.high, banks.partial, banks.low, banks.none)))
