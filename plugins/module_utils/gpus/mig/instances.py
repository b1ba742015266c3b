# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances of a GPU: those that stand, those that are wanted, and the changes from the ones to the others."""

from __future__ import annotations

from typing import Mapping, Optional, Tuple

from ...core.frozen import frozen
from .place import Layout, Placed, Profile, Wanted

# Places that instances had (profile id, start), with the slices of the compute instances there.
Places = Mapping[Tuple[int, int], Tuple[int, ...]]


class Impossible(Exception):
    """A wish that this GPU cannot fulfil; the text is the reason with the remedy, without the GPU's name."""


@frozen
class Compute:
    """A compute instance that stands in a GPU instance. ``slices``: how many compute slices it has."""

    id: int
    slices: int
    uuid: Optional[str] = None
    used: bool = False


@frozen
class Instance:
    """A GPU instance that stands. ``used``: a process has it, be it in one of its compute instances or not."""

    id: int
    placed: Placed
    compute: Tuple[Compute, ...] = ()
    used: bool = False

    @property
    def busy(self) -> bool:
        return self.used or any(compute.used for compute in self.compute)

    @property
    def slices(self) -> Tuple[int, ...]:
        return tuple(sorted(compute.slices for compute in self.compute))


@frozen
class Wish:
    """An instance that is wanted. ``compute``: the slices of each of its compute instances; empty: one, the whole.
    ``bare``: without any, as somebody may have left it."""

    profile: Profile
    start: Optional[int] = None
    compute: Tuple[int, ...] = ()
    bare: bool = False

    @property
    def slices(self) -> Tuple[int, ...]:
        return () if self.bare else tuple(sorted(self.compute)) or (self.profile.compute_slices,)

    @property
    def wanted(self) -> Wanted:
        return Wanted(self.profile, self.start)


@frozen
class New:
    """A GPU instance to make, with its compute instances."""

    placed: Placed
    compute: Tuple[int, ...]


@frozen
class Changes:
    """The steps, in their order: compute instances go, GPU instances go, GPU instances come, compute instances come."""

    keep: Tuple[Instance, ...] = ()
    # (GPU instance, its compute instances that go)
    shrink: Tuple[Tuple[Instance, Tuple[Compute, ...]], ...] = ()
    destroy: Tuple[Instance, ...] = ()
    create: Tuple[New, ...] = ()
    # (GPU instance, slices of the compute instances that come)
    grow: Tuple[Tuple[Instance, Tuple[int, ...]], ...] = ()

    @property
    def nothing(self) -> bool:
        return not (self.shrink or self.destroy or self.create or self.grow)

    @property
    def layout(self) -> Layout:
        """What stands afterwards."""
        return tuple(sorted((*(i.placed for i in self.keep), *(n.placed for n in self.create)), key=lambda p: p.start))
