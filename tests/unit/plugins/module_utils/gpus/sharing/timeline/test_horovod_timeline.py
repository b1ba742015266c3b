# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Timelines as Horovod writes them, whole, cut anywhere and made by somebody who means no good."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.sharing.timeline import read, sums
from ansible_collections.trainyard.gpu_node.tests.unit import forked

# Of two ranks of Horovod 0.28.1 with PyTorch 1.13.1 and Open MPI 4.1.4 on CPUs, that trained four steps; in the
# second, HOROVOD_CACHE_CAPACITY was 0.
RECORDED = Path(__file__).resolve().parents[5] / "data" / "timeline"
GPUNODE = Path(__file__).resolve().parents[3] / "command" / "gpunode_on.py"


class Writer:
    """Events in the form of horovod/common/timeline.cc. ``old``: each ends with a comma, nothing closes the list."""

    def __init__(self, old=False):
        self.old, self.events, self.tensors, self.now = old, [], {}, 0

    def event(self, phase, tensor, name=None, took=0, args=None):
        number = self.tensors.setdefault(tensor, len(self.tensors) + 1)
        if number == len(self.tensors) and not any(
            '"args": {{"name": "{0}"}}'.format(tensor) in e for e in self.events
        ):
            self.events.append(
                '{{"name": "process_name", "ph": "M", "pid": {0}, "args": {{"name": "{1}"}}}}'.format(number, tensor)
            )
        self.now += took
        parts = ['"ph": "{0}"'.format(phase)]
        parts += ['"name": "{0}"'.format(name)] if phase != "E" else []
        parts += ['"ts": {0}'.format(self.now), '"pid": {0}'.format(number)]
        parts += ['"dur": 0'] if phase == "X" else []
        parts += ['"args": {{"dtype": "float32", "shape": "{0}"}}'.format(args)] if args else []
        self.events.append("{" + ", ".join(parts) + "}")

    def tensor(self, name, operation, activities, ranks=()):
        self.event("B", name, "NEGOTIATE_" + operation)
        for rank, took in ranks:
            self.event("X", name, str(rank), took)
        self.event("E", name)
        self.event("B", name, operation)
        for activity, took in activities:
            self.event("B", name, activity)
            self.event("E", name, took=took)
        self.event("E", name, took=10, args="[3, 3]")

    def text(self):
        if self.old:
            return "[\n" + "".join(one + ",\n" for one in self.events)
        return "[\n" + ",".join(self.events) + "]"


GPU = (
    ("WAIT_FOR_DATA", 200),
    ("WAIT_FOR_OTHER_TENSOR_DATA", 100),
    ("MEMCPY_IN_FUSION_BUFFER", 50),
    ("NCCL_ALLREDUCE", 500),
    ("MEMCPY_OUT_FUSION_BUFFER", 50),
)


def summed(text, chunk=1000):
    data, damage, total = text.encode("utf-8", "surrogateescape"), read.Damage(), sums.Sums()
    pieces = iter([data[place : place + chunk] for place in range(0, len(data), chunk)])
    for event in read.parsed(lambda: next(pieces, b""), damage):
        total.add(event)
    return total.summary(), damage, total


def job(old=False, activities=GPU, steps=3, ranks=((0, 0), (1, 90))):
    writer = Writer(old)
    for _step in range(steps):
        for name in ("dense/kernel", "dense/bias"):
            writer.tensor(name, "ALLREDUCE", activities, ranks)
    return writer.text()


@pytest.mark.parametrize("old", [False, True])
def test_the_phases_are_summed_up_and_the_shares_are_of_all(old):
    found, damage, total = summed(job(old))
    assert (damage.objects, damage.truncated, total.odd, total.left_open) == (0, False, 0, 0)
    assert {one.name: (one.group, one.count, round(one.seconds * 1e6)) for one in found.phases} == {
        "NEGOTIATE_ALLREDUCE": (sums.NEGOTIATION, 6, 540),
        "WAIT_FOR_DATA": (sums.WAITING, 6, 1200),
        "WAIT_FOR_OTHER_TENSOR_DATA": (sums.WAITING, 6, 600),
        "MEMCPY_IN_FUSION_BUFFER": (sums.COPIES, 6, 300),
        "NCCL_ALLREDUCE": (sums.NCCL, 6, 3000),
        "MEMCPY_OUT_FUSION_BUFFER": (sums.COPIES, 6, 300),
        "ALLREDUCE": (sums.OTHER, 6, 60),
    }
    assert sum(one.share for one in found.phases) == pytest.approx(1)
    assert found.share_of(sums.NCCL) == pytest.approx(0.5)
    assert (found.tensors, found.ranks, found.notes) == (2, 2, ())
    assert found.seconds == pytest.approx(6 * 1000 / 1e6)


@pytest.mark.parametrize("name, ticks", [("horovod_0.28.1_mpi", 8), ("horovod_0.28.1_mpi_no_cache", 20)])
def test_a_recorded_timeline_is_read_whole(name, ticks):
    """Which rank is ready is told for what is not in Horovod's cache of responses."""
    text = (RECORDED / (name + ".json")).read_text()
    events = json.loads(text)
    found, damage, total = summed(text)
    assert (damage.objects, damage.truncated, total.odd) == (0, False, 0)
    assert (found.tensors, found.ranks, sum(one["ph"] == "X" for one in events)) == (4, 2, ticks)
    begun, ended, spans = {}, {}, 0.0
    open_phases = {one["pid"]: [] for one in events}
    for one in events:
        if one["ph"] == "B":
            open_phases[one["pid"]].append(one)
            begun[one["name"]] = begun.get(one["name"], 0) + 1
        elif one["ph"] == "E":
            first = open_phases[one["pid"]].pop()
            ended[first["name"]] = ended.get(first["name"], 0) + 1
            spans += 0 if open_phases[one["pid"]] else one["ts"] - first["ts"]
    assert total.left_open == sum(begun.values()) - sum(ended.values())
    assert {one.name: one.count for one in found.phases} == ended
    assert sum(one.seconds for one in found.phases) == pytest.approx(spans / 1e6)
    assert all(one.longest <= one.seconds <= one.count * one.longest + 1e-9 for one in found.phases)
    assert found.seconds_of(sums.OTHER) < 0.01 * found.seconds_of(sums.MPI)
    assert len(found.notes) == 1 and found.notes[0].startswith("NCCL was not used: gradients went through MPI_ALLRED")


@given(cut=st.integers(0, 10000), chunk=st.integers(1, 3000), old=st.booleans())
def test_a_file_may_end_anywhere_and_come_in_any_pieces(cut, chunk, old):
    text = job(old)
    cut = min(cut, len(text))
    found, damage, total = summed(text[:cut], chunk)
    whole = {one.name: one for one in summed(text)[0].phases}
    assert all(one.seconds <= whole[one.name].seconds + 1e-9 for one in found.phases)
    assert damage.objects <= 1 and total.odd == 0
    if cut == len(text):
        assert {one.name: one for one in found.phases} == whole and not damage.truncated


def test_that_it_ends_in_the_middle_is_known():
    text = job(True)
    assert summed(text[:-30])[1].truncated and not summed(text)[1].truncated


@pytest.mark.parametrize(
    "activities, told",
    [
        ((("MPI_ALLREDUCE", 5),), "NCCL was not used: gradients went through MPI_ALLREDUCE;"),
        ((("GLOO_ALLREDUCE", 5),), "NCCL was not used: gradients went through GLOO_ALLREDUCE;"),
        ((("NCCL_REDUCESCATTER", 5), ("MPI_ALLREDUCE", 5), ("NCCL_ALLGATHER", 5)), None),
        ((("MPI_BCAST", 5),), None),
        (GPU, None),
    ],
)
def test_it_is_told_when_nccl_was_not_used(activities, told):
    notes = summed(job(activities=activities))[0].notes
    assert notes == () if told is None else notes[0].startswith(told)


@pytest.mark.parametrize(
    "ranks, late",
    [
        (((0, 0), (1, 1), (2, 5000), (3, 1)), 3),
        # Of one cycle: in the order of their numbers.
        (((0, 0), (1, 1), (2, 1), (3, 1)), None),
        (((0, 0), (3, 1), (1, 9000)), 1),
    ],
)
def test_a_rank_that_is_late_again_and_again_is_named(ranks, late):
    notes = summed(job(steps=20, ranks=ranks))[0].notes
    assert (notes == ()) if late is None else notes[0].startswith("rank {0} was the last in 100 %".format(late))


def test_ranks_that_are_late_in_turn_are_not():
    writer = Writer()
    for step in range(80):
        writer.tensor("x", "ALLREDUCE", GPU, ((step % 4, 0), ((step + 1) % 4, 5000)))
    assert summed(writer.text())[0].notes == ()


@given(junk=st.text(max_size=60), place=st.integers(0, 40))
def test_junk_between_events_costs_only_itself(junk, place):
    lines = job(True).split("\n")
    place = min(place, len(lines) - 1)
    text = "\n".join([*lines[:place], junk.replace("{", "("), *lines[place:]])
    found = summed(text)[0]
    assert {one.name for one in found.phases} == {one.name for one in summed(job())[0].phases}


def test_a_name_with_quotes_costs_only_its_event():
    """Horovod writes the name of a tensor as it is."""
    writer = Writer()
    writer.tensor('a"b\\c', "ALLREDUCE", GPU)
    writer.tensor("x", "ALLREDUCE", GPU)
    found, damage, dummy = summed(writer.text())
    assert damage.objects >= 1 and {one.count for one in found.phases} == {2}


@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 100000,
        "[" * 1000000,
        ',{"a":[' * 100000,
        '{"ph": "B", "ts": ' + "9" * 200000 + ', "pid": 1, "name": "x"}',
        '{"ph": "B", "name": "' + "x" * 300000,
        '{"ph": "B", "name": "x", "ts": 1, "pid": 1},' * 50000,
        ",".join(
            '{{"ph":"B","name":"n{0}","ts":{0},"pid":{0}}},{{"ph":"E","ts":{0},"pid":{0}}}'.format(n)
            for n in range(20000)
        ),
        '{"ph": "B", "name": ["x"], "ts": "1", "pid": {}}, {"ph": "X"}, {"ph": 1, "ts": NaN}, 7, "x", null',
    ],
)
def test_what_is_made_to_harm_takes_neither_long_nor_much(text):
    began = time.process_time()
    found, damage, total = summed(text, 2**20)
    assert time.process_time() - began < 10
    assert len(found.phases) <= 201 and total.left_open <= 16 and damage.objects <= 10000


def test_what_has_no_end_is_given_up_before_the_end_of_the_file():
    began = time.process_time()
    found, damage, total = summed('{"ph": "B", "name": "' + "x" * 3000000 + job(), 100)
    assert time.process_time() - began < 10 and len(found.phases) == 7 and damage.objects > 1
    assert summed('{"ph": "B", "ts": ' + "9" * 4000 + ', "pid": 1, "name": "x"}')[2].odd == 1


# The command ----------------------------------------------------------------------------------------------------------


def gpunode(tmp_path, *words):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    return forked.run(
        [sys.executable, str(GPUNODE), "/", "--", "timeline", *words],
        env=environment,
        cwd=str(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_table_fits_and_says_what_is_in_the_file(tmp_path):
    (tmp_path / "t.json").write_text(job(activities=(("MPI_ALLREDUCE", 500), ("MEMCPY_IN_FUSION_BUFFER", 5)))[:-20])
    done = gpunode(tmp_path, "t.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert re.search(r"^MPI +[0-9.]+%", done.stdout, re.MULTILINE) and "  MPI_ALLREDUCE" in done.stdout
    words = " ".join(done.stdout.split())
    assert "note: NCCL was not used" in words and "note: the file ends in the middle of an event" in words
    document = json.loads(gpunode(tmp_path, "t.json", "--json").stdout)
    assert document["nccl"] is False and document["groups"]["MPI"]["share"] > 0.5 and len(document["notes"]) >= 2


def test_names_are_printed_safely(tmp_path):
    event = json.dumps({"ph": "B", "name": "\x1b[31mred\nline" + "x" * 500, "ts": 0, "pid": 1})
    (tmp_path / "t.json").write_text('[{0},{{"ph":"E","ts":5,"pid":1}}]'.format(event))
    done = gpunode(tmp_path, "t.json")
    assert done.returncode == 0 and "\x1b" not in done.stdout and "red line" in done.stdout


def test_no_more_is_read_than_was_asked_for(tmp_path):
    (tmp_path / "t.json").write_text(job(steps=3000))
    done = gpunode(tmp_path, "t.json", "--most", "0.001")
    assert done.returncode == 0 and "were not read" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "make, status, told",
    [
        (lambda path: None, 1, "it cannot be opened (No such file or directory)"),
        (lambda path: path.mkdir(), 1, "it is no file"),
        (os.mkfifo, 1, "it is no file"),
        (lambda path: path.write_text(""), 1, "it has 0 events"),
        (lambda path: path.write_bytes(bytes(range(256)) * 100), 1, "no phase of Horovod"),
    ],
)
def test_what_is_no_timeline_is_told(tmp_path, make, status, told):
    make(tmp_path / "t.json")
    done = gpunode(tmp_path, "t.json")
    assert done.returncode == status and told in done.stderr and done.stdout == ""
    for most in ("0", "nan", "1e9"):
        assert gpunode(tmp_path, "t.json", "--most", most).returncode == 2
