# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders that options name and others make."""

from __future__ import annotations

import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import folder_given
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.folder_given import (
    Folder,
    look,
    missing,
    refusal,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host

SCRATCH = ("/mnt/nvme", "/mnt/resource_nvme")
TABLE = """22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:21 / /run rw - tmpfs tmpfs rw
24 22 9:127 / /mnt/resource_nvme rw - xfs /dev/md127 rw
25 24 0:50 / /mnt/resource_nvme/shared rw - nfs4 nas:/x rw
26 22 0:51 / /shared rw - lustre fs:/x rw
"""


@pytest.fixture
def host(tmp_path):
    found = Host(str(tmp_path))
    found.write("/proc/self/mountinfo", TABLE)
    return found


@pytest.mark.parametrize(
    "path, lasts, told",
    [
        ("/shared/journal", True, None),
        ("/var/lib/node_exporter", True, None),
        ("/run/metrics", True, "lies on a tmpfs, which each start of the machine empties"),
        ("/run/metrics", False, None),
        ("/mnt/resource_nvme/journal", True, "lies on the scratch"),
        ("/mnt/resource_nvme/journal", False, None),
        # Not mounted yet, and what is mounted below.
        ("/mnt/nvme/journal", True, "lies on the scratch"),
        ("/mnt/resource_nvme/shared/journal", True, None),
    ],
)
def test_what_has_to_last_lies_where_it_lasts(host, tmp_path, path, lasts, told):
    (tmp_path / path.lstrip("/")).mkdir(parents=True)
    found = refusal("health_gate_journal_folder", look(host, path), lasts, SCRATCH)
    assert found is None if told is None else told in found.reason and path in found.reason
    assert refusal("health_gate_journal_folder", look(host, path), lasts, ()) is None or "tmpfs" in (told or "")


def test_a_link_to_the_scratch_is_seen_through(host, tmp_path):
    (tmp_path / "mnt/resource_nvme/journal").mkdir(parents=True)
    (tmp_path / "journal").symlink_to(tmp_path / "mnt/resource_nvme/journal")
    assert "the scratch" in refusal("o", look(host, "/journal"), True, SCRATCH).reason


def test_a_folder_that_is_missing_or_none_is_noted_in_one_sentence(host, tmp_path):
    (tmp_path / "file").write_text("")
    for path in ("/nowhere", "/file"):
        seen = look(host, path)
        told = "health_gate_textfile: there is no folder {0}; make it, or correct health_gate_textfile."
        assert missing("health_gate_textfile", seen) == (told.format(path),)
        assert refusal("health_gate_textfile", seen) is None
    assert missing("o", Folder("/there")) == missing("o", Folder("/hangs", None)) == ()


def test_a_server_that_does_not_answer_holds_nobody_up_and_is_no_refusal(host, monkeypatch):
    monkeypatch.setattr(folder_given, "_SECONDS", 0.2)
    monkeypatch.setattr(folder_given.os.path, "isdir", lambda path: time.sleep(60))
    assert look(host, "/shared") == Folder("/shared", None)
    assert refusal("o", Folder("/shared", None), True, SCRATCH) is None
