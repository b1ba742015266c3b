# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written for a GPU, as wishes for its instances; and a wish in one line, as people write and read it."""

from __future__ import annotations

import re
from typing import Dict, List, Sequence, Tuple

from ...core.resource import NodeError
from .instances import Impossible, Wish
from .names import NAME, resolve
from .options import Asked
from .place import Part, Profile

# One kind of instance in a line: [COUNT x] PROFILE [@START] [:COMPUTE,...]
_TERM = re.compile(
    r"(?:(?P<count>[0-9]{1,2})\s*x\s*)?(?P<profile>[^\s@:]+)(?:@(?P<start>[0-9]{1,2}))?(?::(?P<compute>[0-9a-z,]+))?",
    re.IGNORECASE,
)
# The plus of an attribute (1g.5gb+me) is followed by a letter.
_AND = re.compile(r"\s*\+\s*(?=[0-9])")
FORM = "write it as 3g+2x2g, with @4 for a place and :1c,2c for compute instances"


def parse(text: str) -> Tuple[Asked, ...]:
    """A wish in one line, as ``3g+2x2g`` or, as refusals tell it, ``3g.20gb + 2 x 2g.10gb``.

    Raises:
        Impossible: it is none.
        NodeError: a count or a start that no GPU has.
    """
    found = []
    for word in _AND.split(text.strip()):
        term = _TERM.fullmatch(word)
        if term is None or not (NAME.fullmatch(term["profile"]) or re.fullmatch("[0-9]{1,9}", term["profile"])):
            raise Impossible("{0!r} is no GPU instance; {1}".format(word, FORM))
        start = None if term["start"] is None else int(term["start"])
        compute = tuple(term["compute"].lower().split(",")) if term["compute"] else ()
        try:
            found.append(Asked(term["profile"], int(term["count"] or 1), start, compute))
        except NodeError as error:
            thing = "{0!r}, {1}".format(word, error.thing.replace("option", "its"))
            raise NodeError(thing, error.reason, error.remedy) from error
    return tuple(found)


def line(asked: Sequence[Asked]) -> str:
    """The same wish as one line that ``parse`` reads."""
    return " + ".join(
        "{0}{1}{2}{3}".format(
            "{0} x ".format(one.count) if one.count != 1 else "",
            one.profile,
            "" if one.start is None else "@{0}".format(one.start),
            ":" + ",".join(one.compute) if one.compute else "",
        )
        for one in asked
    )


def wishes(part: Part, asked: Sequence[Asked]) -> Tuple[Wish, ...]:
    """One wish for each GPU instance. Compute instances that are asked for by name (1c.3g.20gb) share as few GPU
    instances as they fit in, as nvidia-mig-parted has it.

    Raises:
        Impossible: a name that this GPU does not have, or a compute instance that is too large.
    """
    found: List[Wish] = []
    named: Dict[int, Tuple[Profile, List[int]]] = {}
    for each in asked:
        profile, compute = resolve(part, each.profile)
        if compute is None:
            slices = tuple(_slices(text, profile) for text in each.compute)
            found += [Wish(profile, each.start, slices)] * each.count
        elif each.compute or each.start is not None:
            raise Impossible(
                "{0} names a compute instance, which has neither a start nor compute instances; write the GPU instance"
                " ({1}) with them".format(each.profile, profile.name)
            )
        else:
            named.setdefault(profile.id, (profile, []))[1].extend([_fitting(compute, profile)] * each.count)
    for profile, sizes in named.values():
        shared: List[List[int]] = []
        for size in sorted(sizes, reverse=True):
            place = next((s for s in shared if sum(s) + size <= profile.compute_slices), None)
            if place is None:
                shared.append([size])
            else:
                place.append(size)
        found += [Wish(profile, None, tuple(each)) for each in shared]
    return tuple(found)


def _slices(text: str, profile: Profile) -> int:
    return _fitting(int(text.partition("c")[0]), profile)


def _fitting(slices: int, profile: Profile) -> int:
    if not 1 <= slices <= profile.compute_slices:
        raise Impossible(
            "a {0} has {1} compute slices, and no compute instance of {2}".format(
                profile.name, profile.compute_slices, slices
            )
        )
    return slices
