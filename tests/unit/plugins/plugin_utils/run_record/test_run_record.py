# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a run, its lines and its files, without ansible."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.run_record import files, lines, record

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["msg", "results", "failed"]), inner),
    max_leaves=8,
)


def new(*names):
    run = record.Run("id", "site.yml", False, 1.0)
    run.expect(names)
    return run


@pytest.mark.parametrize(
    "result, reason",
    [
        ({"msg": "No space on /opt. Make some."}, "No space on /opt."),
        (
            {"msg": "gpu0001: 4.5 GiB of 8 GiB are free, e.g. too few."},
            "gpu0001: 4.5 GiB of 8 GiB are free, e.g. too few.",
        ),
        ({"msg": "two\nlines\x1b[31m"}, "two lines [31m"),
        ({"msg": "ftp://u:p@h/f and http://h/f?token=p"}, "ftp://[hidden]@h/f and http://h/f?[hidden]"),
        ({"censored": "hidden", "msg": "p"}, "T: it failed, and its result is hidden (no_log)"),
        ({"msg": "items", "results": [{"msg": "ok"}, {"failed": True, "msg": "The third."}]}, "The third."),
        (
            {"results": [{"failed": True, "_ansible_no_log": True, "msg": "p"}]},
            "T: it failed, and its result is hidden (no_log)",
        ),
        ({}, "T: it failed without a word"),
        ({"msg": "Task failed: Action failed: No GPU. Look."}, "No GPU."),
        (
            {
                "msg": "Task failed: Data could not be sent to remote host '127.1.0.3'. Make sure this host can be "
                "reached over ssh: ssh: connect to host 127.1.0.3 port 22: Connection refused"
            },
            "ssh: Connection refused",
        ),
        # What ssh says can come too late for ansible-core.
        (
            {"msg": "Task failed: Data could not be sent to remote host '127.1.0.3'. Make sure this "},
            "Data could not be sent to the host.",
        ),
    ],
)
def test_the_first_sentence_without_secrets(result, reason):
    assert record.why(result, "T") == reason


@given(ANYTHING)
def test_any_result_has_a_reason_of_one_line(result):
    told = record.why(result if isinstance(result, dict) else {"msg": result}, "T")
    assert told and told.isprintable() and len(told) <= 400


EVENTS = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.sampled_from(["begin", "ok", "skip", "failed", "unreachable", "through", "rescued"])
    )
)


@given(EVENTS)
def test_every_host_has_one_status_and_the_list_has_those_that_are_not_done(events):
    run = new("a", "b", "c")
    for now, (name, what) in enumerate(events):
        if what == "begin":
            run.begin(name, "T", now)
        elif what in ("ok", "skip"):
            run.end(name, now, skipped=what == "skip")
        elif what == "through":
            run.went_through(name)
        elif what == "rescued":
            run.rescued(name)
        else:
            run.fail(name, now, what, "why")
        lines.progress(run, now + 60.0, 0.0)
    content = json.loads(json.dumps(run.to_dict()))
    assert sum(content["counts"].values()) == 3
    left = sorted(name for name, one in content["hosts"].items() if one["status"] not in ("ready", "skipped"))
    assert run.not_done == left
    assert all(
        (one["reason"] is None) == (one["status"] not in ("failed", "unreachable")) for one in content["hosts"].values()
    )
    assert lines.summary(run)[-1][1].startswith("3 hosts: ")


def test_the_line_says_how_far_it_is_who_is_slowest_and_who_fails():
    run = new(*"abcdef")
    for name in "abcd":
        run.begin(name, "GPU settings", 10.0)
    run.end("a", 11.0)
    run.went_through("a")
    run.fail("b", 12.0, "failed", "No GPU.")
    run.begin("d", "Job scripts", 40.0)
    assert lines.progress(run, 187.0, 0.0) == (
        "[3:07] 6 hosts: 1 ready, 1 failed, 2 running, 2 waiting; slowest c, 177 s in GPU settings; b: No GPU."
    )


def test_two_hundred_hosts_are_a_few_lines():
    run = new(*["gpu{0:03d}".format(number) for number in range(200)])
    for number in range(200):
        name = "gpu{0:03d}".format(number)
        if number < 30:
            run.fail(name, 1.0, "failed" if number % 3 else "unreachable", "Why {0}.".format(number % 3))
        else:
            run.end(name, 1.0)
            run.went_through(name)
    assert [line for dummy, line in lines.summary(run)] == [
        "failed      gpu001, gpu004, gpu007, gpu010, gpu013 and 5 more: Why 1.",
        "failed      gpu002, gpu005, gpu008, gpu011, gpu014 and 5 more: Why 2.",
        "unreachable gpu000, gpu003, gpu006, gpu009, gpu012 and 5 more: Why 0.",
        "200 hosts: 20 failed, 10 unreachable, 170 ready",
    ]
    many = new(*map(str, range(100)))
    for number in range(100):
        many.fail(str(number), 1.0, "failed", "Why {0}.".format(number))
    assert len(lines.summary(many)) == 22


def test_there_is_no_list_when_nobody_is_left(tmp_path):
    path = tmp_path / "records" / "night.json"
    run = new("a")
    files.write(str(path), run)
    assert (tmp_path / "records" / "night.limit").read_text() == "a\n"
    run.end("a", 1.0)
    run.went_through("a")
    files.write(str(path), run)
    assert [one.name for one in path.parent.iterdir()] == ["night.json"]
    with pytest.raises(OSError):
        files.write("/proc/none/x.json", run)
