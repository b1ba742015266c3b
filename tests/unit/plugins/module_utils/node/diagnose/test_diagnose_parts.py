# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts that hang, die or are too large cost themselves; the archive is whole or not there."""

from __future__ import annotations

import gzip
import os
import re
import stat
import tarfile
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import given_file
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import Misuse, NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.diagnose import (
    archive,
    fit,
    gather,
    look,
    page,
    parts,
    tool,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.diagnose.types import (
    CUT,
    FAILED,
    NONE,
    PARTLY,
    WHOLE,
    Call,
    Collected,
    Commands,
    Context,
    Files,
    Part,
    Told,
)

CONTEXT = Context("gpu07", 1.8e9, 24.0, "0.1.0")


def part(name, function, seconds=10.0, lane=None, **more):
    source = function if isinstance(function, (Files, Commands)) else Call(lambda host, context: function())
    return Part(name, name + ".txt", "a part", lane or name, source, seconds, **more)


def collect(*wanted, seconds=60.0, host=None):
    return {one.part.name: one for one in gather.gather(host or Host(), wanted, CONTEXT, seconds)}


def raises():
    raise OSError(5, "password=Zq7 is wrong")


def test_each_part_costs_only_itself(monkeypatch):
    monkeypatch.setattr(gather, "_CLEAN_SECONDS", 0.0)
    began = time.monotonic()
    found = collect(
        part("hangs", lambda: time.sleep(100), 0.5, "gpu"),
        part("dies", lambda: os._exit(1), lane="gpu"),
        part("raises", raises, lane="gpu"),
        part("none", lambda: None),
        part("text", lambda: Told("token=Zq7\x1b[0m\n")),
        part("document", lambda: {"password": "Zq7", "n": [1]}, lane="gpu"),
    )
    assert time.monotonic() - began < 20
    assert {name: one.status for name, one in found.items()} == {
        "hangs": FAILED,
        "dies": FAILED,
        "raises": FAILED,
        "none": NONE,
        "text": WHOLE,
        "document": WHOLE,
    }
    assert found["hangs"].reason.startswith("it did not end within 0.5 s")
    assert "its process died" in found["dies"].reason
    assert "it failed (OSError" in found["raises"].reason and "Zq7" not in found["raises"].reason
    assert found["text"].text == "token=[hidden]\n"
    assert found["text"].hidden == 1 and found["document"].hidden == 1


def test_the_whole_has_a_limit():
    began = time.monotonic()
    found = collect(
        part("hangs", lambda: time.sleep(100), 90.0, "a"),
        part("later", lambda: Told("x"), lane="a"),
        part("other", lambda: Told("x"), lane="b"),
        seconds=1.0,
    )
    assert time.monotonic() - began < 10
    assert [one.status for one in found.values()] == [FAILED, FAILED, WHOLE]
    assert "time limit of the whole" in found["later"].reason


def test_what_is_declared_as_a_secret_is_hidden_in_logs_as_well(tmp_path, monkeypatch):
    (tmp_path / "etc/gpu_node").mkdir(parents=True)
    (tmp_path / "etc/gpu_node/node.json").write_text(
        '{"a": {"token": "Zq7-one", "url": "https://h/x?se=1&Zq7-two-long"}, "b": "kept"}'
    )
    (tmp_path / "log").write_text("said Zq7-one, se=1&Zq7-two-long and Zq7-three\n")
    monkeypatch.setenv("MY_PASSWORD", "Zq7-three")
    found = collect(
        part("log", Files(("/log",))), part("declaration", Files(("/etc/gpu_node/*.json",))), host=Host(str(tmp_path))
    )
    assert "Zq7" not in found["log"].text + found["declaration"].text
    assert '"b": "kept"' in found["declaration"].text and "said" in found["log"].text


def test_files_are_opened_as_files_only(tmp_path):
    (tmp_path / "secret").write_text("Zq7")
    (tmp_path / "d").mkdir()
    (tmp_path / "d/link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "d/pipe")
    (tmp_path / "d/good").write_text("good\n")
    found = collect(part("files", Files(("/d/*",)), 5.0), host=Host(str(tmp_path)))["files"]
    assert found.status == PARTLY and "good" in found.text and "Zq7" not in found.text
    assert "/d/link: it is a link" in found.reason and "/d/pipe: it is no file" in found.reason


@pytest.mark.parametrize("tail", [True, False])
def test_a_long_file_is_cut_at_a_line(tmp_path, tail):
    (tmp_path / "log").write_text("".join("line {0}\n".format(number) for number in range(10000)))
    found = collect(part("log", Files(("/log",)), most=1000, tail=tail), host=Host(str(tmp_path)))["log"]
    lines = found.text.splitlines()[1:]
    assert found.status == CUT and 900 < len(found.text) < 1050
    assert all(re.fullmatch(r"line \d+", line) for line in lines)
    assert lines[-1 if tail else 0] == ("line 9999" if tail else "line 0")
    assert found.cut_bytes + sum(len(line) + 1 for line in lines) == pytest.approx(98890, abs=20)


def script(folder, name, text):
    path = folder / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def test_a_tool_that_hangs_leaves_what_it_had_said(tmp_path, monkeypatch):
    script(tmp_path, "one", "echo first; echo bad >&2; sleep 100 & wait")
    script(tmp_path, "two", "echo second; env; exit 3")
    monkeypatch.setenv("PATH", "{0}:{1}".format(tmp_path, os.environ["PATH"]))
    monkeypatch.setenv("SECRET_OF_CALLER", "Zq7")
    began = time.monotonic()
    found = collect(part("tools", Commands((("one",), ("two",), ("none",))), 5.0))["tools"]
    assert time.monotonic() - began < 6
    assert found.status == PARTLY and found.reason == "one: it did not end within 1 s"
    for word in ("first", "bad", "second", "ended with status 3"):
        assert word in found.text
    assert "SECRET_OF_CALLER" not in found.text
    assert collect(part("tools", Commands((("none-such",),))))["tools"].status == NONE


@pytest.mark.parametrize("tail", [True, False])
def test_a_tool_that_talks_for_ever_fills_no_memory(tmp_path, tail):
    loud = script(tmp_path, "loud", "yes 'a line'")
    found = tool.run([str(loud)], 1.0, 100000, tail)
    assert 90000 < len(found.text) <= 100000 and found.cut_bytes > 100000
    assert found.reason == "it did not end within 1 s"


@given(pieces=st.lists(st.binary(max_size=20)), most=st.integers(1, 50), tail=st.booleans())
def test_the_first_or_the_last_bytes_are_kept(pieces, most, tail):
    kept, whole = tool.Kept(most, tail), b"".join(pieces)
    for piece in pieces:
        kept.add(piece)
    assert kept.bytes() == (whole[-most:] if tail else whole[:most])
    assert kept.cut_bytes == max(0, len(whole) - most)


def test_the_report_of_nvidia_is_read_as_far_as_it_was_written(tmp_path, monkeypatch):
    """It appends a member of gzip for each piece; its time may be over in the middle of one."""
    monkeypatch.setenv("PATH", "{0}:{1}".format(tmp_path, os.environ["PATH"]))
    monkeypatch.setattr(look, "_BUG_REPORT_SECONDS", 1.0)
    script(
        tmp_path,
        "nvidia-bug-report.sh",
        'echo "pid=4711, name=Zq7, Ch 00000010, x" | gzip -c >> "$2.gz"; echo token=Zq7 | gzip -c >> "$2.gz"\n'
        'echo "$2" > "{0}/where"; touch here\nhead -c 20 "$2.gz" > t; cat t >> "$2.gz"; sleep 100\n'.format(tmp_path),
    )
    found = collect(part("report", lambda: look.bug_report(Host(), CONTEXT), 20.0, named=True))["report"]
    assert found.status == PARTLY and found.reason == "it did not end within 1 s"
    assert found.text.startswith("pid=4711, name=[hidden], Ch 00000010, x\ntoken=[hidden]\n")
    assert not os.path.exists(os.path.dirname((tmp_path / "where").read_text().strip()))


@given(
    pieces=st.lists(st.binary(max_size=50), min_size=1, max_size=4), lost=st.integers(0, 60), most=st.integers(1, 200)
)
def test_members_of_gzip_are_unpacked_whatever_is_missing(pieces, lost, most):
    whole, data = b"".join(pieces), b"".join(map(gzip.compress, pieces))
    found, cut = look.unpacked(data, most)
    assert found == whole[:most] and bool(cut) is (len(whole) > most)
    part_of_it, dummy = look.unpacked(data[: len(data) - min(lost, len(data))], most)
    assert whole.startswith(part_of_it)


# How much there may be ------------------------------------------------------------------------------------------------


LINES = st.lists(st.integers(0, 99999).map("{0}é\n".format), max_size=30).map("".join)


@given(texts=st.lists(st.tuples(LINES, st.booleans()), min_size=1, max_size=8), share=st.integers(0, 110))
def test_all_fits_the_small_stays_whole_and_a_log_keeps_its_end(texts, share):
    most = sum(len(text.encode()) for text, dummy in texts) * share // 100
    found = [
        Collected(Part(str(place), "f", "", "", Files(()), tail=tail), WHOLE, text)
        for place, (text, tail) in enumerate(texts)
    ]
    cut = fit.fit(found, most)
    sizes = [(len(one.text.encode()), len(now.text.encode())) for one, now in zip(found, cut)]
    assert sum(now for dummy, now in sizes) <= most
    for one, now in zip(found, cut):
        assert one.text.endswith(now.text) if one.part.tail else one.text.startswith(now.text)
        assert now.cut_bytes == len(one.text.encode()) - len(now.text.encode())
        assert (now.status == CUT) is (now.cut_bytes > 0)
    if sum(size for size, dummy in sizes) <= most:
        assert list(cut) == found
    # None is cut while one that is larger stays.
    largest_whole = max((before for before, now in sizes if before == now), default=0)
    assert all(before >= largest_whole for before, now in sizes if before != now)


# The page -------------------------------------------------------------------------------------------------------------


HOSTILE = '</pre></script><script>alert(1)</script><img src=x onerror=alert(1)>"\x1b\u202e'


def test_nothing_of_a_node_becomes_markup():
    finding = {"outcome": "fail", "thing": HOSTILE, "reason": HOSTILE, "remedy": HOSTILE}
    verdict = {"outcome": "fail", "profile": HOSTILE, "results": [{"id": HOSTILE, "findings": [finding]}]}
    image = {"versions": {HOSTILE: HOSTILE}, "problems": [dict(finding, rule=HOSTILE)]}
    one = Part("a", "a.txt", "a part", "a", Files(()))
    found = [Collected(one, PARTLY, HOSTILE, HOSTILE), Collected(one, FAILED, "", HOSTILE)]
    text = page.page(found, verdict, image, Context(HOSTILE, 0.0, 1.0, HOSTILE), 1000)
    assert "<img" not in text and "<script" not in text and "&lt;script&gt;" in text
    assert "default-src 'none'" in text.replace("&#x27;", "'") and text.count("<pre>") == text.count("</pre>") == 1


@pytest.mark.parametrize("verdict", [None, [], {}, {"results": 1}, {"results": [1, {"findings": "x"}], "outcome": []}])
def test_a_page_needs_no_verdict(verdict):
    assert "no verdict" in page.page([], verdict, None, CONTEXT, 100)


@pytest.mark.parametrize("image", [None, [], {}, {"versions": []}, {"versions": {}, "problems": [{"thing": "x"}]}])
def test_a_page_needs_no_software(image):
    assert "<h2>Software" not in page.page([], None, image, CONTEXT, 100)


def test_what_a_machine_tells_at_length_does_not_fill_the_page():
    finding = {"outcome": "warn", "thing": "t" * 99999, "reason": "r" * 99999, "remedy": "m" * 99999}
    versions = {"v{0}".format(n): "9" * 99999 for n in range(1000)}
    image = {"versions": versions, "problems": [finding] * 1000}
    text = page.page([], {"results": [{"id": "x", "findings": [finding] * 1000}]}, image, CONTEXT, 100)
    assert len(text) < 600000 and text.count("and 900 more") == 2


def test_the_page_shows_the_end_of_a_log_and_says_so():
    one = Part("a", "a.txt", "a log", "a", Files(()), tail=True)
    text = page.page([Collected(one, CUT, "first\n" + "x" * 50 + "last", cut_bytes=7)], None, None, CONTEXT, 20)
    assert "first" not in text and "last</pre>" in text and "the end of it" in text and "7 B left out" in text


# The archive ----------------------------------------------------------------------------------------------------------


FILES = {"index.html": "page", "a.txt": "a\udc80é"}


def test_it_is_written_for_its_owner_alone(tmp_path):
    path = tmp_path / "x.tar.gz"
    path.write_text("old")
    path.chmod(0o644)
    os.umask(os.umask(0o022))
    assert archive.write(str(path), "top", FILES, 1.8e9) == path.stat().st_size
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and os.listdir(tmp_path) == ["x.tar.gz"]
    with tarfile.open(path) as found:
        assert found.getnames() == ["top/index.html", "top/a.txt"]
        assert {(one.mode, one.uid, one.uname, one.isfile()) for one in found} == {(0o600, 0, "", True)}
        assert found.extractfile("top/a.txt").read() == "a?é".encode()


@pytest.mark.parametrize("kind", ["link", "dangling", "folder", "pipe", "no folder"])
def test_it_goes_nowhere_else(tmp_path, kind):
    path, target = tmp_path / "x.tar.gz", tmp_path / "target"
    target.write_text("old")
    if kind == "link":
        path.symlink_to(target)
    elif kind == "dangling":
        path.symlink_to(tmp_path / "none")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path = tmp_path / "none" / "x.tar.gz"
    before = sorted(os.listdir(tmp_path))
    for act in (given_file.check, lambda one: archive.write(one, "top", FILES, 0.0)):
        with pytest.raises(NodeError) as caught:
            act(str(path))
        assert caught.value.thing == str(path)
    assert sorted(os.listdir(tmp_path)) == before and target.read_text() == "old"


def test_a_link_that_comes_meanwhile_is_not_followed(tmp_path, monkeypatch):
    path, target = tmp_path / "x.tar.gz", tmp_path / "target"
    target.write_text("old")
    add = archive._add

    def adds(*given):
        if not path.is_symlink():
            path.symlink_to(target)
        add(*given)

    monkeypatch.setattr(archive, "_add", adds)
    archive.write(str(path), "top", FILES, 0.0)
    assert target.read_text() == "old" and not path.is_symlink() and tarfile.is_tarfile(path)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_nothing_is_left_of_one_that_could_not_be_written(tmp_path, monkeypatch, error):
    path = tmp_path / "x.tar.gz"
    path.write_text("old")

    def fails(*dummy):
        raise error

    monkeypatch.setattr(archive, "_add", fails)
    with pytest.raises(NodeError if isinstance(error, OSError) else KeyboardInterrupt):
        archive.write(str(path), "top", FILES, 0.0)
    assert os.listdir(tmp_path) == ["x.tar.gz"] and path.read_text() == "old"


# The list -------------------------------------------------------------------------------------------------------------


def test_the_parts_are_told_apart():
    every = parts.every(CONTEXT)
    for name in ("name", "file"):
        assert len({getattr(one, name) for one in every}) == len(every)
    assert all(re.fullmatch(r"[a-z_]+\.(txt|json)", one.file) for one in every)
    # A driver that hangs holds up nothing but what asks it: a lane takes less than the whole may take.
    lanes = {}
    for one in every:
        lanes[one.lane] = lanes.get(one.lane, 0) + one.seconds
    assert max(seconds for lane, seconds in lanes.items() if lane != "gpu") < 420


def test_parts_can_be_left_out():
    every = parts.every(CONTEXT)
    assert {one.name for one in every} - {one.name for one in parts.chosen(every, ["bug_report", "dcgm*"])} == {
        "bug_report",
        "dcgm",
        "dcgm_logs",
    }
    for words, told in ((["bug_reprt"], "there is no such part"), (["*"], "leaves nothing")):
        with pytest.raises(Misuse) as caught:
            parts.chosen(every, words)
        assert told in str(caught.value)
