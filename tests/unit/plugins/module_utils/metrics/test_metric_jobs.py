# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which job has which GPU, for the exporter and for our own metrics; and whose profiler has the counters."""

from __future__ import annotations

import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.identity import Identity
from ansible_collections.trainyard.gpu_node.plugins.module_utils.metrics import jobs, profiling
from ansible_collections.trainyard.gpu_node.plugins.module_utils.metrics.places import resolve
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import Job

PLACES = st.tuples(st.integers(0, 3), st.none() | st.integers(0, 2))
JOBS = st.sampled_from(("1", "2", "3"))


@pytest.fixture
def host(tmp_path):
    return Host(str(tmp_path))


def files(host):
    folder = host.path(jobs.FOLDER)
    return {name: open(os.path.join(folder, name)).read() for name in sorted(os.listdir(folder))}


def test_the_files_are_those_that_the_exporter_reads(host):
    jobs.keep(host, "4711", [(0, None), (2, 1)])
    jobs.keep(host, "4712", [(0, None)])
    assert files(host) == {"0": "4711\n4712\n", "2.1": "4711\n"}
    assert stat.S_IMODE(os.stat(host.path(jobs.FOLDER + "/0")).st_mode) == 0o644  # it may run as another user
    jobs.keep(host, "4711", ())
    assert files(host) == {"0": "4712\n"} and jobs.read(host) == {(0, None): ("4712",)}
    jobs.keep(host, "4712", ())
    assert files(host) == {} == jobs.read(host)


@given(st.lists(st.tuples(JOBS, st.frozensets(PLACES)), max_size=8))
def test_after_any_story_each_job_has_what_it_was_given_last(story):
    known = {}
    for job, places in story:
        known = jobs.with_job(known, job, places)
        known = {place: names for place, names in known.items() if names}
    for job in {name for name, dummy in story}:
        last = [places for name, places in story if name == job][-1]
        assert {place for place, names in known.items() if job in names} == set(last)
    assert all(len(set(names)) == len(names) for names in known.values())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gpu0", "1\n"),
        ("0.1.2", "1\n"),
        ("0", "1; rm -rf /\n"),
        ("0", '"} 1\ngpu_node_gpus{x="\n'),
        ("0", "\x00\x1b[31m\n"),
        ("99999", "1\n"),
        ("0", "123456789012345\n"),
    ],
)
def test_what_prolog_did_not_write_says_nothing(host, name, text):
    host.write(jobs.FOLDER + "/" + name, text)
    assert jobs.read(host) == {}


def test_a_file_without_end_does_not_fill_the_metrics():
    assert len(jobs.parse("".join("{0}\n".format(number) for number in range(100000)))) == jobs.MOST


def test_array_jobs_and_het_jobs_are_jobs_and_an_odd_name_is_a_bug_of_ours(host):
    assert jobs.parse("12_3\n12+1\n 7 \n7\n") == ("12_3", "12+1", "7")
    with pytest.raises(NodeError):
        jobs.keep(host, "../../etc/passwd", [(0, None)])


# By the numbers of the metrics ------------------------------------------------------------------------

KNOWN = (
    Identity(0, "GPU-a", "0000:01:00.0", None, 3),
    Identity(1, "GPU-b", "0000:02:00.0", None, 0),
)
INSTANCES = {
    0: {"/dev/nvidia-caps/nvidia-cap12": 1, "/dev/nvidia-caps/nvidia-cap13": 1, "/dev/nvidia-caps/nvidia-cap21": 2}
}
FILES = (
    ("/dev/nvidia3",),
    ("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"),
    ("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap21"),
    ("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap21"),
    ("/dev/nvidia7",),
    ("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap99"),
    (),
)


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ((), ()),
        (("0",), ((0, None),)),
        (("1",), ((1, 1),)),
        (("2", "1"), ((1, 2), (1, 1))),
        (("0", "2"), ((0, None), (1, 2))),
        (("3",), ()),  # two instances at one position
        (("4",), ()),  # the driver has none of that number
        (("5",), ()),  # no instance has that file
        (("6",), ()),
        (("7",), ()),
        (("x",), ()),
        (("0", "4"), ()),  # all, or none
    ],
)
def test_positions_of_slurm_are_gpus_and_instances(positions, expected):
    assert resolve(positions, FILES, KNOWN, lambda minor: INSTANCES.get(minor, {})) == expected


# Profilers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("profiling", ""), True),
        (("", "h100&profiling"), True),
        (("my profiling, please", ""), True),
        (("no-profiling", ""), False),
        (("profiling2", ""), False),
        (("", ""), False),
    ],
)
def test_a_job_asks_by_a_word(texts, expected):
    job = Job(1, 1000, comment=texts[0], features=texts[1])
    assert job.says("profiling") is expected
    assert not job.says("")


@pytest.fixture
def dcgmi(tmp_path, monkeypatch):
    """Notes how it is called; ``status`` is what it ends with."""
    program, noted = tmp_path / "bin/dcgmi", tmp_path / "called"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@" >> {0}\nexit $(cat {0}.status 2>/dev/null || echo 0)\n'.format(noted))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent) + os.pathsep + os.environ["PATH"])

    def calls():
        return noted.read_text().splitlines() if noted.exists() else []

    calls.fails = lambda status: (tmp_path / "called.status").write_text(str(status))
    return calls


def test_the_counters_come_back_with_the_last_profiler(host, dcgmi):
    profiling.begin(host, 1, True)
    profiling.begin(host, 2, True)
    assert profiling.jobs(host) in ((1, 2), (2, 1))
    assert not profiling.end(host, 1, {2}, True)
    assert dcgmi() == ["profile --pause"] * 2
    assert profiling.end(host, 2, set(), True)
    assert dcgmi()[-1] == "profile --resume" and profiling.jobs(host) == ()
    assert not profiling.end(host, 2, set(), True) and len(dcgmi()) == 3


def test_a_job_that_ended_without_an_epilog_holds_them_no_longer(host, dcgmi):
    profiling.begin(host, 1, True)
    profiling.begin(host, 2, True)
    assert profiling.end(host, 2, {3}, True) and profiling.jobs(host) == ()
    assert dcgmi()[-1] == "profile --resume"


def test_a_resume_that_fails_is_tried_again(host, dcgmi):
    profiling.begin(host, 1, True)
    dcgmi.fails(5)
    with pytest.raises(NodeError, match="status 5"):
        profiling.end(host, 1, set(), True)
    assert profiling.jobs(host) == (1,)
    dcgmi.fails(0)
    assert profiling.end(host, 9, {9}, True) and profiling.jobs(host) == ()


def test_without_dcgm_nothing_is_called(host, dcgmi):
    profiling.begin(host, 1, False)
    assert profiling.jobs(host) == (1,) and profiling.end(host, 1, set(), False)
    assert dcgmi() == []
