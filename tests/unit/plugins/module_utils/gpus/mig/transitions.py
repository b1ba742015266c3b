# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From one layout of a GPU to a set of profiles, against an oracle that knows nothing of the planner.

What holds of each of the 296,832 (128 sets, 2,319 layouts): nothing in use is touched and most of what stands is kept,
the result is legal and is the wish, a second plan is empty, and what a refusal offers instead works.
"""

from __future__ import annotations

import collections
import random
import re
from typing import Dict, List, Sequence, Tuple

from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.arrange import arrange
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.instances import (
    Changes,
    Compute,
    Impossible,
    Instance,
    Wish,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.place import legal
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.wishes import parse, wishes
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.gpus import (
    A100_40,
    Key,
    every_layout,
    placed,
    sets,
)

PART = A100_40
SETS = sets(PART)
LAYOUTS = sorted(every_layout(PART))
_BY_ID = {profile.id: profile for profile in PART.profiles}


def after(changes: Changes, there: Sequence[Instance]) -> List[Instance]:
    """What stands when the changes were made, as the effects would make them."""
    gone = {instance.id for instance in changes.destroy}
    now: Dict[int, Instance] = {instance.id: instance for instance in there if instance.id not in gone}
    for instance, going in changes.shrink:
        left = tuple(c for c in now[instance.id].compute if c not in going)
        now[instance.id] = Instance(instance.id, instance.placed, left, instance.used)
    number = 500
    for new in changes.create:
        number += 10
        now[number] = Instance(number, new.placed, tuple(Compute(n, size) for n, size in enumerate(new.compute)))
    for instance, sizes in changes.grow:
        have = now[instance.id]
        more = tuple(Compute(50 + n, size) for n, size in enumerate(sizes))
        now[instance.id] = Instance(instance.id, have.placed, have.compute + more, have.used)
    return sorted(now.values(), key=lambda each: each.placed.start)


def check_all(numbers: Tuple[int, ...], there: Tuple[Key, ...], chance: random.Random) -> None:
    """One transition: nothing in use, some in use, and beside all that is there."""
    check_transition(numbers, there, ())
    busy = [n for n in range(len(there)) if chance.random() < 0.4]
    if busy:
        check_transition(numbers, there, busy)
    check_around(numbers, there)


def check_transition(numbers: Tuple[int, ...], there: Tuple[Key, ...], busy: Sequence[int]) -> None:
    """With some instances in use."""
    standing = _standing(there, busy)
    wanted = [Wish(_BY_ID[number]) for number in numbers]
    fixed = {standing[n].placed.key for n in busy}
    able = [layout for layout in SETS[numbers] if fixed <= set(layout)]
    try:
        changes = arrange(PART, standing, wanted)
    except Impossible as told:
        assert not able
        other = re.search(r"or ask for (.+)$", str(told))
        assert other is not None
        instead = arrange(PART, standing, written(other.group(1)))
        _untouched(instead, standing, busy)
        return
    now = _untouched(changes, standing, busy)
    assert able
    assert tuple(sorted(instance.placed.profile.id for instance in now)) == numbers
    assert len(changes.keep) == max(len(set(layout) & set(there)) for layout in able)
    assert arrange(PART, now, wanted).nothing


def check_around(numbers: Tuple[int, ...], there: Tuple[Key, ...]) -> None:
    """What is there stays, wanted or not."""
    standing = _standing(there, ())
    wanted = [Wish(_BY_ID[number]) for number in numbers]
    missing = collections.Counter(numbers) - collections.Counter(number for number, dummy in there)
    try:
        changes = arrange(PART, standing, wanted, exact=False)
    except Impossible as told:
        assert not _fits_beside(there, list(missing.elements()))
        other = re.search(r"; (.+) would fit$", str(told))
        assert other is not None or str(told).endswith("; nothing smaller fits either")
        if other is not None:
            offered = [one.profile.id for one in written(other.group(1))]
            assert offered and _fits_beside(there, offered)
        return
    now = _untouched(changes, standing, range(len(standing)))
    assert not changes.destroy
    assert not collections.Counter(numbers) - collections.Counter(instance.placed.profile.id for instance in now)
    assert len(now) == len(there) + sum(missing.values())
    assert arrange(PART, now, wanted, exact=False).nothing


def written(text: str) -> List[Wish]:
    """``3g.20gb + 2 x 1g.5gb`` as wishes: what a refusal says can be given back as it is."""
    return [] if text == "no instances" else list(wishes(PART, parse(text)))


def _standing(there: Sequence[Key], busy: Sequence[int]) -> List[Instance]:
    return [
        Instance(n, each, (Compute(0, each.profile.compute_slices, used=n in busy),))
        for n, each in enumerate(placed(PART, there))
    ]


def _untouched(changes: Changes, standing: Sequence[Instance], busy: Sequence[int]) -> List[Instance]:
    """What stands afterwards: legal, with all that was kept or in use as it was."""
    now = after(changes, standing)
    assert legal(PART, [instance.placed for instance in now])
    left = {instance.id: instance for instance in now}
    assert all(left.get(instance.id) == instance for instance in changes.keep)
    assert all(left.get(number) == standing[number] for number in busy)
    return now


def _fits_beside(there: Tuple[Key, ...], more: Sequence[int]) -> bool:
    numbers = tuple(sorted([number for number, dummy in there] + list(more)))
    return any(set(there) <= set(layout) for layout in SETS.get(numbers, ()))
