# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The governor of the processors' clocks: the same for all of them, and none that stays at the lowest clock."""

from __future__ import annotations

import re
from collections import Counter
from typing import Optional, Tuple

from ...core.frozen import frozen
from ..data.cpu_governors import LOWEST, OWN_ALGORITHM
from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Outcome, Remedy

_POLICIES = "/sys/devices/system/cpu/cpufreq"
_REMEDY = "set it with 'cpupower frequency-set -g performance', and by tuned or a unit for the next boot"


@frozen
class Seen:
    """``governors`` are (policy, governor); ``driver`` is that of the first policy."""

    governors: Tuple[Tuple[str, str], ...]
    driver: Optional[str]


def look(evidence: Evidence) -> Seen:
    host = evidence.host
    names = [name for name in host.names(_POLICIES) if re.fullmatch(r"policy\d{1,6}", name)]
    read = ((name, host.read_line("{0}/{1}/scaling_governor".format(_POLICIES, name))) for name in names)
    governors = tuple((name, governor) for name, governor in read if governor)
    driver = host.read_line("{0}/{1}/scaling_driver".format(_POLICIES, names[0])) if names else None
    return Seen(governors, driver)


def judge(seen: Seen, dummy: Expected) -> Judgement:
    if not seen.governors:
        return Judgement(not_applicable="the kernel does not set the clocks of these processors")
    counts = Counter(governor for dummy_name, governor in seen.governors)
    usual = counts.most_common(1)[0][0]
    told = "governor {0}, driver {1}".format(usual, seen.driver or "unknown")
    code, reason = "", ""
    if len(counts) > 1:
        others = [name for name, governor in seen.governors if governor != usual]
        code = "mixed"
        reason = "their governors differ: {0}; {1} and {2} others have not {3}".format(
            ", ".join("{0} of {1}".format(count, name) for name, count in sorted(counts.items())),
            others[0],
            len(others) - 1,
            usual,
        )
    elif usual == LOWEST and seen.driver not in OWN_ALGORITHM:
        code = "lowest"
        reason = "governor powersave of driver {0} keeps them at their lowest clock".format(seen.driver or "unknown")
    if not code:
        return Judgement(told)
    return Judgement(told, (Finding(Outcome.WARN, "processors", reason, _REMEDY, Remedy.CONFIGURE, code=code),))


CHECKS = (Check("cpu_governor", "No processor is kept at a low clock", Cost.PASSIVE, judge, look),)
