# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the registers in the text of an NVLink Xid mean (74, and 144 to 150); loaded only where the log has one.

A row is told as a bucket of :mod:`.xids`; what the tables do not have is left to the code and its word.
"""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Tuple

from ...core.frozen import frozen
from .xids import CATALOGUE, Bucket

REGISTERS_74 = CATALOGUE + ", WORKFLOW_NVLINK_ERR; the same in github.com/NVIDIA/NVSentinel, issue 364"
DECODE = CATALOGUE + ", sheet XID 144-150 Decode, and the notes to its columns"


@frozen
class Meaning:
    """``bucket`` None: the registers do not decide, the code and its word do. ``advice``: what to do next, as an order.
    ``severity``: the word that a line with it has; "": any. ``ticket_after``: so many on one link are no chance."""

    text: str
    bucket: Optional[Bucket]
    advice: str = ""
    severity: str = ""
    ticket_after: Optional[int] = None
    source: str = REGISTERS_74 + "; " + DECODE


UNREAD = Meaning("its registers could not be read", None)
UNKNOWN = Meaning("its registers are not in NVIDIA's table", None)

_TICKET = "open a ticket if it recurs"
_CABLES = "check seating, cables and temperature of the link if it recurs"
_BESIDE = "look at the errors beside it first, and open a ticket if it is alone"

# Xid 74: (register, bits, meaning), registers counted from 1, bits from the least significant, which is 0. The worst
# come first, and the first that is set decides.
_ECC = Meaning("an ECC or parity error", Bucket.RESET_GPU, "replace the GPU if it recurs on this link", "", 2)
_SEATING = Meaning("a possible fault of the hardware", Bucket.RESET_GPU, _CABLES)
_SIGNAL = Meaning("a weak signal", Bucket.RESET_GPU, _CABLES)
_UNEXPECTED = Meaning("a fault that NVIDIA does not expect", Bucket.RESET_GPU, "open a ticket")
_RECURRING = Meaning("a fault that matters if it recurs", Bucket.RESET_GPU, _TICKET)
_SECOND = Meaning("it follows another error", Bucket.RESET_GPU, _BESIDE)
FAULTS_74: Tuple[Tuple[int, Tuple[int, ...], Meaning], ...] = (
    (4, (18,), Meaning("it follows another error, and the fabric needs a reset", Bucket.RESET_FABRIC, _BESIDE)),
    (1, (4, 5), _ECC),
    (3, (0, 1, 2, 6), _ECC),
    (5, (18, 19, 21, 22, 24, 25, 27, 28), _ECC),
    (1, (8, 9, 12, 16, 17, 24, 28), _SEATING),
    (1, (21, 22), _SIGNAL),
    (3, (13,), _UNEXPECTED),
    (1, (27, 29), _RECURRING),
    (3, (16, 17, 18, 19), _RECURRING),
    (1, (1, 20), _SECOND),
    (4, (16, 17), _SECOND),
)
HARMLESS_74 = (
    (5, (20, 23, 26, 29), Meaning("many corrected errors", Bucket.CONTINUE)),
    (1, (0, 23, 30), Meaning("bits that can be ignored", Bucket.IGNORE)),
)

# Xids 144 to 150: what the catalogue wants done at once (RESET_GPU, IGNORE), and the investigation after that as
# advice. Where it says IGNORE and wants a look afterwards, a warning is told.
_BROKEN = Meaning("a fault inside the GPU", Bucket.RESET_GPU, _TICKET, "Fatal")
PROMOTED = Meaning("packets were lost", Bucket.RESET_GPU, _TICKET)
_LOOK = Meaning("NVIDIA asks for no action now", Bucket.CONTACT_SUPPORT, _TICKET, "Nonfatal")
_NOISY = Meaning("many bit errors", Bucket.CONTACT_SUPPORT, _CABLES, "Nonfatal")
_CORRECTED = Meaning("corrected", Bucket.IGNORE, "", "Nonfatal")
# XID_154_EVAL: what Xid 154 asks for, which is told by itself; else a restart of the application.
_ENDED = Meaning("an application was ended; Xid 154 tells more", Bucket.RESTART_APPLICATION, "", "Nonfatal")


def _down(text: str, advice: str, bucket: Bucket = Bucket.RESET_GPU) -> Meaning:
    return Meaning(text, bucket, advice, "Fatal")


_PEER = _down("the other end took it down", "look at the GPU or NVSwitch at the other end of the link")
_USER = _down("it was taken down", "find out who took the link down, if nobody meant to")
_USER_SIGNAL = _down("it was taken down, or its signal is weak", "find out who took the link down, and " + _CABLES)
_WEAK = _down("a weak signal", _CABLES)
_SYMPATHETIC = _down("it follows another error", _BESIDE)
# By bits 20 to 25 of the first register.
_DOWNS = {
    0b000000: _SYMPATHETIC,
    0b000001: _down("it went down", "open a ticket if it recurs within a day"),
    0b000010: _WEAK,
    0b000100: _WEAK,
    0b001010: _WEAK,
    0b001111: _USER,
    0b010000: _USER_SIGNAL,
    0b010001: _USER,
    0b010010: _USER_SIGNAL,
    0b010101: _PEER,
    0b010110: _USER,
    **dict.fromkeys(range(0b100000, 0b100110), _PEER),
    0b100110: _down("it was taken down on purpose", "", Bucket.IGNORE),
    0b101000: _down("it went down with its host", "", Bucket.IGNORE),
    0b101010: _WEAK,
    0b101011: _WEAK,
}
_USUAL = {0x1: _CORRECTED, 0x2: _LOOK, 0x4: _BROKEN, 0x80000000: _LOOK}


@frozen
class Unit:
    """Rows of one unit: the low bits of the first register before R575 (ten) and since (seven), and what each second
    register means, with bits 20 to 25 of the first at 0. ``downs``: by those bits instead, whatever the second is.
    ``promoted``: second registers that a further bit of the first makes ``PROMOTED``."""

    code: int
    names: Tuple[str, ...]
    before: int
    since: int
    statuses: Mapping[int, Meaning]
    downs: Mapping[int, Meaning] = {}
    promoted: Tuple[int, ...] = ()
    source: str = DECODE


# That bit, before R575 and since.
PROMOTING_BEFORE, PROMOTING_SINCE = 1 << 10, 1 << 7
_SRAM = {0x1: _LOOK, 0x2: _BROKEN, 0x4: _CORRECTED, 0x8: _LOOK, 0x10: _BROKEN, 0x20: _CORRECTED}
_REMAP: Dict[int, Meaning] = dict.fromkeys((0x1, 0x2, 0x4, 0x8, 0x10, 0x20), _ENDED)
_REMAP.update({0x40: _BROKEN, 0x80: _BROKEN, 0x100: _CORRECTED, 0x200: _CORRECTED, 0x80000000: _LOOK})
_TRACK = {0x1: _BROKEN, 0x2: _CORRECTED, 0x4: _ENDED, 0x8: _ENDED, 0x10: _BROKEN, 0x20: _BROKEN, 0x80000000: _LOOK}
_TAGS = {0x1: _CORRECTED, 0x2: _BROKEN, 0x10000: _CORRECTED, 0x20000: _BROKEN, 0x100000: _BROKEN, 0x80000000: _LOOK}
_MFDE = {0x1: _BROKEN, 0x3: _CORRECTED, 0x4: _BROKEN, 0x5: _BROKEN, 0x7: _BROKEN}
UNITS: Tuple[Unit, ...] = (
    Unit(144, ("SAW_MVB",), 0b0000100001, 0b0000001, _SRAM),
    Unit(145, ("RLW_CTRL",), 0b0001100010, 0b0000011, {0x80000000: _LOOK}),
    Unit(145, ("RLW_REMAP",), 0b0010000010, 0b0000100, _REMAP),
    Unit(145, ("RLW_RSPCOL",), 0b0010100010, 0b0000101, {0x1: _CORRECTED, 0x2: _BROKEN, 0x80000000: _LOOK}),
    Unit(
        145,
        ("RLW_RXPIPE",),
        0b0011000010,
        0b0000110,
        dict.fromkeys((0x1, 0x2, 0x4, 0x8, 0x80000000), _LOOK),
        promoted=(0x1, 0x2, 0x4),
    ),
    Unit(145, ("RLW_SRC_TRACK",), 0b0011100010, 0b0000111, _TRACK),
    Unit(145, ("RLW_TAGSTATE",), 0b0100000010, 0b0001000, _TAGS),
    Unit(146, ("TLW_CTRL",), 0b0100100011, 0b0001001, _USUAL),
    Unit(146, ("TLW_RX", "TLW_RX_PIPE0"), 0b0101000011, 0b0001010, _USUAL),
    Unit(146, ("TLW_RX", "TLW_RX_PIPE1"), 0b0101000011, 0b0001011, _USUAL),
    Unit(146, ("TLW_TX", "TLW_TX_PIPE0"), 0b0101100011, 0b0001100, _USUAL),
    Unit(146, ("TLW_TX", "TLW_TX_PIPE1"), 0b0101100011, 0b0001101, _USUAL),
    Unit(147, ("TREX",), 0b0110000100, 0b0001110, {0x1: _LOOK, 0x80000000: _LOOK}),
    Unit(148, ("NVLPW_CTRL", "NVLPW"), 0b0000000101, 0b0001111, {0x80000000: _LOOK}),
    Unit(149, ("NETIR", "NETIR_INT"), 0b0000000110, 0b0011000, {}, {0: _SYMPATHETIC}),
    Unit(149, ("NETIR_LINK_EVT", "NETIR_LINK_DOWN"), 0b0111000110, 0b0010001, {}, _DOWNS),
    Unit(149, ("NETIR_BER_EVENT",), 0b1000100110, 0b0010011, dict.fromkeys(range(4), _NOISY)),
    Unit(149, ("NETIR_MFDE_EVENT",), 0b1001000110, 0b0010100, _MFDE),
    Unit(150, ("MSE_WATCHDOG",), 0, 0, {0x0: _BROKEN}),
)
