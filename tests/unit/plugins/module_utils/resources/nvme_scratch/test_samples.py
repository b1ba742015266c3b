# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is blank: image files with zeros, with data where libblkid sees none, and with data anywhere at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import samples

SIZE = 256 * 1024 * 1024
MIDDLE = SIZE // 2
# The first bytes of a block store of SPDK (its super block in the first cluster).
SPDK = b"SPDKBLOB" + bytes(range(64))


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "disk.img"
    with open(str(path), "wb") as stream:
        stream.truncate(SIZE)
    return str(path)


def put(path, offset, data):
    with open(path, "r+b") as stream:
        stream.seek(offset)
        stream.write(data)


def test_zeros_are_blank_and_so_is_what_a_controller_returns_for_deallocated_blocks(image):
    content = samples.look(image, SIZE)
    assert content.other_at is None
    assert content.read_bytes == sum(length for dummy, length in samples.places(SIZE))
    with open(image, "wb") as stream:
        stream.write(b"\xff" * SIZE)
    assert samples.look(image, SIZE).other_at is None


@pytest.mark.parametrize(
    "offset, data, seen",
    [
        (0, SPDK, 0),
        (0, os.urandom(4096), None),
        (4097, b"\x01", 4097),
        (SIZE - 1, b"x", SIZE - 1),
        (SIZE - samples.END_BYTES, b"\xff", SIZE - samples.END_BYTES),
        (MIDDLE, b"data " * 200_000, None),
        # FF among zeros is content, and zeros among FF are.
        (MIDDLE, b"\xff" * 1_000_000, None),
        (0, b"\xff" * samples.END_BYTES, samples.places(SIZE)[1][0]),
    ],
)
def test_whatever_else_is_not(image, offset, data, seen):
    put(image, offset, data)
    found = samples.look(image, SIZE).other_at
    assert found is not None and offset <= found < SIZE and (seen is None or found == seen)


def test_a_device_that_ends_early_or_cannot_be_read_is_an_error_and_not_blank(image):
    with pytest.raises(OSError, match="it ends at byte"):
        samples.look(image, SIZE + (1 << 20))
    with pytest.raises(FileNotFoundError):
        samples.look(image + ".gone", SIZE)


@pytest.mark.skipif(shutil.which("fincore") is None, reason="needs fincore of util-linux")
def test_nothing_is_left_in_the_page_cache():
    # On a disk: the temporary folder may be in memory.
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as stream:
        stream.write(bytes(SIZE))
        stream.flush()
        os.fsync(stream.fileno())
        samples.look(stream.name, SIZE)
        command = ["fincore", "--bytes", "--noheadings", "--output", "RES", stream.name]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    assert int(done.stdout) == 0


@pytest.mark.parametrize("offset", [1 << 20, 128 << 20, 129 << 20, 256 << 20])
def test_the_head_of_a_file_system_is_seen_where_only_marks_were_wiped(tmp_path, offset):
    size = 960 * 10**9
    path = tmp_path / "disk.img"
    with open(str(path), "wb") as stream:
        stream.truncate(size)
        stream.seek(offset)
        stream.write(b"XFSB")
    assert samples.look(str(path), size).other_at == offset
    samples.clear(str(path), size)
    assert samples.look(str(path), size).other_at is None


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 2**46))
def test_the_places_are_in_order_inside_the_device_and_the_same_each_time(size):
    found = samples.places(size)
    assert found == samples.places(size)
    assert found[0][0] == 0 and found[-1][0] + found[-1][1] == size
    assert all(length > 0 and offset % samples.SAMPLE_BYTES == 0 for offset, length in found)
    assert all(offset + length <= after for (offset, length), (after, dummy) in zip(found, found[1:]))
    if size > 32 << 20:
        assert found[0][1] == samples.END_BYTES and found[-1][1] >= samples.END_BYTES
        assert sum(length for dummy, length in found) < 8 << 20
        # Any run of data of two strata holds at least one sample.
        gaps = [after - offset - length for (offset, length), (after, dummy) in zip(found, found[1:])]
        assert max(gaps) < 2 * size // samples.SAMPLES


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 20), st.sampled_from([0, 0, 0, 255, 7])), max_size=6))
def test_one_value_throughout_is_blank_and_nothing_else(runs):
    data = b"".join(bytes([value]) * length for length, value in runs)
    pieces = [(at, data[at : at + 4]) for at in range(0, len(data), 4)]
    content = samples.judge(pieces)
    assert (content.other_at is None) == (set(data) in (set(), {0}, {255}))
    if content.other_at is not None:
        first = data[0] if data[0] in samples.BLANK else None
        assert content.other_at == next(at for at, value in enumerate(data) if value != first)


def test_what_was_cleared_is_blank_though_data_lie_between_the_samples(image):
    with open(image, "r+b") as stream:
        stream.write(os.urandom(1 << 20) * (SIZE >> 20))
    samples.clear(image, SIZE)
    assert samples.look(image, SIZE).other_at is None
    put(image, 0, b"x")
    assert samples.look(image, SIZE).other_at == 0


def test_the_mark_goes_last_and_only_when_the_rest_is_on_the_medium(image, monkeypatch):
    log = []
    write, sync = os.pwrite, os.fsync
    monkeypatch.setattr(os, "pwrite", lambda handle, data, at: log.append((at, len(data))) or write(handle, data, at))
    monkeypatch.setattr(os, "fsync", lambda handle: log.append("sync") or sync(handle))
    samples.clear(image, SIZE)
    # An md superblock lies at 4 KiB, one of XFS at 0, one of ext4 at 1 KiB.
    assert log[-5:] == ["sync", (4096, 4096), "sync", (0, 4096), "sync"]
    assert min(at for at, dummy in log[:-5]) == 8192
