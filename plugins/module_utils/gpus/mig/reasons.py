# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a wish cannot be had, with one that can. Pure."""

from __future__ import annotations

from typing import Dict, Sequence

from .instances import Instance
from .place import Layout, Part, Profile, Wanted, media_suffice, nearest

# Who that is knows only the plan.
WHAT_USES_IT = "what uses it"


def no_place(part: Part, wanted: Sequence[Wanted], fixed: Layout) -> str:
    compute = sum(want.profile.compute_slices for want in wanted)
    memory = sum(want.profile.memory_slices for want in wanted)
    beside = " beside " + told([placed.profile for placed in fixed]) if fixed else ""
    other = nearest(part, wanted, fixed)
    instead = "{0} would fit".format(told(other)) if other else "nothing smaller fits either"
    profiles = [*(placed.profile for placed in fixed), *(want.profile for want in wanted)]
    greedy = [profile.name for profile in profiles if profile.takes_all_media]
    if greedy and not media_suffice(profiles):
        return "{0} takes all media engines of the GPU, and what is beside it must be without (-me); {1}".format(
            greedy[0], instead
        )
    return "{0}{1} need {2} compute slices and {3} memory slices, and {4} of {5} and {6} of {7} are there; {8}".format(
        told([want.profile for want in wanted]), beside, compute, memory,
        part.compute_slices - sum(p.profile.compute_slices for p in fixed), part.compute_slices,
        part.memory_slices - sum(p.profile.memory_slices for p in fixed), part.memory_slices,
        instead,
    )  # fmt: skip


def in_use(part: Part, wanted: Sequence[Wanted], busy: Sequence[Instance]) -> str:
    fixed = tuple(instance.placed for instance in busy)
    rest = list(wanted)
    for placed in fixed:
        alike = [want for want in rest if want.profile.id == placed.profile.id]
        if alike:
            rest.remove(alike[0])
    other = nearest(part, rest, fixed)
    divided = [i for i in busy if i.slices != (i.placed.profile.compute_slices,)]
    return "{0} in use would have to go or change for {1}; end {4}, or ask for {2}{3}".format(
        " and ".join("{0} at {1}".format(p.profile.name, p.start) for p in fixed),
        told([want.profile for want in wanted]),
        told([*(p.profile for p in fixed), *other]),
        "".join(
            ", with compute instances {0} in {1} at {2}".format(
                " + ".join("{0}c".format(slices) for slices in i.slices) or "none",
                i.placed.profile.name,
                i.placed.start,
            )
            for i in divided
        ),
        WHAT_USES_IT,
    )


def told(profiles: Sequence[Profile]) -> str:
    """``3g.20gb + 2 x 1g.5gb``, widest first."""
    counts: Dict[str, int] = {}
    for profile in sorted(profiles, key=lambda p: (-p.compute_slices, -p.memory_slices, p.name)):
        counts[profile.name] = counts.get(profile.name, 0) + 1
    return " + ".join(name if n == 1 else "{0} x {1}".format(n, name) for name, n in counts.items()) or "no instances"
