# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a GPU's instances against trying orders of creation, as nvidia-mig-parted does.

Of the 296,832 ways from a layout of an A100 of 40 GB to a set of profiles, some at random. The rival empties the GPU
and creates what is wanted in one order after another, each different one once, the largest first, until all have a
place; the driver gives each the first free start in an order of its own (seen on an A100, 1g: 6 4 5 0 1 2 3). Here both
run on a GPU made of numbers: on a real one each of the rival's creations is a call of the driver, so their number is
told, too, and how many instances it ends that could have stayed. Times are those of the processor: what else runs on
the machine is no part of a plan.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Iterator, List, Optional, Sequence, Set, Tuple

from _measure import machine

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.arrange import arrange  # noqa: E402
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.instances import (  # noqa: E402
    Compute,
    Impossible,
    Instance,
    Wish,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.place import (  # noqa: E402
    Placed,
    Profile,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.gpus import (  # noqa: E402
    A100_40 as PART,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.gpus import (  # noqa: E402
    every_layout,
    placed,
    sets,
)

# The starts in the order in which the driver takes them; the simulator has the same.
_PREFERRED = (6, 4, 5, 0, 1, 2, 3)
Layout = List[Placed]


def orders(wanted: Sequence[Profile]) -> Iterator[List[Profile]]:
    """Each different order once."""
    if not wanted:
        yield []
    tried: Set[int] = set()
    for place, profile in enumerate(wanted):
        if profile.id not in tried:
            tried.add(profile.id)
            for rest in orders([*wanted[:place], *wanted[place + 1 :]]):
                yield [profile, *rest]


def permuted(wanted: Sequence[Profile]) -> Tuple[Optional[Layout], int]:
    """The first order in which all have a place, and how many instances were created until then."""
    calls = 0
    for order in orders(sorted(wanted, key=lambda one: (-one.compute_slices, -one.memory_slices, one.id))):
        made: Layout = []
        for profile in order:
            calls += 1
            start = _start(profile, made)
            if start is None:
                break
            made.append(Placed(profile, start))
        else:
            return made, calls
    return None, calls


def _start(profile: Profile, made: Layout) -> Optional[int]:
    taken = 0
    for one in made:
        taken |= one.mask
    slices = sum(one.profile.compute_slices for one in made) + profile.compute_slices
    media = profile.wants_media and any(one.profile.wants_media for one in made)
    if slices > PART.compute_slices or media:
        return None
    free = (start for start in _PREFERRED if start in profile.starts and not taken & Placed(profile, start).mask)
    return next(free, None)


def timed(work: object, *arguments: object) -> Tuple[object, float]:
    began = time.process_time()
    answer = work(*arguments)  # type: ignore[operator]
    return answer, 1000 * (time.process_time() - began)


def planned(there: Sequence[Instance], wanted: Sequence[Profile]) -> object:
    try:
        return arrange(PART, there, [Wish(one) for one in wanted])
    except Impossible as told:
        return str(told)


def row(name: str, times: Sequence[float], more: str = "") -> str:
    return "| {0} | {1:.2f} ms | {2:.2f} ms | {3} |".format(name, statistics.median(times), max(times), more)


def measure(title: str, pairs: Sequence[Tuple[Tuple[Instance, ...], Tuple[Profile, ...]]]) -> None:
    ours: List[float] = []
    rival: List[float] = []
    calls: List[int] = []
    kept = ended = failed = 0
    for there, wanted in pairs:
        answer, took = timed(planned, there, wanted)
        ours.append(took)
        (found, tries), took = timed(permuted, wanted)  # type: ignore[misc]
        rival.append(took)
        calls.append(tries)
        failed += found is None
        if not isinstance(answer, str):
            kept += len(answer.keep)  # type: ignore[attr-defined]
            ended += len(there)
    print("\n{0}: {1} of them\n\n| what | median | maximum | |\n| --- | --- | --- | --- |".format(title, len(pairs)))
    print(row("ours", ours, "{0} instances stay".format(kept)))
    told = "median {0:.0f}, at most {1} creations; {2} instances are ended; {3} without an answer"
    print(
        row("orders of creation", rival, told.format(statistics.median(calls), max(calls), ended, failed)), flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=2000, help="plans of each kind")
    count = parser.parse_known_args()[0].plans
    chance = random.Random(1)
    layouts, wishes = sorted(every_layout(PART)), sorted(sets(PART))
    known = set(wishes)
    by_id = {profile.id: profile for profile in PART.profiles}

    def standing() -> Tuple[Instance, ...]:
        keys = chance.choice(layouts)
        return tuple(
            Instance(n, one, (Compute(0, one.profile.compute_slices),)) for n, one in enumerate(placed(PART, keys))
        )

    print("processor {processor}, {cores} cores".format(**machine()))
    possible = [(standing(), tuple(by_id[number] for number in chance.choice(wishes))) for dummy in range(count)]
    measure("From a layout to a set that is possible", possible)
    impossible = []
    while len(impossible) < count:
        wanted = tuple(chance.choice(PART.profiles) for dummy in range(chance.randint(2, 7)))
        if tuple(sorted(one.id for one in wanted)) not in known:
            impossible.append((standing(), wanted))
    measure("A wish that no GPU can have, which ours answers with one that works", impossible)


if __name__ == "__main__":
    main()
