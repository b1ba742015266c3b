# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record on disk: what is written comes back, what is broken counts as empty, another load has another name."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.daemons import holds_persistence_mode
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings import record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings.types import ClockClaim, Entry

CLAIM = ClockClaim("locked", "fixed", 1410, 1215, True, False)
ENTRY = Entry("boot one", True, ("clocks", "persistence"), CLAIM, False)


def test_what_is_written_is_read_back(tmp_path):
    host = Host(str(tmp_path))
    entries = (("GPU-a", ENTRY), ("GPU-b", Entry("boot one")))
    record.write(host, entries)
    assert record.read(host) == entries


def test_entries_are_merged_and_the_file_goes_with_the_last_one(tmp_path):
    host = Host(str(tmp_path))
    record.write(host, [("GPU-a", ENTRY)])
    record.write(host, [("GPU-b", ENTRY)])
    assert [uuid for uuid, dummy in record.read(host)] == ["GPU-a", "GPU-b"]
    record.write(host, [("GPU-a", None), ("GPU-b", None), ("GPU-c", None)])
    assert not (tmp_path / "var/lib/gpu_node/gpu_settings.json").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        '{"version": 2, "gpus": {}}',
        '{"version": 1}',
        '{"version": 1, "gpus": {"GPU-a": 3, "GPU-b": {}}}',
    ],
)
def test_a_record_of_another_form_counts_as_empty(tmp_path, text):
    host = Host(str(tmp_path))
    host.write(record.RECORD_PATH, text)
    assert record.read(host) == ()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
fields = ["driver_load", "persistence", "changed", "clocks", "ecc_before", "graphics_way", "memory_way", "graphics_mhz"]
values = st.dictionaries(
    st.sampled_from(fields), anything | st.dictionaries(st.sampled_from(fields), anything, max_size=4)
)


@given(values)
def test_no_content_whatever_crashes_the_reader(tmp_path_factory, value):
    host = Host(str(tmp_path_factory.getbasetemp() / "record"))
    host.write(record.RECORD_PATH, json.dumps({"version": 1, "gpus": {"GPU-a": value}}))
    for _dummy, entry in record.read(host):
        assert entry.ecc_before in (None, True, False)
        assert entry.clocks is None or isinstance(entry.clocks.graphics_mhz, (int, type(None)))


def test_a_reboot_a_reload_and_another_driver_have_other_names(tmp_path):
    host = Host(str(tmp_path))
    module = tmp_path / "sys/module/nvidia"
    module.mkdir(parents=True)
    host.write("/proc/sys/kernel/random/boot_id", "one\n")
    names = [record.driver_load(host, "550")]
    assert record.driver_load(host, "550") == names[0]
    names.append(record.driver_load(host, "580"))
    # Kept beside the new folder, so that the file system cannot give its inode number out again.
    module.rename(tmp_path / "old")
    names.append(record.driver_load(host, "550"))
    module.mkdir()
    names.append(record.driver_load(host, "550"))
    host.write("/proc/sys/kernel/random/boot_id", "two\n")
    names.append(record.driver_load(host, "550"))
    assert len(set(names)) == 5


@pytest.mark.parametrize(
    "pid, comm, runs",
    [
        ("12", "nvidia-persiste", True),
        ("12", "bash", False),
        ("13", "nvidia-persiste", False),
        ("x", "", False),
        (None, "", False),
    ],
)
def test_the_persistence_daemon_counts_only_while_its_process_lives(tmp_path, pid, comm, runs):
    host = Host(str(tmp_path))
    host.write("/proc/12/comm", comm + "\n")
    if pid is not None:
        host.write("/run/nvidia-persistenced/nvidia-persistenced.pid", pid + "\n")
    assert holds_persistence_mode(host) is runs


@pytest.mark.parametrize(
    "words, holds",
    [
        ("--user nvidia-persistenced --verbose", True),
        ("--user nvidia-persistenced --no-persistence-mode --verbose", False),
        ("-no-persistence-mode", False),
        ("--persistence-mode=off", False),
        ("--persistence-mode", True),
        ("--no-persistence-mode --persistence-mode", True),
        ("--user --no-persistence-mode-user", True),
    ],
)
@pytest.mark.parametrize("pid_file", [True, False])
def test_the_command_line_of_the_persistence_daemon_decides_whether_it_holds_the_mode(tmp_path, words, holds, pid_file):
    host = Host(str(tmp_path))
    host.write("/proc/12/comm", "nvidia-persiste\n")
    host.write("/proc/12/status", "Name:\tnvidia-persiste\nUid:\t143\t143\t143\t143\n")
    host.write("/proc/12/cmdline", "\0".join(["/usr/bin/nvidia-persistenced", *words.split()]) + "\0")
    if pid_file:
        host.write("/run/nvidia-persistenced/nvidia-persistenced.pid", "12\n")
    assert holds_persistence_mode(host) is holds


def test_a_user_process_is_not_the_persistence_daemon(tmp_path):
    host = Host(str(tmp_path))
    host.write("/proc/12/comm", "nvidia-persiste\n")
    host.write("/proc/12/status", "Name:\tnvidia-persiste\nUid:\t1000\t1000\t1000\t1000\n")
    assert holds_persistence_mode(host) is False
