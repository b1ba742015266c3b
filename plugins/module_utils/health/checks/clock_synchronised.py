# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clock, as the kernel itself rates it: something disciplines it (chrony, timesyncd, ntpd, PTP), and how well."""

from __future__ import annotations

import ctypes
import os
from typing import Optional

from ...core.frozen import frozen, replaced
from ...core.resource import NodeError
from ..container import contained
from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy

ERROR = "clock_estimated_error_seconds"
# adjtimex(2): no discipline for so long that the greatest possible error passed 16 s, or none at all.
_UNSYNCHRONISED = 0x40
_REMEDY = "run 'timedatectl' and start chronyd or systemd-timesyncd"
_MICROSECOND = 1e-6


class _Timex(ctypes.Structure):
    """struct timex of adjtimex(2)."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("time", ctypes.c_long * 2),
        ("tick", ctypes.c_long),
        ("rest", ctypes.c_long * 24),
    )


@frozen
class Clock:
    synchronised: bool
    estimated_error_seconds: float
    greatest_error_seconds: float


def look(evidence: Evidence) -> Optional[Clock]:
    """None: the clock is not this system's own."""
    return None if evidence.host.root != "/" or contained(evidence.host) else read()


def read() -> Clock:
    """:raises NodeError: the kernel does not tell."""
    answer = _Timex()  # modes 0: nothing is set
    library = ctypes.CDLL(None, use_errno=True)
    if library.adjtimex(ctypes.byref(answer)) < 0:
        reason = os.strerror(ctypes.get_errno())
        raise NodeError(
            "the kernel's clock", "it cannot be asked ({0})".format(reason), "run it outside of a container"
        )
    return Clock(not answer.status & _UNSYNCHRONISED, answer.esterror * _MICROSECOND, answer.maxerror * _MICROSECOND)


def judge(seen: Optional[Clock], expected: Expected) -> Judgement:
    if seen is None:
        return Judgement(not_applicable="the clock is not this system's own")
    if not seen.synchronised:
        return _bad(Outcome.WARN, "nothing synchronises it", "unsynchronised")
    measured = (
        Measured(ERROR, seen.estimated_error_seconds, better="lower"),
        Measured("clock_greatest_error_seconds", seen.greatest_error_seconds, better="lower"),
    )
    text = "synchronised, about {0:.3g} s off at most".format(seen.greatest_error_seconds)
    limit = expected.thresholds.get(ERROR)
    if limit is None or limit.outcome(seen.estimated_error_seconds) is Outcome.PASS:
        return Judgement(text, (), measured)
    reason = "it is estimated to be {0:.3g} s off".format(seen.estimated_error_seconds)
    bad = _bad(limit.outcome(seen.estimated_error_seconds), reason, "error")
    return replaced(bad, seen=text, measured=measured)


def _bad(outcome: Outcome, reason: str, code: str) -> Judgement:
    return Judgement(findings=(Finding(outcome, "clock", reason, _REMEDY, Remedy.RESTART_SERVICE, code=code),))


CHECKS = (Check("clock_synchronised", "The clock is synchronised", Cost.PASSIVE, judge, look),)
