# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal of a node and the rules over time: what it keeps, what breaks it, and who fails too often by it."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import safe_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import (
    journal,
    remember,
    repeats,
    xid_bursts,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import repeat_offender
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.repeats import REPEATS, WARNINGS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import record as record_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.journal import (
    CLEARED,
    FAULT,
    REMEDY,
    Event,
    Journal,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.journal_events import MOST, MOST_OF_A_KIND
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.kernel_log import KernelLog
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.parts import NODE, Part
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.parts import look as parts_of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Finding, Observed, Outcome, Remedy
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs import hooks
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.formats.formats_verdicts import (
    HEALTHY,
    NOW,
    VERDICTS,
    result,
    verdict,
)

UUID = "GPU-5b3c7a11-0000-4000-8000-000000000003"
GPU, PORT, DISK = Part("gpu", UUID), Part("port", "b859:9f03:0001:0002"), Part("disk", "S5XYZ")
PARTS = {"0000:0b:00.0": GPU, UUID: GPU, "0101:00:00.0": PORT, "S5XYZ": DISK}
CABLE = Finding(Outcome.FAIL, "port", "down", "look", Remedy.LOOK, key="0101:00:00.0", code="link_down")
LOST = Finding(Outcome.FAIL, "GPU 3", "lost", "reboot", Remedy.REBOOT, key="0000:0b:00.0", code="lost")
MACHINE = "6e4ba0a2-0d1c-4c1f-9c0f-3f6f5d1b7a01"


def look(known, *results, now=NOW, boot="b1", bursts=(), node="gpu07"):
    one = verdict(*results, time=now)
    return journal.updated(known, journal.told(one, PARTS, WARNINGS), bursts, boot, now, node)


def burst(at, code=79, now=NOW, boot="b1", part=GPU, action="reboot", unit="", lasted=0.0, count=1):
    return Event(FAULT, part, now, now + lasted, boot, "gpu_xid", "xid_{0}".format(code), action, unit, at, count)


def kinds(known):
    return [(one.what, one.part.kind, one.code) for one in known.events]


# What goes into it --------------------------------------------------------------------------------------


def test_a_fault_stands_once_while_it_lasts_and_again_when_it_comes_again():
    sick, well = result("ib_ports", CABLE), result("ib_ports")
    known = look(Journal(), sick)
    assert kinds(known) == [(FAULT, "port", "link_down")] and known.events[0].part == PORT
    assert look(known, sick, now=NOW + 300) is known  # nothing is written for it
    assert look(known, sick, now=NOW + 4000).events[0].last == NOW + 4000
    assert look(known, result("gpu_lost"), now=NOW + 300) is known  # nobody looked at ports
    known = look(look(known, well, now=NOW + 600), sick, now=NOW + 900)
    assert [one.what for one in known.events] == [FAULT, CLEARED, FAULT]


def finding(check, outcome, code, key="0000:0b:00.0"):
    return result(check, Finding(outcome, "GPU 3", "so it is", "look", Remedy.REPLACE, key=key, code=code))


FLOODED = finding("gpu_ecc", Outcome.WARN, "corrected_dram")
UNREAD = finding("gpu_ecc", Outcome.UNKNOWN, "unread")


@pytest.mark.parametrize(
    "sick, between, ends",
    [
        (FLOODED, [UNREAD], False),
        (FLOODED, [finding("gpu_ecc", Outcome.UNKNOWN, "unread", "")], False),  # of whichever part
        (FLOODED, [finding("gpu_ecc", Outcome.UNKNOWN, "unread", "S5XYZ")], True),
        (FLOODED, [], False),
        (FLOODED, [result("gpu_ecc")], True),
        (FLOODED, [finding("gpu_ecc", Outcome.WARN, "corrected_sram")], True),
        (finding("gpu_ecc", Outcome.FAIL, "sram_threshold"), [FLOODED], True),
        # Well enough for a warning is not well.
        (finding("gpu_temperature", Outcome.FAIL, "hot"), [finding("gpu_temperature", Outcome.WARN, "hot")], False),
        # The checks of GPUs say nothing of one that does not answer, nor does one that is another's fault now.
        (FLOODED, [result("gpu_ecc"), finding("gpu_lost", Outcome.FAIL, "hung")], False),
        (FLOODED, [result("gpu_ecc"), finding("gpu_lost", Outcome.UNKNOWN, "not_asked")], False),
        (FLOODED, [result("gpu_ecc"), finding("gpu_count", Outcome.FAIL, "unclaimed")], False),
        (FLOODED, [result("gpu_ecc"), finding("gpu_lost", Outcome.FAIL, "hung", "0000:0c:00.0")], True),
        (result("gpu_lost", LOST), [finding("gpu_lost", Outcome.FAIL, "hung")], False),
        (result("kernel_messages", replaced(LOST, key="")), [result("kernel_messages"), UNREAD], True),
        (result("ib_ports", CABLE), [result("ib_ports"), finding("gpu_lost", Outcome.FAIL, "hung")], True),
    ],
)
def test_only_a_look_that_finds_it_well_ends_a_fault(sick, between, ends):
    known = Journal(boot="b1")
    for number in range(3):
        known = look(known, sick, now=NOW + 600 * number)
        known = look(known, *between, now=NOW + 600 * number + 300)
    faults = [one for one in known.events if one.what == FAULT and one.fault == known.events[0].fault]
    assert len(faults) == (3 if ends else 1)
    assert sum(1 for one in known.events if one.what == CLEARED and one.fault == faults[0].fault) == (3 if ends else 0)


def test_one_flood_with_unread_looks_between_has_no_gpu_replaced(host):
    for number in range(6):
        one = verdict(UNREAD if number % 2 else FLOODED, time=NOW + 300 * number)
        assert remember.keep(host, one) == ()
    events = journal.read(host)[0].events
    assert [one.what for one in events] == [FAULT] and repeats.of_part(GPU, events, NOW + 1800) == ()
    # Three that ended are three.
    for number in range(6):
        one = verdict(FLOODED if number % 2 else result("gpu_ecc"), time=NOW + 3600 + 300 * number)
        remember.keep(host, one)
    found = repeats.of_part(GPU, journal.read(host)[0].events, NOW + 7200)
    assert [one.rule.code for one in found] == ["gpu_corrected_errors"]


def test_what_befalls_a_part_that_is_not_here_is_neither_over_nor_anew():
    known = look(Journal(boot="b1"), result("nvme_smart", replaced(CABLE, key="S5XYZ")))
    told = journal.told(verdict(result("nvme_smart")), {"0101:00:00.0": PORT})
    assert journal.updated(known, told, (), "b1", NOW + 300) is known
    assert len(look(known, result("nvme_smart"), now=NOW + 300).events) == 2


def test_a_boot_with_an_open_fault_is_a_remedy_that_was_tried_and_one_without_is_none():
    sick = look(Journal(), result("gpu_lost", LOST))
    again = look(sick, result("gpu_lost", LOST), now=NOW + 900, boot="b2")
    assert kinds(again)[-1] == (REMEDY, "gpu", "reboot")
    well = look(look(sick, result("gpu_lost"), now=NOW + 300), result("gpu_lost"), now=NOW + 900, boot="b2")
    assert REMEDY not in [one.what for one in well.events]
    # An Xid is a reason for one boot, and for none of those that follow.
    known = look(Journal(), result("gpu_xid"), bursts=[burst(10.0)])
    for boot in ("b2", "b3", "b4"):
        known = look(known, result("gpu_xid"), boot=boot)
    assert [one.what for one in known.events] == [FAULT, REMEDY]


@pytest.mark.parametrize("code, events", [("reboot", 2), ("redeploy", 2), ("reset_gpu", 3)])
def test_a_boot_that_a_remedy_made_is_no_second_remedy(code, events):
    sick = look(Journal(), result("gpu_lost", LOST), result("ib_ports", CABLE))
    tried = replaced(sick.events[0], what=REMEDY, code=code)
    known = replaced(sick, events=(sick.events[0], tried))
    assert len(look(known, result("gpu_xid"), now=NOW + 900, boot="b2").events) == events
    # One of an earlier start is none of this one.
    known = replaced(known, events=(sick.events[0], replaced(tried, boot="b0")))
    assert len(look(known, result("gpu_xid"), now=NOW + 900, boot="b2").events) == 3


def test_five_remedies_of_a_service_make_an_offender_of_it_and_not_of_the_node(host):
    service = Part("service", "nvidia-dcgm.service")
    events = tuple(days(0, 10, 20, 30, 40, part=service, what=REMEDY, code="restart_service"))
    for count, codes in ((4, []), (5, ["service_remedies"])):
        journal.write(host, Journal(events[:count], boot="b1"))
        seen = repeat_offender.look(type("Evidence", (), {"host": host, "settings": {}}))
        found = repeat_offender.judge(seen, type("Expected", (), {"now": NOW, "node": "gpu07"})).findings
        assert [one.code for one in found] == codes
    assert str(found[0]).startswith(
        "service nvidia-dcgm.service: it has had 5 remedies that did not last within 7 days"
    )
    assert not service.lasts


def test_a_burst_that_each_look_tells_is_one_whatever_the_clock_says():
    known = look(Journal(), bursts=[burst(1000.0)])
    assert look(known, bursts=[burst(1000.0, now=NOW + 1e6)]) is known
    assert look(known, bursts=[burst(1000.0, now=NOW - 1e6)]) is known
    assert look(known, bursts=[burst(1000.0, lasted=60.0, count=9)]).events[0].count == 9
    # The log has lost its begin.
    long = look(Journal(), bursts=[burst(1000.0, lasted=600.0, count=9)])
    assert look(long, bursts=[burst(1500.0, lasted=100.0, count=2)]) is long
    assert len(look(known, bursts=[burst(1200.0)]).events) == 2
    assert len(look(known, bursts=[burst(1000.0, boot="b2")], boot="b2").events) == 3  # and a remedy


def record(second, text):
    return "4,{0},{1},-;{2}".format(int(second), int(second * 1e6), text)


def test_the_log_is_read_as_bursts_by_gpu_code_and_place():
    line = "NVRM: Xid (PCI:0000:0b:00): {0}, pid=1, name={1}, {2}"
    warp = "Graphics SM Warp Exception on (GPC {0}, TPC 3, SM 0): Out Of Range Address"
    records = [record(at, line.format(79, "python3", "GPU has fallen off the bus.")) for at in (100, 200, 500)]
    records += [record(at, line.format(13, "python3", warp.format(gpc))) for at, gpc in ((600, 1), (610, 1), (620, 2))]
    # Not what a user can write into the name of his process; and no code that nobody counts.
    records += [record(700, line.format(13, "(GPC 0, TPC 1)", "Illegal")), record(710, line.format(45, "x", "Ch 1"))]
    log = KernelLog("ring buffer", tuple(records), True, NOW - 1000)
    found = xid_bursts.of_log(log, PARTS, "b1", NOW)
    assert [(one.code, one.unit, one.at, one.count) for one in found] == [
        ("xid_79", "", 100.0, 2),
        ("xid_79", "", 500.0, 1),
        ("xid_13", "GPC 1, TPC 3", 600.0, 2),
        ("xid_13", "GPC 2, TPC 3", 620.0, 1),
        ("xid_13", "", 700.0, 1),
    ]
    assert found[0].time == NOW - 900 and found[0].action == "reboot"


@pytest.mark.parametrize(
    ("text", "action"),
    [
        # The registers that test_xid_registers.py has: by their word alone all but the third would be fatal.
        (
            "74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 14(0x10, 0x0, 0x0, 0x0)",
            "reset_gpu",
        ),
        ("74, NVLink: fatal error detected on link 14(0x1, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)", None),
        ("145, RLW_REMAP Nonfatal XC1 i0 Link 10 (0x00000004 0x00000100 0x0 0x0 0x0 0x0)", None),
        ("145, RLW_REMAP Fatal XC1 i0 Link 10 (0x00000004 0x00000040 0x0 0x0 0x0 0x0)", "reset_gpu"),
        ("149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x026001c6 0x00000000 0x0 0x0 0x0 0x0)", None),
    ],
)
def test_what_the_registers_call_harmless_is_no_burst(text, action):
    record_ = record(100, "NVRM: Xid (PCI:0000:0b:00): " + text)
    found = xid_bursts.of_log(KernelLog("ring buffer", (record_,), True, NOW - 1000), PARTS, "b1", NOW)
    assert [one.action for one in found] == ([] if action is None else [action])


def test_what_a_program_may_cause_as_well_is_no_reason_to_replace_a_gpu():
    def after(code):
        return [burst(3600.0 * at, code, NOW - 3600.0 * (9 - at)) for at in range(9)]

    assert repeats.of_part(GPU, after(48), NOW) and not repeats.of_part(GPU, after(109), NOW)


# Its bounds ---------------------------------------------------------------------------------------------

WORDS = st.text(max_size=30)
EVENTS = st.builds(
    Event,
    st.sampled_from((FAULT, CLEARED, REMEDY)),
    st.sampled_from((GPU, PORT, DISK, NODE)),
    st.floats(0, 4e9),
    st.just(4e9),
    st.sampled_from(("", "b1", "b2")),
    WORDS,
    WORDS,
    st.sampled_from([one.value for one in Remedy]),
    WORDS,
    st.floats(-1, 1e7),
    st.integers(1, 1000),
)
JOURNALS = st.builds(Journal, st.lists(EVENTS, max_size=60).map(journal.bounded), WORDS, WORDS)


@given(JOURNALS)
@examples(30)
def test_a_journal_comes_back_as_it_was_written(known):
    assert journal.FILE.parse(journal.FILE.text(known)) == (known, "")


@given(JOURNALS, VERDICTS, st.lists(EVENTS, max_size=30), st.sampled_from(("", "b1", "b2")))
@examples(30)
def test_any_look_leaves_it_bounded_and_the_second_one_finds_nothing_new(known, one, bursts, boot):
    told = journal.told(one, PARTS)
    after = journal.updated(known, told, (), boot, NOW)
    assert journal.updated(after, told, (), boot, NOW).events == after.events
    after = journal.updated(after, told, bursts, boot, NOW)
    counts = Counter((event.what, event.part, event.check, event.code) for event in after.events)
    assert max(counts.values(), default=0) <= MOST_OF_A_KIND
    assert len(after.events) <= MOST and len(journal.FILE.text(after)) < journal.MOST_BYTES
    assert repeats.of_part(GPU, [event for event in after.events if event.part == GPU], NOW) is not None


def test_a_flood_of_one_part_takes_no_place_of_another():
    events = [burst(float(at * 1000)) for at in range(1000)]
    known = look(look(Journal(), result("ib_ports", CABLE)), bursts=events)
    assert kinds(known)[0] == (FAULT, "port", "link_down") and len(known.events) == MOST_OF_A_KIND + 1
    assert [one.at for one in known.events[1:]] == [1000.0 * at for at in range(1000 - MOST_OF_A_KIND, 1000)]
    many = [burst(1.0, part=Part("gpu", "GPU-{0}".format(number))) for number in range(2 * MOST)]
    assert len(journal.bounded(many)) == MOST


def test_what_users_cause_makes_room_for_faults_and_what_has_most_for_the_others():
    gpus = [Part("gpu", "GPU-{0}".format(number)) for number in range(30)]
    faults = [burst(1000.0 * at, 79, part=gpus[0]) for at in range(5)]
    few = [burst(1.0, 31, part=gpus[1])]
    flood = [burst(1000.0 * at, code, part=gpu) for gpu in gpus[2:] for code in (13, 31) for at in range(30)]
    for events in (faults + few + flood, flood + few + faults):
        kept = journal.bounded(events)
        assert len(kept) == MOST and {*faults, *few} <= {*kept}
        counts = Counter((event.part, event.code) for event in kept if event not in faults + few)
        assert max(counts.values()) - min(counts.values()) <= 1  # 994 of 56 kinds
    assert sum(one.code == "xid_79" for one in journal.bounded(flood * 3 + [burst(1.0, 79)])) == 1


UNITS = ("", "GPC 1, TPC 3", "GPC 2, TPC 3")


def bursts_of(gaps):
    """Bursts as a kernel log has them, those of one code and place further from each other than a burst is long."""
    clock, found = {}, []
    for code, unit, gap, lasted, count in gaps:
        at = clock.get((code, unit), 0.0) + gap
        clock[code, unit] = at + lasted
        one = burst(at, code, NOW - 1e5 + at, action="reboot" if code == 79 else "watch", unit=unit, count=count)
        found.append(replaced(one, last=one.time + lasted))
    return sorted(found, key=lambda one: one.at)


GAPS = st.tuples(
    st.sampled_from((13, 13, 13, 31, 79)),
    st.sampled_from(UNITS),
    st.floats(200, 2000),
    st.floats(0, 300),
    st.integers(1, 9),
)


@given(st.lists(GAPS, max_size=120).map(bursts_of), st.lists(st.integers(0, 120), max_size=6), st.randoms())
@examples(60)
def test_the_same_bursts_make_the_same_journal_however_they_come(bursts, cuts, dice):
    whole = look(Journal(boot="b1"), bursts=bursts)
    assert look(whole, bursts=bursts) is whole
    ends = sorted({0, len(bursts), *(min(cut, len(bursts)) for cut in cuts)})
    chunks = [bursts[begin:end] for begin, end in zip(ends, ends[1:])]
    # As each look tells them, the whole log until then; only what is new; in any order.
    growing = [bursts[:end] for end in ends]
    for some in (growing, chunks, dice.sample(chunks, len(chunks)), [bursts, *chunks]):
        known = Journal(boot="b1")
        for one in some:
            known = look(known, bursts=one)
        assert {*known.events} == {*whole.events}
        assert look(known, bursts=bursts) is known
        assert {*repeats.of_part(GPU, known.events, NOW)} == {*repeats.of_part(GPU, whole.events, NOW)}


@given(st.lists(EVENTS, max_size=60), st.integers(0, 200), st.sampled_from((13, 31, 48, 79)))
def test_a_flood_of_one_kind_never_removes_another(events, size, code):
    before = journal.bounded(events)
    flood = [burst(1000.0 * at, code, unit="GPC {0}, TPC 1".format(at % 7), boot="flood") for at in range(size)]
    for known in (
        journal.bounded([*before, *flood]),
        journal.updated(Journal(before), journal.Told({}), flood, "b", NOW).events,
    ):
        assert [one for one in known if one.boot != "flood" and one.time != NOW] == [
            one for one in before if one.code != "xid_{0}".format(code) and one.time != NOW
        ]


def test_a_crashed_job_leaves_the_history_of_its_gpu_and_the_verdict_of_two_runs():
    """Exceptions on eight GPCs with nine TPCs each, twice: more bursts than the journal holds."""
    history = tuple(days(0, 4, 8, 12, 16))
    known = Journal(history, boot="b1")
    crash = [
        burst(5000.0 + 200 * at + place, 13, unit="GPC {0}, TPC {1}".format(place // 9, place % 9), action="watch")
        for at in range(2)
        for place in range(72)
    ]
    first = look(known, bursts=crash)
    assert first.events[: len(history)] == history
    second = look(first, bursts=crash)
    assert second is first
    assert [one.rule.code for one in repeats.of_part(GPU, first.events, NOW)][:1] == ["gpu_fatal_xids"]


# Machines and clocks ------------------------------------------------------------------------------------


def test_an_image_that_was_cloned_to_ten_nodes_takes_nothing_of_its_machine_along():
    known = replaced(
        look(Journal(), result("gpu_lost", LOST), result("kernel_taint", replaced(LOST, key=""))), machine="a"
    )
    assert {one.part for one in known.events} == {GPU, NODE}
    for number in range(10):
        assert known.on("clone {0}".format(number), [Part("gpu", "GPU-other")]).events == ()
    # The GPU itself moved; "at" a place is no name that lasts.
    assert {one.part for one in known.on("b", [GPU]).events} == {GPU}
    placed = replaced(known, events=(replaced(known.events[0], part=Part("gpu", "at 0000:0b:00.0")),))
    assert placed.on("b", [Part("gpu", "at 0000:0b:00.0")]).events == ()
    assert known.on("a", []).events == known.events and known.on("", []).events == known.events


def test_a_clock_that_was_wrong_drops_nothing_and_what_is_to_come_does_not_count():
    ahead = tuple(burst(at * 1000.0, 48, NOW + 4e8 + at * 1000) for at in range(6))
    known = look(Journal(ahead, boot="b1"), result("ib_ports"), now=NOW)
    assert known.events == ahead and repeats.of_part(GPU, known.events, NOW) == ()
    # The year 2000 until the network sets the clock.
    assert look(known, result("ib_ports", CABLE), now=1e9).events[:6] == ahead
    assert repeats.of_part(GPU, ahead, NOW + 4e8 + 6000)[0].rule.code == "gpu_fatal_xids"


# The file -----------------------------------------------------------------------------------------------


@pytest.fixture
def host(tmp_path):
    for path, text in (
        ("proc/sys/kernel/random/boot_id", "0a6a3e1c-0000-4000-8000-000000000001"),
        ("sys/class/dmi/id/product_uuid", MACHINE),
        ("proc/driver/nvidia/gpus/0000:0b:00.0/information", "GPU UUID: \t {0}\nDevice Minor: \t 3\n".format(UUID)),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "var/lib/gpu_node/health").mkdir(parents=True)
    return Host(str(tmp_path))


SICK = verdict(result("gpu_lost", LOST))


def test_a_verdict_goes_into_the_journal_by_the_uuid_of_its_gpu(host):
    assert remember.keep(host, SICK) == ()
    assert journal.read(host)[0].events[0].part == GPU
    assert os.stat(host.path(journal.PATH)).st_mode & 0o777 == 0o600


def test_what_is_only_observed_is_written_down_too(host):
    """In the first month nothing else is: when it ends, the site knows what would have been drained for."""
    seen = replaced(verdict(), observed=(Observed("gpu_lost", LOST, "*"),), results=(result("gpu_lost"),))
    assert remember.keep(host, seen) == ()
    (event,) = journal.read(host)[0].events
    assert (event.what, event.part, event.check, event.code) == (FAULT, GPU, "gpu_lost", "lost")
    # It lasts while it is seen, and ends with a look that finds it well.
    again = journal.updated(journal.read(host)[0], journal.told(seen, PARTS), (), event.boot, NOW + 60)
    assert [one.what for one in again.events] == [FAULT]
    well = replaced(seen, observed=())
    ended = journal.updated(journal.read(host)[0], journal.told(well, PARTS), (), event.boot, NOW + 60)
    assert [one.what for one in ended.events] == [FAULT, CLEARED]


HOSTILE = (
    "",
    "{",
    "null",
    "[]",
    "{}",
    '{"schema": "trainyard.gpu_node/journal/1"}',
    '{"schema": "trainyard.gpu_node/journal/9", "events": [], "machine": "", "boot": "", "shared": []}',
    "[" * 100000,
    '{"a":' * 50000,
    "9" * 10000,
    "x" * (journal.MOST_BYTES + 1),
    "\x00\xff",
)
VALUES = ("NaN", "Infinity", "1e999", "-1e999", "9" * 400, "true", '"x"', "null", "[]", "{}")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_was_edited_is_put_aside_and_the_verdict_is_kept(host, text):
    with open(host.path(journal.PATH), "w", encoding="latin-1") as stream:
        stream.write(text)
    (told,) = remember.keep(host, SICK)
    assert "moved to " + journal.DAMAGED in told
    assert len(journal.read(host)[0].events) == 1 and os.path.exists(host.path(journal.DAMAGED))
    assert remember.keep(host, SICK) == ()


def test_no_value_of_a_journal_makes_it_crash():
    good = json.loads(journal.FILE.text(Journal((burst(1.0),), "a", "b", ("c",))))
    for name in good["events"][0]:
        for value in VALUES:
            bad = json.dumps(good).replace(
                json.dumps({name: good["events"][0][name]})[1:-1], '"{0}": {1}'.format(name, value)
            )
            known, damage = journal.FILE.parse(bad)
            assert damage or journal.FILE.parse(journal.FILE.text(known)) == (known, "")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/etc/passwd", path)])
def test_what_is_no_file_is_neither_waited_for_nor_followed(host, make):
    make(host.path(journal.PATH))
    known, damage = journal.read(host)
    assert known == Journal() and damage
    assert "starts again" in remember.keep(host, SICK)[0] and len(journal.read(host)[0].events) == 1


def test_a_full_disk_is_told_and_leaves_the_old_journal(host, monkeypatch):
    remember.keep(host, SICK)

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    told = remember.keep(host, verdict(result("gpu_lost"), time=NOW + 60))
    assert "No space left on device" in told[0] and "free some space" in told[0] and len(told) == 1
    assert len(journal.read(host)[0].events) == 1
    assert sorted(os.listdir(host.path("/var/lib/gpu_node/health"))) == ["journal.json"]


def test_a_run_that_is_killed_leaves_the_old_journal_or_the_new_one(host):
    remember.keep(host, SICK)
    for number in range(12):
        child = os.fork()
        if child == 0:
            while True:
                for one in (verdict(result("gpu_lost"), time=NOW + 60), SICK):
                    remember.keep(host, one)
        time.sleep(0.02 * (number + 1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        known, damage = journal.read(host)
        assert damage == "" and 1 <= len(known.events) <= 2 * MOST_OF_A_KIND
    assert remember.keep(host, SICK) == ()


# The folder of the site -----------------------------------------------------------------------------------


@pytest.fixture
def share(host):
    os.mkdir(host.path("/shared"), 0o755)
    return host.path("/shared")


def another(tmp_path_factory, share, uuid=UUID):
    """Another machine with this GPU, in another slot."""
    root = tmp_path_factory.mktemp("other")
    (root / "proc/driver/nvidia/gpus/0000:c1:00.0").mkdir(parents=True)
    (root / "proc/driver/nvidia/gpus/0000:c1:00.0/information").write_text(
        "GPU UUID: {0}\nDevice Minor: 0\n".format(uuid)
    )
    (root / "sys/class/dmi/id").mkdir(parents=True)
    (root / "sys/class/dmi/id/product_uuid").write_text("6e4ba0a2-0d1c-4c1f-9c0f-3f6f5d1b7a99")
    (root / "var/lib/gpu_node/health").mkdir(parents=True)
    os.symlink(share, root / "shared")
    return Host(str(root))


def test_a_gpu_that_moved_to_another_node_keeps_its_history(host, share, tmp_path_factory):
    assert remember.keep(host, SICK, "/shared") == ()
    assert os.listdir(share) == ["gpu-{0}.json".format(UUID)]
    other = another(tmp_path_factory, share)
    assert remember.keep(other, verdict(result("gpu_count"), time=NOW + 9), "/shared") == ()
    assert [(one.what, one.part) for one in journal.read(other)[0].events] == [(FAULT, GPU)]
    stranger = another(tmp_path_factory, share, "GPU-another")
    remember.keep(stranger, verdict(result("gpu_count")), "/shared")
    assert journal.read(stranger)[0].events == ()


def test_what_an_older_version_wrote_without_a_node_stands_once(host, share):
    remember.keep(host, SICK, "/shared")
    (known,) = journal.read(host)[0].events
    assert known.node == SICK.node
    text = json.loads(journal.FILE.text(Journal((known,))))
    del text["events"][0]["node"]
    old = journal.FILE.parse(json.dumps(text))[0].events
    assert old == (replaced(known, node=""),)
    assert journal.merged(Journal((known,)), old).events == (known,)
    assert journal.merged(Journal(old), (known,)).events == old
    assert journal.merged(Journal((known,)), (known,)).events == (known,)
    text["events"][0]["node"] = 7
    assert journal.FILE.parse(json.dumps(text)) == (None, "its content is invalid")


def test_each_event_has_the_node_that_it_happened_on():
    known = look(Journal(), result("gpu_lost", LOST), bursts=[burst(1.0)])
    known = look(known, result("gpu_lost"), now=NOW + 900, boot="b2")
    assert [one.what for one in known.events] == [FAULT, FAULT, REMEDY, CLEARED]
    assert {one.node for one in known.events} == {"gpu07"}
    assert look(Journal(), result("gpu_lost", LOST), node="x" * 500).events[0].node == "x" * 100


def test_a_hostile_share_is_told_and_nothing_of_it_counts(host, share, tmp_path):
    name = os.path.join(share, "gpu-{0}.json".format(UUID))
    aim = tmp_path / "aim"
    aim.write_text("mine")
    os.symlink(aim, name)
    (told,) = remember.keep(host, SICK, "/shared")
    assert "written anew" in told and aim.read_text() == "mine" and not os.path.islink(name)
    # What a file says of other parts.
    with open(name, "w", encoding="utf-8") as stream:
        stream.write(journal.FILE.text(Journal(tuple(burst(1000.0 * at, part=DISK) for at in range(9)))))
    os.unlink(host.path(journal.PATH))
    remember.keep(host, SICK, "/shared")
    assert {one.part for one in journal.read(host)[0].events} == {GPU}
    os.chmod(share, 0o777)
    os.unlink(host.path(journal.PATH))
    (told,) = remember.keep(host, SICK, "/shared")
    assert "every user may write to it" in told and len(journal.read(host)[0].events) == 1
    (told,) = remember.keep(host, SICK, "/gone")
    assert "/gone" in told


def test_a_share_that_does_not_answer_takes_three_seconds_and_no_verdict(host, share, monkeypatch):
    monkeypatch.setattr(remember, "SHARE_SECONDS", 0.3)
    load = safe_files.load
    monkeypatch.setattr(
        safe_files,
        "load",
        lambda path, *more, **given: time.sleep(60) if "shared" in path else load(path, *more, **given),
    )
    begun = time.monotonic()
    told = remember.keep(host, SICK, "/shared")
    assert "did not answer" in told[-1] and time.monotonic() - begun < 30


# The rules ----------------------------------------------------------------------------------------------


def days(*hours, part=GPU, what=FAULT, **more):
    return [
        replaced(burst(hour * 3600.0, now=NOW - 86400 * 3 + hour * 3600, part=part), what=what, **more)
        for hour in hours
    ]


LINK = {"check": "ib_ports", "code": "link_down", "action": "look", "at": -1.0}
FLOOD = {"check": "gpu_ecc", "code": "corrected_dram", "action": "replace", "at": -1.0}


@pytest.mark.parametrize(
    "events, codes",
    [
        ([], []),
        (days(0, 1, 2, 3, code="xid_48"), []),
        (days(0, 1, 2, 3, 4, code="xid_48"), ["gpu_fatal_xids"]),
        (days(0, 10, 20, 30, 40, code="xid_48"), []),  # not within a day
        (days(0, 0.02, 0.04, 0.06, 0.08, 0.1, code="xid_48"), []),  # one burst
        (days(0, 1, 2, 3, 4, code="xid_79"), []),  # Xid 79 is told again and again
        (days(0, 4, 8, 12, 16, code="xid_79"), ["gpu_fatal_xids"]),
        (days(0, 1, 2, 3, 4, code="xid_45"), []),
        (days(0, 1, 2, 3, 4, code="xid_94", action="watch"), []),
        (days(0, 1, code="xid_31", action="watch"), ["gpu_xid_31"]),
        (days(0, code="xid_31", action="watch"), []),
        (days(50, 51, code="xid_13", action="watch", unit="GPC 1, TPC 3"), ["gpu_xid_13"]),
        (days(50, code="xid_13", unit="GPC 1, TPC 3") + days(51, code="xid_13", unit="GPC 2, TPC 3"), []),
        (days(50, 51, code="xid_13", action="watch"), []),
        (days(0, 5, 10, 15, what=REMEDY), []),
        (days(0, 5, 10, 15, 60, what=REMEDY), ["gpu_remedies"]),
        (days(60, 60.3, 60.6, part=PORT, **LINK), ["port_failures"]),
        (days(60, 60.6, 61.2, part=PORT, **LINK), []),
        (days(0, 30, 60, **FLOOD), ["gpu_corrected_errors"]),
        (days(0, 30, **FLOOD), []),
    ],
)
def test_who_fails_too_often(events, codes):
    known = [
        one.rule.code.format(kind=one.part.kind)
        for one in repeats.of_part(events[0].part if events else GPU, events, NOW)
    ]
    # Two Xids 31 of three days ago hold for a day only.
    assert known == ([] if codes == ["gpu_xid_31"] else codes)
    if codes == ["gpu_xid_31"]:
        assert [one.rule.code for one in repeats.of_part(GPU, events, NOW - 86400 * 2.5)] == codes


def test_a_repeat_offender_stays_one_for_a_week_and_every_rule_has_a_source():
    events = days(0, 1, 2, 3, 4, code="xid_48")
    last = events[-1].last
    assert repeats.of_part(GPU, events, last + 7 * 86400 - 1) and not repeats.of_part(GPU, events, last + 7 * 86400 + 1)
    assert all(rule.source and rule.remedy for rule in REPEATS)


@given(st.lists(EVENTS, max_size=60), st.floats(0, 5e9))
@examples(50)
def test_no_history_breaks_a_rule(events, now):
    for part in (GPU, PORT, DISK, NODE):
        for one in repeats.of_part(part, [event for event in events if event.part == part], now):
            assert one.count >= one.rule.count and now - one.last <= one.rule.holds
    assert repeats.between_failures(events) is None or repeats.between_failures(events) > 0


def test_the_finding_names_the_part_and_what_to_do_and_the_metric_its_time_between_failures(host):
    journal.write(host, Journal(tuple(days(0, 4, 8, 12, 16)), boot="b1"))

    class Seeing:
        settings = {}

    evidence = Seeing()
    evidence.host = host
    expected = type("Expected", (), {"now": NOW, "node": "gpu07"})
    judgement = repeat_offender.judge(repeat_offender.look(evidence), expected)
    (one,) = judgement.findings
    assert str(one) == (
        "GPU 0000:0b:00.0 ({0}): it has had 5 bursts of fatal Xids within 24 h, the last 56 h ago; "
        "have the GPU replaced, or redeploy the machine.".format(UUID)
    )
    assert (one.outcome, one.action, one.key, one.code) == (Outcome.FAIL, Remedy.REPLACE, UUID, "gpu_fatal_xids")
    figure = judgement.measured[0]
    assert (figure.name, figure.value, figure.key) == ("time_between_failures_seconds", 4 * 3600.0, UUID)


def test_what_removes_the_gate_knows_its_files():
    assert {journal.PATH, journal.DAMAGED} <= set(record_files.STATE_FILES)


def test_a_hook_before_a_job_loads_nothing_of_it():
    names = "journal journal_events kept remember repeats proof owing parts xid_bursts overrules".split()
    code = "import sys; from {0} import health; print(*sys.modules)".format(hooks.__package__)
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    loaded = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    own = {one.rpartition(".")[2] for one in loaded.stdout.split() if ".health." in one}
    assert "history" in own and not own & set(names)


def test_a_healthy_node_writes_no_journal_and_its_parts_are_found(host):
    assert remember.keep(host, HEALTHY) == ()
    assert remember.keep(host, replaced(HEALTHY, time=NOW + 300)) == ()
    assert parts_of(host)["0000:0b:00.0"] == GPU
    with pytest.raises(NodeError):
        remember.note(Host("/proc/nowhere"), burst(1.0))
