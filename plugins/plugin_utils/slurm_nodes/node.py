# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node as Slurm tells of it. Pure."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import states

# What Slurm writes where it has nothing to say.
_NOTHING = ("", "(null)", "N/A", "n/a", "None", "NONE", "Unknown")
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?")
_ADDRESS = re.compile(r"[A-Za-z0-9_:]([A-Za-z0-9._:%-]{0,251}[A-Za-z0-9_:])?")
_GIVEN_BY = re.compile(r"\s*\[[^\[\]\s]*@[^\[\]\s]*\]\s*")
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4, "P": 1024**5}


@dataclasses.dataclass(frozen=True)
class Node:
    """``gres``: (name, type or "", count). ``states`` as sinfo words them; ``here``: a machine is behind it."""

    name: str
    address: str
    states: Tuple[str, ...]
    here: bool
    reason: str = ""
    partitions: Tuple[str, ...] = ()
    features: Tuple[str, ...] = ()
    gres: Tuple[Tuple[str, str, int], ...] = ()
    reservation: str = ""
    cpus: Optional[int] = None
    memory_mib: Optional[int] = None
    boot_time: Optional[int] = None
    version: str = ""

    @property
    def gpus(self) -> int:
        return sum(count for name, dummy, count in self.gres if name == "gpu")

    def variables(self) -> Dict[str, Any]:
        """The host variables, without their common beginning."""
        told = dataclasses.asdict(self)
        del told["here"]
        told["gres"] = [{"name": name, "type": kind or None, "count": count} for name, kind, count in self.gres]
        told["gpus"] = self.gpus
        return {
            key: list(value) if isinstance(value, tuple) else (None if value == "" else value)
            for key, value in told.items()
        }

    @classmethod
    def restored(cls, told: Mapping[str, Any]) -> Node:
        """From what ``dataclasses.asdict`` and JSON made of it.

        :raises TypeError: this is something else.
        """
        given: Dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in told.items()}
        given["gres"] = tuple((str(name), str(kind), int(count)) for name, kind, count in given["gres"])
        return cls(**given)


def made(
    name: str,
    words: List[str],
    address: Any = "",
    reason: Any = "",
    partitions: Any = (),
    features: Any = (),
    gres: Any = "",
    reservation: Any = "",
    cpus: Any = None,
    memory_mib: Any = None,
    boot_time: Any = None,
    version: Any = "",
) -> Node:
    """A node of what an answer has; lists may be text with commas, numbers text.

    :raises NodeError: its name or its address is none, or it has no state.
    """
    if not _HOST.fullmatch(name):
        raise _wrong("node name {0!r}".format(name[:80]), "it is no host name")
    where = text(address) or name
    # Ansible hands it to ssh: a word that begins with a hyphen would be an option there.
    if not _ADDRESS.fullmatch(where):
        raise _wrong("node {0}".format(name), "its NodeAddr {0!r} is no address".format(where[:80]))
    flags = states.normalised(words)
    if not flags:
        raise _wrong("node {0}".format(name), "the answer has no state of it")
    return Node(
        name=name,
        address=where,
        states=states.names(flags),
        here=not states.away(flags),
        reason=" ".join(_GIVEN_BY.sub(" ", text(reason)).split()),
        partitions=words_of(partitions),
        features=words_of(features),
        gres=gres_of(text(gres)),
        reservation=text(reservation),
        cpus=number(cpus),
        memory_mib=number(memory_mib),
        boot_time=number(boot_time) or None,
        version=text(version),
    )


def _wrong(thing: str, reason: str) -> NodeError:
    return NodeError(
        thing, reason, "compare with 'scontrol show node', and correct slurm.conf or what changes the answer"
    )


def text(value: Any) -> str:
    """The text of a field; what is none, or says nothing, is empty."""
    stripped = value.strip() if isinstance(value, str) else ""
    return "" if stripped in _NOTHING else stripped


def words_of(value: Any) -> Tuple[str, ...]:
    parts = value if isinstance(value, (list, tuple)) else text(value).split(",")
    return tuple(dict.fromkeys(one for one in (text(part) for part in parts) if one))


def number(value: Any) -> Optional[int]:
    """An integer, its text, or JSON's {"set": true, "infinite": false, "number": 5}."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") is True and value.get("infinite") is not True else None
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}", value) else None


def gres_of(listed: str) -> Tuple[Tuple[str, str, int], ...]:
    """``gpu:a100:8(S:0-1),nic:2`` as (("gpu", "a100", 8), ("nic", "", 2)); a count of bytes may end with a unit."""
    found = []
    for entry in re.sub(r"\([^()]*\)", "", listed).split(","):
        name, *rest = [part for part in entry.strip().split(":") if part != "no_consume"]
        counted = re.fullmatch(r"([0-9]{1,15})([KMGTP]?)", rest[-1]) if rest else None
        count = int(counted.group(1)) * _UNITS[counted.group(2)] if counted else 1
        if text(name):
            found.append((name, ":".join(rest[:-1] if counted else rest), count))
    return tuple(found)
