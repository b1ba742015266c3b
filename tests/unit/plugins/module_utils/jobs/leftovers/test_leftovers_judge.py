# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which leftovers are free: whatever is not known counts against it, and no job that comes makes anything free."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of_section
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.root_folders import Identity
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.leftovers.judge import judge, removed
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.leftovers.types import (
    BESIDE_JOBS,
    CLOCKS,
    CONTAINERS,
    CORE_DUMPS,
    ENVIRONMENTS,
    FRESH_SECONDS,
    GPU_PROCESSES,
    JOB_FOLDERS,
    KEEP,
    KINDS,
    LIST,
    LISTED,
    REMOVE,
    TMP_FILES,
    Jobs,
    Leftover,
    Place,
    Seen,
    Settings,
)

DAY = 86400.0
SAME = Identity(1, 2, 1001, 0o040000, 3)


def left(kind, **more):
    place = Place("/x", (), "name")
    found = {"identity": SAME, "size_bytes": 10, "idle_seconds": 400 * DAY, "owners": frozenset((1001,)), "ours": True}
    return Leftover(kind, "/x/name", place, **{**found, **more})


def only(one, **more):
    (found,) = judge(Seen((one,), **{"uptime_seconds": 9e9, **more}), more.pop("settings", Settings()))
    return found.outcome, found.why


@pytest.mark.parametrize(
    "one, jobs, outcome, why",
    [
        (left(JOB_FOLDERS, job=7), Jobs(ended=frozenset((7,))), REMOVE, "its job is over"),
        (left(JOB_FOLDERS, job=7), Jobs(), KEEP, "nobody says"),
        (left(JOB_FOLDERS, job=7), Jobs(frozenset("7"), ended=frozenset((7,))), KEEP, "its job runs"),
        (left(JOB_FOLDERS, job=7, ours=False), Jobs(ended=frozenset((7,))), KEEP, "no mark of ours"),
        (left(CONTAINERS), Jobs(), REMOVE, "its user has no job here"),
        (left(CONTAINERS), Jobs(users=frozenset((1001,))), KEEP, "its user has a job"),
        (left(CONTAINERS), Jobs(processes=frozenset((1001,))), KEEP, "its user has processes"),
        (left(CONTAINERS), Jobs(told=False), KEEP, "Slurm does not tell"),
        (left(CONTAINERS, keeps=True), Jobs(), REMOVE, "400 of 30 days"),
        (left(CONTAINERS, keeps=True, idle_seconds=3 * DAY), Jobs(), KEEP, "3 of 30 days"),
        (left(CONTAINERS, owners=None), Jobs(), KEEP, "in time"),
        (left(ENVIRONMENTS), Jobs(), REMOVE, "400 of 90 days"),
        (left(ENVIRONMENTS, keeps=True), Jobs(), KEEP, "in force"),
        (left(ENVIRONMENTS), Jobs(frozenset("9")), KEEP, "jobs run here"),
        (left(ENVIRONMENTS), Jobs(told=False), KEEP, "Slurm does not tell"),
        (left(ENVIRONMENTS, open=True), Jobs(), KEEP, "has it open"),
        (left(CORE_DUMPS), Jobs(frozenset("9")), REMOVE, "400 of 7 days"),
        (left(CORE_DUMPS, open=None), Jobs(), KEEP, "not every process"),
        (left(TMP_FILES), Jobs(), REMOVE, "400 of 10 days"),
        (left(TMP_FILES, owners=frozenset((1001, 0))), Jobs(), KEEP, "root or a daemon"),
        (left(TMP_FILES, owners=frozenset((1001, 1002))), Jobs(users=frozenset((1002,))), KEEP, "its user has a job"),
        (left(TMP_FILES, mounted=True), Jobs(), KEEP, "mounted"),
        (left(TMP_FILES, link=True), Jobs(), KEEP, "a link"),
        (left(TMP_FILES, idle_seconds=FRESH_SECONDS - 1), Jobs(), KEEP, "ten minutes"),
        (left(TMP_FILES, identity=None), Jobs(), KEEP, "gone"),
        (left(CLOCKS, open=True), Jobs(frozenset("9")), KEEP, "a job has this GPU"),
        (left(CLOCKS), Jobs(frozenset("9")), REMOVE, "no job has this GPU"),
        (left(CLOCKS, open=None), Jobs(frozenset("9")), KEEP, "nobody knows"),
        (left(GPU_PROCESSES), Jobs(), LIST, "never touched"),
    ],
)
def test_what_is_free_and_why(one, jobs, outcome, why):
    found, told = only(one, jobs=jobs)
    assert found == outcome and why in told


def test_the_folder_of_a_job_of_an_earlier_boot_needs_nobodys_word():
    one = left(JOB_FOLDERS, job=7, idle_seconds=7200.0)
    assert only(one, jobs=Jobs(told=False), uptime_seconds=3600.0) == (REMOVE, "its job was of an earlier boot")
    assert only(one, jobs=Jobs(frozenset("7"), told=False), uptime_seconds=3600.0)[0] == KEEP
    assert only(one, jobs=Jobs(told=False), uptime_seconds=None)[0] == KEEP


def test_a_scratch_that_is_short_of_space_loses_the_oldest_caches_until_it_is_not():
    def cache(days, size):
        return left(CONTAINERS, keeps=True, idle_seconds=days * DAY, size_bytes=size, owners=frozenset((1000 + days,)))

    found = Seen((cache(2, 30), cache(9, 30), cache(5, 30)), free_percent=5.0, scratch_bytes=1000)
    some = removed(judge(found, Settings(keep_free_percent=10)))
    assert [one.idle_seconds / DAY for one in some] == [9, 5]
    assert removed(judge(found, Settings(keep_free_percent=4))) == () == removed(judge(found, Settings()))
    busy = replaced(found, jobs=Jobs(users=frozenset((1009,))))
    assert [one.idle_seconds / DAY for one in removed(judge(busy, Settings(keep_free_percent=10)))] == [2, 5]


USERS = st.frozensets(st.integers(998, 1003), max_size=3)
LEFTOVERS = st.builds(
    Leftover,
    kind=st.sampled_from(KINDS),
    what=st.just("x"),
    place=st.just(Place("/x", (), "n")),
    identity=st.sampled_from((SAME, SAME, None)),
    size_bytes=st.none() | st.integers(0, 100),
    idle_seconds=st.floats(0, 200 * DAY),
    owners=st.none() | USERS,
    job=st.none() | st.integers(1, 5),
    ours=st.booleans(),
    keeps=st.booleans(),
    open=st.sampled_from((True, False, False, None)),
    mounted=st.booleans(),
    link=st.booleans(),
)
JOBS = st.builds(
    Jobs,
    names=st.frozensets(st.sampled_from("12345"), max_size=2),
    users=USERS,
    told=st.booleans(),
    ended=st.frozensets(st.integers(1, 5), max_size=3),
    processes=USERS,
)
SEEN = st.builds(
    Seen,
    leftovers=st.lists(LEFTOVERS, max_size=6).map(tuple),
    jobs=JOBS,
    uptime_seconds=st.none() | st.floats(0, 200 * DAY),
    free_percent=st.none() | st.floats(0, 100),
    scratch_bytes=st.integers(0, 1000),
)
SETTINGS = st.builds(
    Settings,
    cache_days=st.integers(0, 60),
    environment_days=st.integers(0, 60),
    core_days=st.integers(0, 60),
    tmp_days=st.integers(0, 60),
    keep_free_percent=st.integers(0, 95),
    beside_jobs=st.booleans(),
)


@given(SEEN, SETTINGS)
def test_whatever_is_found_only_what_is_proven_free_goes(seen, settings):
    jobs = seen.jobs
    for one in removed(judge(seen, settings)):
        assert one.kind not in LISTED
        assert not jobs.names or (settings.beside_jobs and one.kind in BESIDE_JOBS)
        assert jobs.told or one.kind in BESIDE_JOBS
        if one.kind == CLOCKS:
            assert one.open is False and jobs.told
            continue
        assert one.identity is not None and not one.link and not one.mounted and one.idle_seconds >= FRESH_SECONDS
        if one.kind in (CONTAINERS, TMP_FILES):
            assert jobs.told and one.owners is not None and not one.owners & (jobs.users | jobs.processes)
        if one.kind in (JOB_FOLDERS, CONTAINERS, ENVIRONMENTS):
            assert one.ours
        if one.kind == JOB_FOLDERS:
            assert str(one.job) not in jobs.names
            assert one.job in jobs.ended or one.idle_seconds > seen.uptime_seconds
        if one.kind in (ENVIRONMENTS, CORE_DUMPS, TMP_FILES):
            assert one.open is False and one.idle_seconds >= settings.days(one.kind)
        if one.kind == TMP_FILES:
            assert all(uid >= seen.least_uid for uid in one.owners)


@given(SEEN, SETTINGS, JOBS)
def test_more_that_is_known_of_jobs_frees_nothing(seen, settings, more):
    """Without the wish for space: there another cache may go in place of one that is needed by now."""
    settings = replaced(settings, keep_free_percent=0)
    jobs = Jobs(
        seen.jobs.names | more.names,
        seen.jobs.users | more.users,
        seen.jobs.told and more.told,
        seen.jobs.ended,
        seen.jobs.processes | more.processes,
    )
    before, after = removed(judge(seen, settings)), removed(judge(replaced(seen, jobs=jobs), settings))
    assert [one for one in after if one not in before] == []


@given(SEEN, SETTINGS)
def test_each_is_told_once_with_a_reason(seen, settings):
    found = judge(seen, settings)
    assert [one.leftover for one in found] == list(seen.leftovers) and all(one.why for one in found)
    none = replaced(settings, kinds=())
    assert judge(seen, none) == ()


def test_a_section_that_was_edited_by_hand_counts_as_not_given_where_it_cannot_be():
    edited = {"kinds": ["job_folders", "nonsense"], "tmp_days": "x", "core_days": True, "cache_days": -1}
    assert of_section(Settings, edited) == Settings(kinds=(JOB_FOLDERS,))
    assert of_section(Settings, {"beside_jobs": False, "tmp_days": 3}) == Settings(beside_jobs=False, tmp_days=3)
