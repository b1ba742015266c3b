# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""State files: content of any form, files of any kind, writers that lose power between any two system calls."""

from __future__ import annotations

import contextlib
import enum
import functools
import json
import os
import signal
import socket
from typing import Dict, Optional, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import frozen, plain
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.state_file import StateFile, document

IS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
PATH = "/state/thing.json"
INVALID = "its content is invalid"


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@frozen
class Leaf:
    word: str
    number: float = 0.0


@frozen
class Tree:
    count: int
    right: bool
    name: Optional[str]
    color: Color
    pair: Tuple[int, float]
    leaves: Tuple[Leaf, ...]
    named: Dict[str, Leaf]
    added: str = ""


FILE = StateFile("thing", PATH, functools.partial(document, Tree, optional=("added",)), 2, most_bytes=10000)
ONE = Tree(3, True, None, Color.BLUE, (1, 2.5), (Leaf("a"), Leaf("b", 1.0)), {"x": Leaf("c")}, "y")
TWO = Tree(4, False, "new", Color.RED, (0, 0.0), (), {})
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.builds(Leaf, st.text(max_size=5), NUMBERS)
TREES = st.builds(
    Tree,
    st.integers(-(2**60), 2**60),
    st.booleans(),
    st.none() | st.text(max_size=5),
    st.sampled_from(Color),
    st.tuples(st.integers(-9, 9), NUMBERS),
    st.lists(LEAVES, max_size=3).map(tuple),
    st.dictionaries(st.text(max_size=3), LEAVES, max_size=3),
    st.text(max_size=5),
)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def host(tmp_path):
    (tmp_path / "state").mkdir()
    return Host(str(tmp_path))


def put(host, content, mode=0o600):
    with open(host.path(PATH), "wb") as stream:
        stream.write(content if isinstance(content, bytes) else json.dumps(content).encode())
    os.chmod(host.path(PATH), mode)


def good(**changes):
    return dict(plain(ONE), schema="trainyard.gpu_node/thing/2", **changes)


# Content ------------------------------------------------------------------------------------------------------


@given(TREES)
def test_what_is_written_is_read(tree):
    assert FILE.parse(FILE.text(tree)) == (tree, "")


def test_the_file_is_one_line_with_its_schema_and_only_its_user_can_read_it(host):
    assert FILE.write(host, ONE) == "" and FILE.read(host) == (ONE, "")
    text = host.read(PATH)
    assert text.count("\n") == 1 and json.loads(text) == good()
    assert os.stat(host.path(PATH)).st_mode & 0o777 == 0o600


def test_a_file_cut_at_any_byte_is_damaged():
    text = FILE.text(ONE)
    for length in range(len(text) - 1):
        assert FILE.parse(text[:length]) == (None, INVALID)


@given(st.binary(max_size=200))
def test_random_bytes_are_damaged(content):
    assert FILE.parse(content.decode("utf-8", "surrogateescape")) == (None, INVALID)


@given(ANY)
def test_another_document_is_damaged(content):
    assert FILE.parse(json.dumps(content))[0] is None


@given(st.sampled_from(sorted(plain(ONE))), ANY)
def test_a_value_of_any_type_is_damaged_or_read_with_its_type(name, value):
    found, damage = FILE.parse(json.dumps(dict(good(), **{name: value})))
    assert (found is None) == bool(damage)
    if found is not None:
        assert FILE.parse(FILE.text(found)) == (found, "")


@pytest.mark.parametrize("field", sorted(set(plain(ONE)) - {"added"}))
def test_a_missing_field_is_damage_unless_it_is_optional(field):
    content = good()
    del content[field]
    assert FILE.parse(json.dumps(content)) == (None, INVALID)
    content = good()
    del content["added"]
    assert FILE.parse(json.dumps(content))[0].added == ""


def test_a_field_of_a_later_release_is_ignored():
    assert FILE.parse(json.dumps(good(later=[1]))) == (ONE, "")


@pytest.mark.parametrize("field", ["count", "right", "pair", "named"])
@pytest.mark.parametrize(
    "value",
    [
        "NaN",
        "Infinity",
        "1e999",
        "9" * 5000,
        "9" * 21,
        "true",
        "1",
        "1.0",
        '"x"',
        "null",
        "[]",
        "{}",
        "[1, 2]",
        "[1, NaN]",
        "[1, 1e999]",
    ],
)
def test_only_a_value_of_the_right_type_is_read(field, value):
    allowed = {"count": ["1"], "right": ["true"], "pair": ["[1, 2]"], "named": ["{}"]}
    text = json.dumps(good()).replace(json.dumps({field: plain(ONE)[field]})[1:-1], '"{0}": {1}'.format(field, value))
    assert value in text
    assert (FILE.parse(text)[0] is not None) == (value in allowed[field])


@pytest.mark.parametrize("text", ["[" * 9000, '{"a":' * 2000, "9" * 9000, '{"schema": 9' + "9" * 9000 + "}"])
def test_deep_nesting_and_long_numbers_are_damage(text):
    signal.alarm(10)
    try:
        assert FILE.parse(text) == (None, INVALID)
    finally:
        signal.alarm(0)


# Schema -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema, reason",
    [
        ("trainyard.gpu_node/thing/3", "a newer release wrote it"),
        ("trainyard.gpu_node/thing/1", INVALID),
        ("trainyard.gpu_node/thing/x", INVALID),
        ("trainyard.gpu_node/thing/" + "9" * 5000, INVALID),
        ("trainyard.gpu_node/thin/2", "it is a file of another kind"),
        ("", "it is a file of another kind"),
        (None, INVALID),
        ([], INVALID),
    ],
)
def test_a_file_with_another_schema_is_not_read(schema, reason):
    assert FILE.parse(json.dumps(dict(good(), schema=schema))) == (None, reason)


@pytest.mark.parametrize(
    "version, damage", [({}, ""), ({"version": 1}, ""), ({"version": 2}, "a newer release wrote it")]
)
def test_a_file_without_schema_is_of_the_first_form(version, damage):
    first = StateFile("thing", PATH, functools.partial(document, Leaf))
    found, reason = first.parse(json.dumps(dict(version, word="a", number=1)))
    assert (found, reason) == (None if damage else Leaf("a", 1.0), damage)
    # A field of the content has that name as well.
    assert StateFile("dict", PATH, dict).parse('{"version": "0.1.0"}') == ({"version": "0.1.0"}, "")


# The file -----------------------------------------------------------------------------------------------------


def listen(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)


KINDS = {
    "link": lambda path: os.symlink(path + ".target", path),
    "loop": lambda path: os.symlink(path, path),
    "FIFO": os.mkfifo,
    "directory": os.mkdir,
    "socket": listen,
}


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_regular_file_is_read_and_a_writer_replaces_anything_else(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    host = Host(".")
    os.mkdir("state")
    target = host.path(PATH) + ".target"
    with open(target, "w", encoding="utf-8") as stream:
        stream.write(FILE.text(TWO))
    KINDS[kind](host.path(PATH))
    signal.alarm(10)
    try:
        found, damage = FILE.read(host)
        assert found is None and damage
        assert FILE.write(host, ONE) == "{0}: {1}; the damaged file is moved to {0}.damaged".format(PATH, damage)
    finally:
        signal.alarm(0)
    assert FILE.read(host) == (ONE, "") and os.path.lexists(host.path(PATH) + ".damaged")
    with open(target, encoding="utf-8") as stream:
        assert stream.read() == FILE.text(TWO)


@pytest.mark.parametrize("mode", [0o602, 0o666, 0o777])
def test_a_file_that_others_can_write_to_is_damaged(host, mode):
    put(host, good(), mode)
    assert "other users can write to it" in FILE.read(host)[1]
    assert FILE.write(host, TWO) and FILE.read(host) == (TWO, "")
    assert os.stat(host.path(PATH)).st_mode & 0o777 == 0o600


@IS_ROOT
@pytest.mark.parametrize("owner, group, mode, damaged", [(1001, 0, 0o600, 1), (0, 1001, 0o660, 1), (0, 0, 0o660, 0)])
def test_a_file_of_another_user_is_damaged(host, owner, group, mode, damaged):
    put(host, good(), mode)
    os.chown(host.path(PATH), owner, group)
    assert (FILE.read(host)[0] is None) == bool(damaged)
    shared = StateFile("thing", PATH, functools.partial(document, Tree), 2, private=False)
    assert shared.read(host) == (ONE, "")
    FILE.write(host, TWO)
    found = os.stat(host.path(PATH))
    assert (found.st_uid, found.st_mode & 0o777) == (0, 0o600)


def test_a_missing_file_is_no_damage(host):
    assert FILE.read(host) == (None, "") == FILE.recover(host)
    assert FILE.read(Host(host.root + "/nowhere")) == (None, "")


def test_a_large_file_is_neither_read_nor_written(host):
    large = Tree(1, True, "x" * 10000, Color.RED, (1, 1.0), (), {})
    put(host, dict(plain(large), schema="trainyard.gpu_node/thing/2"))
    assert FILE.read(host) == (None, "it is larger than 10000 bytes")
    os.unlink(host.path(PATH))
    with pytest.raises(NodeError, match="larger than 10000 bytes"):
        FILE.write(host, large)
    with pytest.raises(NodeError, match="its new content is invalid"):
        FILE.write(host, Leaf("a", float("nan")))
    assert os.listdir(host.root + "/state") == []


# Damaged files ------------------------------------------------------------------------------------------------


def test_a_damaged_file_is_kept_and_only_the_first_one(host):
    put(host, b"first")
    assert FILE.read(host) == (None, INVALID) and host.read(PATH) == "first"  # a reader leaves it
    note = "{0}: {1}; the damaged file is moved to {0}.damaged".format(PATH, INVALID)
    assert FILE.recover(host) == (None, note) and FILE.recover(host) == (None, "")
    assert FILE.write(host, ONE) == ""
    put(host, b"second")
    assert FILE.write(host, ONE) == "{0}: {1}; the damaged file is removed, as {0}.damaged exists".format(PATH, INVALID)
    assert host.read(PATH + ".damaged") == "first" and FILE.read(host) == (ONE, "")
    FILE.remove(host)
    assert not os.path.exists(host.root + "/state")


def test_a_damaged_file_is_kept_up_to_a_size(host):
    put(host, b"x" * (3 << 20))
    FILE.write(host, ONE)
    assert os.stat(host.path(PATH) + ".damaged").st_size == 1 << 20


def test_the_file_of_a_newer_release_is_kept(host):
    put(host, dict(good(), schema="trainyard.gpu_node/thing/3"))
    newer = host.read(PATH)
    assert "a newer release wrote it; the damaged file is moved to" in FILE.write(host, ONE)
    assert host.read(PATH + ".damaged") == newer


def test_a_damaged_directory_that_cannot_be_moved_is_reported(host):
    for name in (PATH, PATH + ".damaged"):
        os.makedirs(host.path(name) + "/x")
    assert "cannot be moved" in FILE.recover(host)[1]
    with pytest.raises(NodeError, match="could not be written"):
        FILE.write(host, ONE)


def test_files_of_one_kind_have_names(host):
    jobs = StateFile("job", "/state/{0}/{1}.json", functools.partial(document, Leaf))
    jobs.write(host, Leaf("a"), "x", 7)
    assert jobs.at("x", 7) == "/state/x/7.json" and jobs.read(host, "x", 7) == (Leaf("a"), "")
    assert jobs.read(host, "x", 8) == (None, "")


# Power cuts ---------------------------------------------------------------------------------------------------

CALLS = "open write fstat lstat stat fchmod fchown fsync listdir mkdir rename replace unlink truncate getxattr".split()


class PowerCut(BaseException):
    """The process is gone: nothing after this call happens, no cleanup either."""


class Power:
    """Fails at a call of the system and at each later one; logs those before."""

    def __init__(self, monkeypatch, at):
        self.left, self.log, self.handles = at, [], []
        for name in CALLS:
            monkeypatch.setattr(os, name, functools.partial(self.call, name, getattr(os, name)))
        fdopen = os.fdopen

        def opened(*given, **more):
            stream = fdopen(*given, **more)
            return Stream(self, stream) if "w" in given[1] else stream

        monkeypatch.setattr(os, "fdopen", opened)

    def call(self, name, real, *given, **more):
        self.left -= 1
        if self.left < 0:
            raise PowerCut
        self.log.append(name)
        done = real(*given, **more)
        self.handles += [done] if name == "open" else []
        return done

    def close(self):
        """As the kernel does with the files of a dead process, and their locks."""
        for handle in self.handles:
            with contextlib.suppress(OSError):
                os.close(handle)


class Stream:
    """A file that is written in two halves."""

    def __init__(self, power, stream):
        self.power, self.stream, self.fileno = power, stream, stream.fileno

    def __enter__(self):
        return self

    def __exit__(self, *dummy):
        os.close(os.dup(self.fileno()))
        self.stream.close()

    def write(self, content):
        half = len(content) // 2
        for piece in (content[:half], content[half:]):
            self.power.call("write", self.stream.write, piece)
            self.stream.flush()

    def flush(self):
        self.stream.flush()


@pytest.mark.parametrize("before", [None, "old", "damaged", "both"])
def test_a_power_cut_at_any_call_leaves_the_old_or_the_new_content(host, monkeypatch, before):
    place, cut = host.path(PATH), 0
    while True:
        for name in os.listdir(host.root + "/state"):
            os.unlink(host.root + "/state/" + name)
        if before == "old":
            put(host, good())
        elif before is not None:
            put(host, b"damaged")
        if before == "both":
            with open(place + ".damaged", "w", encoding="utf-8") as stream:
                stream.write("first")
        with monkeypatch.context() as patch:
            power = Power(patch, cut)
            try:
                FILE.write(host, TWO)
                done = True
            except PowerCut:
                done = False
        power.close()
        found, damage = FILE.read(host)
        if before == "old":
            assert found in (ONE, TWO)
        else:
            assert found == TWO or not damage or host.read(PATH) == "damaged"
        if before in ("damaged", "both"):
            first = "damaged" if before == "damaged" else "first"
            assert host.read(PATH + ".damaged") == first or host.read(PATH) == "damaged"
        if done:
            break
        FILE.write(host, TWO)  # removes what the dead writer left
        rest = {"thing.json"} | ({"thing.json.damaged"} if before in ("damaged", "both") else set())
        assert FILE.read(host) == (TWO, "") and set(os.listdir(host.root + "/state")) == rest
        cut += 1
    assert cut > 8 and found == TWO
    # The content is on the disk before the name, and the name before the writer says so.
    written = power.log.index("write")
    assert power.log.index("fsync", written) < power.log.index("replace", written) < len(power.log) - 1
    assert power.log[-1] == "fsync"


@pytest.mark.parametrize("content", [good(), b"damaged"])
def test_a_full_file_system_leaves_the_old_content(host, monkeypatch, content):
    put(host, content)
    monkeypatch.setattr(os, "fsync", functools.partial(full, 28))
    with pytest.raises(NodeError, match="free some space"):
        FILE.write(host, TWO)
    assert (FILE.read(host)[0] or host.read(PATH + ".damaged")) == (ONE if content != b"damaged" else "damaged")


def full(number, *dummy):
    raise OSError(number, os.strerror(number))
