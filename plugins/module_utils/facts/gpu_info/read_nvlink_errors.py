# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of one NVLink: a call up to Ampere, fields of the data link on Hopper, fields of packets from Blackwell on.

Which GPU and driver answer which of them differs among reports, and some answer one of them with zero for ever. So all
are asked, and the highest count is told.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

from ..nvml import values
from ..nvml.call import Kind, Reading, missing
from .ask import FAILURES, Ask
from .types import NvLinkPackets

# nvml.h, nvmlNvLinkErrorCounter_t
_REPLAY, _RECOVERY, _CRC_FLIT, _CRC_DATA = range(4)
# nvml.h, NVML_FI_DEV_NVLINK_ERROR_DL_*: the link is the scope; "unsupported for Blackwell+".
_FIELD_REPLAY, _FIELD_RECOVERY, _FIELD_CRC = 161, 162, 163
# nvml.h, NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS, whatever their outcome: what Blackwell has in place of those.
_FIELD_RECOVERY_EVENTS = 215
# nvml.h, NVML_FI_DEV_NVLINK_COUNT_*; 205 and 216 to 218 are "deprecated, do not use".
_PACKETS = {
    "malformed": 206,
    "buffer_overruns": 207,
    "receive_errors": 208,
    "remote_errors": 209,
    "general_errors": 210,
    "integrity_errors": 211,
    "transmit_discards": 212,
    "recoveries_succeeded": 213,
    "recoveries_failed": 214,
    "effective_errors": 219,
    "effective_bit_error_rate": 220,
    "symbol_errors": 221,
    "symbol_bit_error_rate": 222,
}
_DATA_LINK = (_FIELD_REPLAY, _FIELD_RECOVERY, _FIELD_CRC)
_NVLINK_5 = (_FIELD_RECOVERY_EVENTS, *_PACKETS.values())
_BEFORE_NVLINK_5 = ("1.0", "2.0", "2.2", "3.0", "3.1", "4.0")


def nvlink_errors(ask: Ask, link: int, version: Optional[str]) -> Dict[str, Any]:
    """The fields of ``NvLink`` that count errors."""

    def counter(number: int) -> Reading[int]:
        return ask.gpu.read("nvmlDeviceGetNvLinkErrorCounter", link, number).map(values.whole)

    wanted = _DATA_LINK if version in _BEFORE_NVLINK_5 else _DATA_LINK + _NVLINK_5
    none: Reading[Any] = missing("NVLink {0} does not count it".format(version))
    told: Dict[int, Reading[Any]] = dict.fromkeys(_NVLINK_5, none)
    told.update(zip(wanted, ask.fields([(field, link) for field in wanted])))
    field = {number: reading.map(values.whole) for number, reading in told.items()}
    flit, data = counter(_CRC_FLIT), counter(_CRC_DATA)
    both = flit.map(lambda count: count + (data.value or 0)) if flit.ok else data

    def take(name: str, *readings: Reading[int]) -> Optional[int]:
        # One path for all links, as for the other readings of a link.
        return ask.take("links.*." + name, highest(*readings))

    return {
        "replay_errors": take("replay_errors", counter(_REPLAY), field[_FIELD_REPLAY]),
        "recovery_errors": take(
            "recovery_errors", counter(_RECOVERY), field[_FIELD_RECOVERY], field[_FIELD_RECOVERY_EVENTS]
        ),
        "crc_flit_errors": take("crc_flit_errors", flit),
        "crc_data_errors": take("crc_data_errors", data),
        "crc_errors": take("crc_errors", both, field[_FIELD_CRC]),
        # No packets of a link that does not count them: a GPU has up to 18 links, and each has 13 of these counters.
        "packets": _packets(ask, told) if len(wanted) > len(_DATA_LINK) else ask.take("links.*.packets", none),
    }


def highest(*readings: Reading[int]) -> Reading[int]:
    """The highest of several counts of the same; without any, a failure rather than a feature that is not there."""
    counts = [reading.value for reading in readings if reading.value is not None]
    if counts:
        return Reading(max(counts))
    return next((reading for reading in readings if reading.kind in FAILURES), readings[0])


def _packets(ask: Ask, told: Dict[int, Reading[Any]]) -> Optional[NvLinkPackets]:
    readings: Dict[str, Reading[Any]] = {
        name: told[field].map(_bit_error_rate if name.endswith("_rate") else values.whole)
        for name, field in _PACKETS.items()
    }
    if not any(reading.ok for reading in readings.values()):
        none: Reading[Any] = highest(*readings.values())
        return ask.take("links.*.packets", missing(none.reason or "", none.kind or Kind.ABSENT))
    return NvLinkPackets(**{name: ask.take("links.*.packets." + name, reading) for name, reading in readings.items()})


def _bit_error_rate(value: Any) -> float:
    """nvml.h, NVML_NVLINK_ERROR_COUNTER_BER_GET: bits 0 to 7 are the negative exponent of ten, 8 to 11 the mantissa."""
    number = values.whole(value)
    if number & 0xFFF == 0xFFF:  # what the driver tells of a link without bit errors: 15e-255
        return 0.0
    return float("{0}e-{1}".format(number >> 8 & 0xF, number & 0xFF))
