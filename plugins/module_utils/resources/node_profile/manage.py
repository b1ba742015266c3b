# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which roles manage a machine, and which leave it alone. No I/O.

A machine is known when something on it is ours to manage: an NVIDIA GPU on the PCI bus, with a driver or without, a
profile, a disk that is scratch material, or what an earlier run declared there. So a node that lost all its GPUs stays
a GPU node, and a sick one. GPUs that are given to guests (vfio) are the guests' to manage. On any other machine
only what was asked for by name is managed.
"""

from __future__ import annotations

from typing import Optional, Tuple

from ...core import registry
from ...core.frozen import frozen
from ...facts.profile.types import UNKNOWN

# Whatever machine it is, its profile and what is required of its image are looked at.
ROLES = tuple(one.name for one in registry.RESOURCES.values() if not one.any_machine)
# A tag that stands for several roles.
_TAGS = {name: registry.group(name) for name in registry.GROUPS}
# Sections of the declaration that are only written where GPUs, or a scratch, were found.
OF_GPUS = ("gpu_settings", "mig_layout")
DECLARED = (*OF_GPUS, "nvme_scratch")
ASK = (
    "to manage it all the same, set gpu_node_manage: true; for single roles, name them in gpu_node_comm, as "
    "[enroot, pyxis], or with --tags"
)


@frozen
class Facts:
    """What the machine has. ``disks``: its other NVMe disks; ``declared``: sections of its declaration;
    ``given_away``: GPUs that are bound to a driver which hands them to a guest, none of ``gpus``."""

    gpus: int = 0
    nvswitches: int = 0
    profile: str = UNKNOWN
    scratch_disks: int = 0
    disks: Tuple[str, ...] = ()
    declared: Tuple[str, ...] = ()
    given_away: int = 0


@frozen
class Wish:
    """``anything``: whatever machine it is. ``asked``: roles by name, and tags; other words are passed over."""

    anything: bool = True
    asked: Tuple[str, ...] = ()

    @property
    def roles(self) -> Tuple[str, ...]:
        named = {role for word in self.asked for role in _TAGS.get(word, (word,))}
        return tuple(role for role in ROLES if role in named)


@frozen
class Management:
    """``roles``: those that manage the machine. ``left``: why it is left alone but for these, and how to ask for more.
    ``lost``: the GPUs that it must have had, where no profile tells that."""

    roles: Tuple[str, ...]
    known: bool
    left: Optional[str] = None
    lost: Optional[str] = None


def decide(facts: Facts, wish: Wish) -> Management:
    if known(facts):
        return Management(ROLES, True, lost=_lost(facts))
    if wish.anything:
        return Management(ROLES, False)
    return Management(wish.roles, False, left=_left(facts, wish.roles))


def known(facts: Facts) -> bool:
    seen = facts.gpus or facts.nvswitches or facts.scratch_disks or facts.profile != UNKNOWN
    return bool(seen) or any(name in facts.declared for name in DECLARED)


def _left(facts: Facts, roles: Tuple[str, ...]) -> str:
    disks = " (its NVMe disks: {0})".format(", ".join(facts.disks)) if facts.disks else ""
    done = (
        "only what was asked for is managed, {0}".format(", ".join(roles)) if roles else "nothing is installed or set"
    )
    gpus = "it has no NVIDIA GPU"
    if facts.given_away:
        gpus += " but {0} that it gives to guests".format(facts.given_away)
    return "{0}, no profile and no disk that is scratch material{1}, so {2}; {3}.".format(gpus, disks, done, ASK)


def _lost(facts: Facts) -> Optional[str]:
    """A profile says itself how many GPUs there must be."""
    if (
        facts.gpus
        or facts.given_away
        or facts.profile != UNKNOWN
        or not (facts.nvswitches or any(name in facts.declared for name in OF_GPUS))
    ):
        return None
    why = "{0} NVSwitches are".format(facts.nvswitches) if facts.nvswitches else "GPU settings were declared here"
    return (
        "no NVIDIA GPU is on the PCI bus, though {0}: reboot the node and read its kernel log; have it repaired when "
        "they stay away, or run reset.yml if it never had any.".format(why)
    )
