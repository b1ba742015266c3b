# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Partition keys: without the right one in its table, a port reaches nobody of its partition.

Which are right nobody but the site knows: setting ``partition_keys`` of section ``health``, a list such as
``["0x8012"]``. Keys are compared without their highest bit, which says full membership.
"""

from __future__ import annotations

import re
from typing import Any, List, Mapping, Optional, Tuple

from ...core.frozen import frozen
from ...facts.sysfs import natural, parse_int
from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Outcome, Remedy
from .ib_ports import key, physical, thing

SETTING = "partition_keys"
# InfiniBand Architecture Specification, 10.9.1.1: the membership type is the highest bit of the key.
_FULL = 0x8000
_REMEDY = "have the subnet manager give it (partitions.conf of opensm); redeploy a virtual machine"


@frozen
class Port:
    thing: str
    key: str
    keys: Tuple[int, ...]


def look(evidence: Evidence) -> Tuple[Port, ...]:
    host = evidence.host
    found = []
    for device, port in physical(evidence.infiniband):
        if port.link_layer != "InfiniBand" or not evidence.settings.get(SETTING):
            continue
        folder = "/sys/class/infiniband/{0}/ports/{1}/pkeys".format(device.name, port.number)
        names = sorted((name for name in host.names(folder) if re.fullmatch(r"\d+", name)), key=natural)
        values = (parse_int(host.read_line("{0}/{1}".format(folder, name))) for name in names)
        found.append(Port(thing(device, port.number), key(device, port.number), tuple(one for one in values if one)))
    return tuple(found)


def judge(seen: Tuple[Port, ...], expected: Expected) -> Judgement:
    keys, problem = wanted(expected.settings)
    if not keys and not problem:
        return Judgement(not_applicable="setting {0} names none".format(SETTING))
    findings: List[Finding] = list(problem)
    for port in seen:
        for one in keys:
            findings += _judge(port, one)
    listed = ", ".join("0x{0:04x}".format(one) for one in keys)
    return Judgement("{0} at {1} ports".format(listed, len(seen)), tuple(findings))


def wanted(settings: Mapping[str, Any]) -> Tuple[Tuple[int, ...], Tuple[Finding, ...]]:
    """The keys that the setting names, and a finding for what is none."""
    given = settings.get(SETTING)
    if not given:
        return (), ()
    numbers = [_number(one) for one in (given if isinstance(given, (list, tuple)) else [given])]
    keys = tuple(one for one in numbers if one is not None)
    if len(keys) == len(numbers):
        return keys, ()
    reason = "{0!r} is no list of partition keys".format(given)
    remedy = "write it as in ['0x8012'], then converge the node"
    return keys, (Finding(Outcome.UNKNOWN, "setting " + SETTING, reason, remedy, Remedy.CONFIGURE, code="setting"),)


def _number(given: Any) -> Optional[int]:
    """None for what is no partition key."""
    number: Optional[int] = given if isinstance(given, int) else parse_int(str(given))
    return number if number is not None and not isinstance(given, bool) and 0 < number <= 0xFFFF else None


def _judge(port: Port, key: int) -> List[Finding]:
    same = [one for one in port.keys if one & ~_FULL == key & ~_FULL]
    if not same:
        reason, code = "partition key 0x{0:04x} is not in its table".format(key), "missing"
    elif key & _FULL and not any(one & _FULL for one in same):
        reason = (
            "it is only a limited member (0x{0:04x}) of partition 0x{1:04x}, and such members do not reach each other"
        )
        reason, code = reason.format(same[0], key), "limited"
    else:
        return []
    return [Finding(Outcome.FAIL, port.thing, reason, _REMEDY, Remedy.LOOK, key=port.key, code=code)]


CHECKS = (Check("ib_partition_keys", "Every port is a member of its partitions", Cost.PASSIVE, judge, look),)
