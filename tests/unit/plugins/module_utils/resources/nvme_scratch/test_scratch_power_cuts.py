# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A power cut at any step, every small machine, and what could still be read: nothing is lost."""

from __future__ import annotations

import copy
import itertools
import sys
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.scratch.record import Build, Record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import actions as act

sys.path.insert(0, str(Path(__file__).parent))
from scratch_model import Drive, Machine, StepFailed, Volume
from scratch_wishes import (
    FOREIGN,
    IDENTITIES,
    OLD_VOLUME,
    OLDER,
    OURS,
    SINGLE_VOLUME,
    VOLUME,
    blank,
    built,
    converge,
    kinds,
    plan,
    wanted,
)

# Power cuts --------------------------------------------------------------------------------------------


@pytest.fixture(name="every_order")
def _every_order(request):
    """`make soak` tries all of what is alike but for the order or the number of disks."""
    return request.config.getoption("--hypothesis-profile", None) == "thorough"


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("start", ["blank", "stale", "built"])
def test_a_power_cut_at_any_step_is_made_good_by_the_next_run(every_order, count, half, start):
    """present from three starts, and absent: cut at each step, twice in a row, then converge. In `make test` each
    number of disks has a third of the pairs of steps, another one each."""
    for choice in ("present", "absent"):
        origin = blank(count)
        if start == "stale":
            origin.drives[0].superblock = (OLDER, 0, 2)
            origin.record = Record((Build(OLDER, OLD_VOLUME, "xfs", ("S0",), False),))
        elif start == "built":
            origin = built(count)
        desired = wanted(state=choice, count=count)
        steps = len(plan(origin.observe(), desired, IDENTITIES[0]).actions)
        for first_cut, second_cut in itertools.product(range(steps), range(steps + 6)):
            if not every_order and (first_cut + second_cut) % 3 != (1, 2, 4).index(count):
                continue
            machine = copy.deepcopy(origin)
            machine.consented = choice == "absent"
            for turn, cut in enumerate((first_cut, second_cut)):
                actions = plan(machine.observe(), desired, IDENTITIES[turn]).actions
                for action in actions[:cut]:
                    machine.apply(action)
                if half and cut < len(actions):
                    machine.apply(actions[cut], half=True)
                machine.reboot()
            result = converge(machine, desired, IDENTITIES[5])
            assert not result.refusals
            assert bool(machine.mounts) == (choice == "present")


@pytest.mark.parametrize("half", [False, True])
def test_a_power_cut_in_a_rebuild_wants_the_users_word_once_more_and_no_more(half):
    origin = built(4)
    origin.drives[1] = Drive("NEW", name="nvme1n1")
    origin.reboot()
    steps = len(plan(origin.observe(), wanted(rebuild=True), IDENTITIES[0]).actions)
    refused = 0
    for cut in range(steps):
        machine = copy.deepcopy(origin)
        machine.consented = True
        actions = plan(machine.observe(), wanted(rebuild=True), IDENTITIES[0]).actions
        for action in actions[:cut]:
            machine.apply(action)
        if half:
            machine.apply(actions[cut], half=True)
        machine.reboot()
        machine.consented = False
        # As the boot unit runs it: it goes on when nothing of the old scratch is left, and leaves the rest alone.
        plain = plan(machine.observe(), wanted(), IDENTITIES[1])
        refused += bool(plain.refusals)
        converge(machine, wanted(rebuild=bool(plain.refusals)), IDENTITIES[1])
    assert 3 < refused < steps


def test_many_power_cuts_in_a_row_do_not_lose_the_proof():
    machine = blank(4)
    for turn in range(30):
        actions = plan(machine.observe(), wanted(), IDENTITIES[turn]).actions
        for action in actions:
            machine.apply(action, half=isinstance(action, act.CreateArray))
            if isinstance(action, act.CreateArray):
                break
        machine.reboot()
    assert not converge(machine, wanted(), IDENTITIES[35]).refusals
    assert len(machine.record.builds) <= 16


# Every small machine -----------------------------------------------------------------------------------

CONTENTS = (
    "blank",
    "unknown",
    "ours",
    "older",
    "foreign_md",
    "gpt",
    "volume",
    "ours_and_gpt",
    "ours_other_role",
    "foreign_volume",
    "read_only",
)


def small_machine(contents, finished, volume, assembled, remembered):
    drives = []
    for number, content in enumerate(contents):
        drive = Drive("S{0}".format(number))
        if content in ("ours", "ours_and_gpt"):
            drive.superblock = (OURS, number, len(contents))
        elif content == "ours_other_role":
            drive.superblock = (OURS, (number + 1) % len(contents), len(contents))
        elif content == "older":
            drive.superblock = (OLDER, number, len(contents))
        elif content == "foreign_md":
            drive.superblock = (FOREIGN, number, len(contents))
        elif content == "volume":
            drive.volume = Volume(SINGLE_VOLUME, in_progress=not finished, data=finished)
        elif content == "foreign_volume":
            drive.volume = Volume("9" * 32, label="data", data=True)
        if content in ("gpt", "ours_and_gpt"):
            drive.foreign = ("gpt",)
        drive.residue = content not in ("blank", "read_only")
        if content == "read_only":
            drive.extra = {"read_only": True}
        drives.append(drive)
    builds = (
        Build(OLDER, OLD_VOLUME, "xfs", ("S0", "S1"), True),
        Build(None, SINGLE_VOLUME, "xfs", ("S0",), finished),
        Build(OURS, VOLUME, "xfs", tuple(d.serial for d in drives), finished),
    )
    machine = Machine(drives, Record(builds) if remembered else None)
    proven = {"blank"} | ({"ours", "ours_other_role", "older", "volume"} if remembered else set())
    machine.protected = {d.serial for d, content in zip(drives, contents) if content not in proven}
    if volume:
        machine.volumes[OURS] = Volume(
            VOLUME, in_progress=not finished, data=finished, stripe=(512 * 1024, 512 * 1024 * len(drives))
        )
    if assembled:
        machine.reboot()
    return machine


@pytest.mark.parametrize("remembered", [True, False])
@pytest.mark.parametrize("assembled", [True, False])
@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("volume", [True, False])
def test_every_small_machine_is_left_alone_or_brought_home(every_order, remembered, assembled, finished, volume):
    """All machines of one to three disks: the model asserts that nothing foreign is touched and no data are lost.

    `make test` has each three contents in one order of their disks, another one in each parameter set."""
    outcomes = {"refused": 0, "done": 0}
    number = 8 * remembered + 4 * assembled + 2 * finished + volume
    for size in (1, 2, 3):
        all_contents = itertools.product(CONTENTS if size < 3 else CONTENTS[:8], repeat=size)
        if size == 3 and not every_order:
            all_contents = (
                list(itertools.permutations(contents))[(place + number) % 6]
                for place, contents in enumerate(itertools.combinations_with_replacement(CONTENTS[:8], size))
            )
        for contents in all_contents:
            for options in ({}, {"count": size}, {"state": "absent"}):
                machine = small_machine(contents, finished, volume, assembled, remembered)
                before = {d.serial: (d.superblock, d.volume and d.volume.uuid, d.foreign) for d in machine.drives}
                desired = wanted(**options)
                first = plan(machine.observe(), desired, IDENTITIES[0])
                if first.refusals:
                    assert not first.actions
                    outcomes["refused"] += 1
                    continue
                try:
                    converge(machine, desired, first=first)
                except StepFailed:
                    # What is on an array shows only once it is assembled; here its file system had been wiped.
                    assert "AssembleArray" in kinds(first.actions)
                    converge(machine, desired)
                outcomes["done"] += 1
                for serial in machine.protected:
                    drive = machine.drive(serial)
                    assert (drive.superblock, drive.volume and drive.volume.uuid, drive.foreign) == before[serial]
    assert min(outcomes.values()) > (300 if every_order else 100), outcomes


# What could still be read --------------------------------------------------------------------------------

# What has become of each member of a whole, written scratch; late: it is there, and not visible now.
FATES = ("here", "late", "blank", "replaced", "dead", "wiped", "copied", "copied_and_late")


def aged(fates, extra, level, finished, volume):
    """A scratch with data after all that can happen to it."""
    count = len(fates)
    machine = Machine([Drive("S{0}".format(n), (OURS, n, count), residue=True) for n in range(count)])
    machine.volumes[OURS] = Volume(VOLUME, data=True, stripe=(512 * 1024, 512 * 1024 * count))
    machine.volumes[OURS].damaged = volume == "damaged"
    machine.record = Record((Build(OURS, VOLUME, "xfs", tuple(d.serial for d in machine.drives), finished),))
    for number, fate in enumerate(fates):
        drive = machine.drive("S{0}".format(number))
        if fate in ("late", "copied_and_late"):
            machine.late.append(drive)
        if fate in ("late", "dead", "replaced", "copied_and_late"):
            machine.drives.remove(drive)
        if fate in ("blank", "wiped"):
            drive.superblock, drive.residue = None, fate == "wiped"
        if fate == "replaced":
            machine.drives.append(Drive("NEW{0}".format(number), name=drive.name))
        if fate in ("copied", "copied_and_late"):
            machine.drives.append(
                Drive("COPY{0}".format(number), drive.superblock, residue=True, name=drive.name + "c")
            )
    if extra:
        machine.drives.insert(0, Drive("EXTRA", name="nvme9n1"))
    if level != "raid0":
        machine.levels[OURS] = "raid4"
    if level == "reshape":
        machine.reshaping.add(OURS)
    return machine


AGES = [
    (fates, extra, level, finished, volume)
    for count in (1, 2, 3)
    for fates in itertools.product(FATES if count < 3 else FATES[:4] + FATES[-1:], repeat=count)
    for extra in (False, True)
    for level in ("raid0", "raid4", "reshape")
    for finished in (True, False)
    for volume in ("sound", "damaged")
    if count < 3 or (level == "raid0" and volume == "sound")
]


@pytest.mark.parametrize("assembled", [True, False])
@pytest.mark.parametrize("option", ["plain", "as many", "as before"])
def test_nothing_that_could_still_be_read_is_erased(assembled, option):
    """The model asserts it: a member of an array whose disks are all somewhere, a file system with data."""
    built_anew = 0
    for age in AGES:
        machine = aged(*age)
        if assembled:
            machine.reboot()
        chosen = len(machine.drives)
        count = {"plain": None, "as many": max(chosen, 1), "as before": len(age[0])}[option]
        first = plan(machine.observe(), wanted(count=count), IDENTITIES[0])
        try:
            for action in first.actions:
                machine.apply(action)
        except StepFailed:
            assert "AssembleArray" in kinds(first.actions), age
        except AssertionError as error:
            raise AssertionError("{0}: {1}".format(age, error)) from error
        built_anew += "CreateArray" in kinds(first.actions)
        # The planner cannot know what is late: of a finished scratch it erases nothing, readable or not.
        assert not (age[3] and "EraseMark" in kinds(first.actions)), age
    assert built_anew > 10
