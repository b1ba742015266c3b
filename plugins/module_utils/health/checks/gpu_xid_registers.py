# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The registers in the text of an NVLink Xid, decoded. Pure, and never an error: what is not understood says so.

A process may be named anything of up to 15 characters and stands before the text, so what is read here is longer. A
line can be cut anywhere: a register counts only with what must come after it.
"""

from __future__ import annotations

import re
from typing import Optional, Sequence, Tuple

from ...core.frozen import frozen, replaced
from ..data import nvlink_registers as tables
from ..data.nvlink_registers import UNKNOWN, UNREAD, Meaning

_MOST_TOLD, _MOST_KEPT = 3, 100
# NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)
_LINK_74 = re.compile(r"(?:\A|, ?)NVLink: fatal error detected on link ([0-9]{1,3})(?![0-9])([\s\S]*)\Z")
_REGISTERS_74 = re.compile(r" ?\(" + ", ?".join([r"0x([0-9A-Fa-f]{1,8})"] * 7) + r"\)")
# NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 ...): unit, severity, cross-contained, injected, link, and
# IntrInfo, ErrorStatus and debug data (NVIDIA's catalogue, WORKFLOW_NVLINK5_ERR).
_LINK_5 = re.compile(
    r"(?:\A|, ?)([A-Z][A-Z0-9_]*(?:/[A-Z0-9_]+)?) +(Fatal|Nonfatal) +XC ?[0-9]+ +i ?([0-9]+) +Link "
    r"(?:(-?[0-9]{1,3})(?![0-9]))?([\s\S]*)\Z"
)
_REGISTERS_5 = re.compile(r" +\(0x([0-9A-Fa-f]{1,8})(?: +0x([0-9A-Fa-f]{1,8})(?=[ )])|\))")


@frozen
class Decoded:
    """``link`` is None where the line names none. ``unit``, ``severity``: as the line says them, "" for Xid 74.
    ``count``: how many lines said it."""

    link: Optional[int]
    meaning: Meaning
    unit: str = ""
    severity: str = ""
    injected: bool = False
    count: int = 1


def decode(code: int, text: str) -> Decoded:
    if code == 74:
        found = _LINK_74.search(text)
        if found is None:
            return Decoded(None, UNREAD)
        registers = _REGISTERS_74.match(found.group(2))
        meaning = UNREAD if registers is None else nvlink([int(one, 16) for one in registers.groups()])
        return Decoded(int(found.group(1)), meaning)
    found = _LINK_5.search(text)
    if found is None:
        return Decoded(None, UNREAD)
    unit, severity, injected, link, rest = found.groups()
    registers = _REGISTERS_5.match(rest)
    meaning = UNREAD
    if registers is not None:
        meaning = nvlink_5(code, unit, severity, [int(one, 16) for one in registers.groups() if one is not None])
    number = None if link is None or int(link) < 0 else int(link)
    return Decoded(number, meaning, unit, severity, int(injected) != 0)


def nvlink(registers: Sequence[int]) -> Meaning:
    """Of the registers of an Xid 74. What is not in the tables weighs more than what is harmless."""
    left = list(registers)
    for table in (tables.FAULTS_74, tables.HARMLESS_74):
        decides = None
        for register, bits, meaning in table:
            mask = sum(1 << bit for bit in bits)
            if left[register - 1] & mask:
                left[register - 1] &= ~mask
                decides = decides or meaning
        if decides is not None and (table is tables.FAULTS_74 or not any(left)):
            return decides
    return UNKNOWN


def nvlink_5(code: int, unit: str, severity: str, registers: Sequence[int]) -> Meaning:
    """Of the registers of an Xid from 144 to 150."""
    if not registers:
        return UNREAD
    info, status = registers[0], registers[1] if len(registers) > 1 else None
    for row in tables.UNITS:
        if row.code == code and set(unit.split("/")) & set(row.names):
            meaning = _row(row, info, status)
            if meaning is not None and meaning.severity in ("", severity):
                return meaning
    return UNKNOWN


def _row(row: tables.Unit, info: int, status: Optional[int]) -> Optional[Meaning]:
    """The branch of the driver shows in the pattern: none is of one unit in both."""
    if info & 0x3FF == row.before:
        promoting = tables.PROMOTING_BEFORE
    elif info & 0x7F == row.since:
        promoting = tables.PROMOTING_SINCE
    else:
        return None
    down = info >> 20 & 0x3F
    if row.downs:
        return row.downs.get(down)
    if status is None or down:
        return None
    return tables.PROMOTED if status in row.promoted and info & promoting else row.statuses.get(status)


def told(decoded: Sequence[Decoded]) -> str:
    """``link 8: a weak signal, 3 times; link 9: an ECC or parity error``."""
    parts = []
    for one in decoded[:_MOST_TOLD]:
        times = ", {0} times".format(one.count) if one.count > 1 and len(decoded) > 1 else ""
        where = "" if one.link is None else "link {0}: ".format(one.link)
        parts.append(where + one.meaning.text + (", injected by a test" if one.injected else "") + times)
    if len(decoded) > _MOST_TOLD:
        parts.append("and {0} more".format(len(decoded) - _MOST_TOLD))
    return "; ".join(parts)


def added(before: Tuple[Decoded, ...], more: Tuple[Decoded, ...]) -> Tuple[Decoded, ...]:
    """Those that say the same of the same link as one."""
    answer = {_name(one): one for one in before}
    for one in more:
        same = answer.get(_name(one))
        if same is not None:
            answer[_name(one)] = replaced(one, count=same.count + one.count)
        elif len(answer) < _MOST_KEPT:
            answer[_name(one)] = one
    return tuple(answer.values())


def _name(one: Decoded) -> Tuple[object, ...]:
    return one.link, one.meaning.text, one.injected
