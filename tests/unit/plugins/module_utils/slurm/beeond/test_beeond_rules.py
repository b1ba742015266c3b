# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who starts the file system of a job, and what is left of one: the rules, for any jobs and nodes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import plain, replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.beeond import note, rules
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.beeond.remains import (
    Remains,
    daemon_of,
    left_over,
    status_wrong,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.beeond.rules import (
    Instance,
    Seen,
    Settings,
    decide,
    lowest_first,
    not_ready,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import Job

SETTINGS = Settings()
SEEN = Seen("/mnt/scratch")
JOBS = st.integers(1, 2**31)
NAMES = st.lists(st.from_regex(r"[a-c]{1,2}[0-9]{1,3}", fullmatch=True), min_size=2, max_size=6, unique=True)


def job(number=42, nodes="gpu[1-3]", node="gpu1", **more):
    return Job(number, 1000, node=node, nodes=nodes, comment="beeond", **more)


def made(seen=SEEN, now=0.0, **more):
    return decide(SETTINGS, job(**more), seen, now)


@given(NAMES, JOBS, st.randoms())
def test_all_nodes_agree_on_one_starter_and_on_all_that_has_to_be_the_same(names, number, random):
    notes = []
    for node in names:
        order = list(names)
        random.shuffle(order)
        notes.append(made(number=number, nodes=",".join(order), node=node))
    assert not any(one.refused for one in notes)
    assert sum(node == one.starter for node, one in zip(names, notes)) == 1
    for node, one in zip(names, notes):
        assert not_ready(notes[0], node, one) == ""


def test_the_lowest_node_starts_by_the_value_of_its_number():
    assert lowest_first(["gpu10", "gpu9", "gpu9", "gpu-a2"]) == ("gpu9", "gpu10", "gpu-a2")
    assert made(nodes="gpu[9-11]", node="gpu10").starter == "gpu9"


@given(JOBS, JOBS)
def test_two_jobs_share_nothing_or_the_second_is_refused(first, second):
    one = made(number=first)
    other = made(number=second, seen=Seen("/mnt/scratch", others=(one,)))
    if first == second:
        assert not other.refused
        return
    same = one.shift == other.shift
    assert bool(other.refused) == same and ("job {0} has the same ports".format(first) in other.refused) == same
    if not same:
        # The ports of BeeGFS are 8003 to 8008.
        assert not set(range(8003 + one.shift, 8009 + one.shift)) & set(range(8003 + other.shift, 8009 + other.shift))
    for what in ("point", "data", "status", "node_file", "logs"):
        assert getattr(one, what) != getattr(other, what)


@given(JOBS, st.floats(1e9, 2e9))
def test_two_jobs_with_different_ports_never_start_in_the_same_second(number, now):
    """The last digit of the job gives its ports, and two seconds of every twenty that are no other digit's."""
    wait = rules.seconds_to_turn(now, number)
    assert 0 <= wait < 20
    # beeond asks for the time up to a second later.
    for moment in (now + wait + 0.01, now + wait + 0.99):
        assert int(moment) % 20 // 2 == number % 10 == (rules.shift_of(SETTINGS, number) - SETTINGS.port_shift) // 10


def test_a_note_that_was_refused_holds_no_ports():
    refused = replaced(made(number=142), refused="x")
    assert made(seen=Seen("/mnt/scratch", others=(refused,))).refused == ""


def test_what_is_refused_and_why():
    def why(seen=SEEN, **more):
        return made(seen, **more).refused

    none = why(nodes="")
    assert "no list" in none and none == why(nodes="gpu[1-3", node="gpu1") == why(node="gpu9")
    assert "one node" in why(nodes="gpu1")
    assert "none of a host" in why(nodes="gpu1,-oProxyCommand=x")
    assert why(Seen()) == "no scratch was declared"
    assert why(Seen(scratch_wrong="it is not mounted")) == "it is not mounted"
    assert why(replaced(SEEN, point_wrong="p")) == "p" and why(replaced(SEEN, client_wrong="c")) == "c"
    assert why(replaced(SEEN, mounted={"/beeond/42": "ext4"})) == "something (ext4) is mounted at /beeond/42"


def test_a_job_that_never_asked_is_not_asked_for():
    for comment, features, expected in (
        ("", "", False),
        ("nobeeond", "a100", False),
        ("with beeond, please", "", True),
        ("", "a100&beeond", True),
    ):
        assert rules.asked(SETTINGS, Job(1, 1, comment=comment, features=features)) is expected


def test_nothing_is_started_on_a_node_that_is_not_ready():
    mine, theirs = made(), made(node="gpu2")
    assert not_ready(mine, "gpu2", theirs) == ""
    assert not_ready(mine, "gpu2", None) is None
    assert not_ready(mine, "gpu2", replaced(theirs, restart="1")) is None  # of another start of the job
    assert not_ready(mine, "gpu2", replaced(theirs, refused="no scratch")) == "gpu2: no scratch"
    assert "another data" in not_ready(mine, "gpu2", replaced(theirs, data="/other/beeond/42"))
    assert "another nodes" in not_ready(mine, "gpu2", replaced(theirs, nodes=("gpu1",)))


@given(
    st.lists(
        st.sampled_from(["ready", "missing", "of another start", "refused", "other shift"]), min_size=1, max_size=6
    )
)
def test_a_start_begins_when_all_are_ready_ends_with_the_first_that_is_not_and_asks_the_rest_again(states):
    nodes = tuple("gpu{0}".format(number) for number in range(len(states) + 1))
    mine = replaced(made(), nodes=nodes)
    kinds = {
        "ready": mine,
        "of another start": replaced(mine, restart="7"),
        "refused": replaced(mine, refused="no scratch"),
        "other shift": replaced(mine, shift=1),
    }
    theirs = {node: kinds[state] for node, state in zip(nodes[1:], states) if state in kinds}
    why, again = rules.agreement(mine, theirs)
    bad = [node for node, state in zip(nodes[1:], states) if state in ("refused", "other shift")]
    if bad:
        assert why.startswith(bad[0]) and not again
    else:
        assert why == ""
        assert again == tuple(n for n, state in zip(nodes[1:], states) if state in ("missing", "of another start"))


def test_who_was_late_and_why():
    assert rules.late(("a",), {"a": "ssh to it fails"}) == "node a was not ready in time: ssh to it fails"
    found = rules.late(("a", "b", "c"), {"a": ""})
    assert found == "node a was not ready in time (nor were 2 more nodes): its prolog has noted nothing"
    assert rules.late(("a",), {}).endswith("there was no time to ask it")


def test_a_node_waits_no_longer_when_the_starter_of_this_start_has_given_up_and_only_then():
    mine = made(node="gpu2")
    starters = made(node="gpu1")
    assert rules.given_up(mine, None, 0, False) == rules.given_up(mine, starters, 0, True) == ""
    why = rules.given_up(mine, replaced(starters, refused="gpu3: no scratch"), 0, False)
    assert why == "gpu1 did not start it: gpu3: no scratch"
    assert rules.given_up(mine, replaced(starters, refused="x", restart="1"), 0, False) == ""


def test_a_node_waits_a_minute_and_a_half_for_a_starter_that_notes_nothing():
    mine = made(node="gpu2")
    assert rules.given_up(mine, None, rules.NOTE_SECONDS, False) == ""
    why = rules.given_up(mine, None, rules.NOTE_SECONDS + 1, False)
    assert why == "gpu1 has noted nothing of it for 90 s"


def test_a_note_of_the_starter_that_is_gone_again_ends_the_wait():
    """The job may be over on the starter before the others have read why its start failed."""
    mine = made(node="gpu2")
    assert rules.given_up(mine, None, 0.1, True) == "gpu1 has ended it already, and its log tells why"
    assert rules.given_up(mine, None, 0.0, True) == ""  # it did not answer
    assert rules.given_up(mine, made(node="gpu1"), 0.1, True) == ""


@given(st.integers(2, 5000))
def test_the_starter_is_asked_by_at_most_eight_nodes_in_a_second(nodes):
    every = rules.seconds_between_asks(nodes)
    assert nodes / every <= 8 and (every == rules.ASK_STARTER_SECONDS or nodes > 32)


@given(st.lists(st.floats(-600, 600), max_size=5), st.floats(0, 700))
def test_a_start_ends_before_any_node_gives_up(offsets, barrier):
    """``offsets``: how much later than the starter's each prolog began."""
    theirs = [made(now=1000.0 + one) for one in offsets]
    now = 1000.0 + barrier
    end = now + rules.seconds_left(now, 1000.0 + SETTINGS.start_seconds, theirs)
    assert all(end < one.until for one in theirs) and end <= 1000.001 + SETTINGS.start_seconds


def test_the_words_of_start_and_stop():
    one = made()
    start = rules.start_words(one, pdsh=False)
    pairs = dict(zip(start[1::2], start[2::2]))
    assert pairs["-d"] == "/mnt/scratch/beeond/42" and pairs["-c"] == "/beeond/42" and pairs["-p"] == "1020"
    assert pairs["-i"] == "/run/gpu_node/beeond/42.status" and "-F" not in start and "-P" not in start
    assert rules.start_words(one, pdsh=True)[-1] == "-P"
    # Neither word of stop takes a value, and the data is not for it to delete.
    assert rules.stop_words(one) == ("stoplocal", "-i", "/run/gpu_node/beeond/42.status", "-L", "-c", "-q")


GOOD = (
    "gpu1,beegfs-mgmtd,/mnt/scratch/beeond/42/beegfs-mgmtd,"
    "/var/log/gpu_node/beeond/42/beegfs-mgmtd_20261126-131500.log,/var/run/beegfs-mgmtd-20261126-131500.pid\n"
    "gpu1,beegfs-helperd,-,"
    "/var/log/gpu_node/beeond/42/beegfs-client_20261126-131500.log,/var/run/beegfs-helperd-20261126-131500.pid\n"
    "gpu1,beegfs-client,/beeond/42,/var/log/gpu_node/beeond/42/beegfs-client_20261126-131500.log,-\n"
)


def test_a_status_file_that_names_anything_else_is_not_used():
    one = made()
    assert status_wrong(GOOD, one) is None and status_wrong("", one) is None
    for before, after in (
        ("/mnt/scratch/beeond/42/", "/mnt/scratch/jobs/42/"),
        (",/beeond/42,", ",/home,"),
        ("gpu_node/beeond/42/beegfs-client", "gpu_node/beeond/42/../beegfs-client"),
        ("/var/run/beegfs-mgmtd-", "/tmp/beegfs-mgmtd-"),
        ("beegfs-mgmtd,", "tmpfs,"),
        ("gpu1,beegfs-client", "gpu1,x,beegfs-client"),
    ):
        assert before in GOOD
        assert status_wrong(GOOD.replace(before, after), one) is not None, after


def test_a_daemon_is_known_by_its_log():
    words = ["/opt/beegfs/sbin/beegfs-storage", "x=y", "logStdFile=/var/log/gpu_node/beeond/42/beegfs-storage_1.log"]
    assert daemon_of(words) == 42
    assert daemon_of(["/bin/cat", *words[1:]]) is None and daemon_of([]) is None
    assert daemon_of([words[0], "logStdFile=/var/log/beegfs-storage.log"]) is None  # of a site's own BeeGFS


@given(*[st.lists(st.integers(1, 9), max_size=4)] * 4, st.sets(st.integers(1, 9)))
def test_what_is_left_is_told_for_jobs_that_are_over_and_for_no_other(mounts, folders, daemons, notes, running):
    remains = Remains(tuple(mounts), tuple(folders), tuple(daemons), tuple(notes))
    told = dict(left_over(remains, running))
    assert set(told) == (set(mounts) | set(folders) | set(daemons)) - running
    for one, text in told.items():
        assert ("mount" in text, "data" in text, "daemon" in text) == (one in mounts, one in folders, one in daemons)


@given(st.text(max_size=30) | st.just("[]") | st.just('{"shift": 1}'))
def test_a_note_that_is_cut_or_edited_counts_as_none(text):
    assert note.parsed(text, 1) is None


def test_a_note_is_read_as_it_was_written(tmp_path):
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host

    host, one = Host(str(tmp_path)), replaced(made(), by=(3, 4))
    note.write(host, one)
    assert note.read(host, 42) == one and note.all_of(host) == (one,)
    assert (tmp_path / "run/gpu_node/beeond").stat().st_mode & 0o777 == 0o700
    note.forget(host, one)
    assert note.all_of(host) == () and note.read(host, 42) is None
    assert isinstance(plain(one)["nodes"], (list, tuple)) and isinstance(one, Instance)
