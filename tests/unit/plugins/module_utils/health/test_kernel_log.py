# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel log: the two places it is read from, what is complete, and that no record crashes a reader."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Completed, Host, be_root
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import kernel_log
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples

FIRST = "5,0,0,-;Linux version 6.8.0-1029-azure (buildd@lcy02) #34 SMP\n"


def captured(folder: pathlib.Path, text: str) -> Host:
    (folder / "dev").mkdir()
    (folder / "dev" / "kmsg").write_text(text, encoding="utf-8")
    (folder / "proc").mkdir()
    (folder / "proc" / "stat").write_text("cpu  1 2 3\nbtime 1790000000\n", encoding="ascii")
    return Host(str(folder))


def test_a_captured_log_is_read(tmp_path: pathlib.Path) -> None:
    text = FIRST + "3,1,12500000,-;NVRM: Xid (PCI:0000:0b:00): 79, GPU has fallen off the bus.\n SUBSYSTEM=pci\n"
    log = kernel_log.read(captured(tmp_path, text + "30,2,13000000,-,caller=T1;systemd[1]: tab\\x09and \\x5c\n"))
    assert (log.complete, log.booted, len(log.records)) == (True, 1790000000.0, 3)
    assert list(log.lines)[1:] == [
        kernel_log.Line(12.5, "NVRM: Xid (PCI:0000:0b:00): 79, GPU has fallen off the bus.", 3, 0),
        kernel_log.Line(13.0, "systemd[1]: tab\tand \\", 6, 3),
    ]
    rules = [kernel_log.Rule("no such", "no such", ""), kernel_log.Rule("Xid", "NVRM: (Xid)", "")]
    assert [(place, found.group(1), line.seconds) for place, found, line in log.find(rules)] == [(1, "Xid", 12.5)]


def test_a_buffer_that_has_wrapped_is_not_complete(tmp_path: pathlib.Path) -> None:
    assert not kernel_log.read(captured(tmp_path, "6,4711,99000000,-;eth0: link up\n")).complete


def test_an_empty_log_is_not_complete(tmp_path: pathlib.Path) -> None:
    log = kernel_log.read(captured(tmp_path, ""))
    assert not log.complete and not list(log.lines)


def test_without_a_log_it_says_so(tmp_path: pathlib.Path) -> None:
    with pytest.raises(NodeError, match="the kernel log"):
        kernel_log.read(Host(str(tmp_path)))


def test_the_log_of_this_machine_can_be_read_or_is_refused_in_one_sentence() -> None:
    try:
        log = kernel_log.read(Host())
    except NodeError as error:
        assert error.remedy == be_root()
    else:
        assert all(line.seconds >= 0 for line in log.lines)


class Commands(Host):
    """A machine where /dev/kmsg is not for this user, or has wrapped; the commands are what is tested."""

    def __init__(self, **outputs: str) -> None:
        super().__init__("/")
        self.outputs = outputs

    def path(self, path: str) -> str:
        return self.outputs.get("kmsg", "/nonexistent") if path == kernel_log.RING_BUFFER else path

    def run(self, argv: Any, timeout_seconds: float = 60.0, accept: Any = (0,)) -> Completed:
        if argv[0] not in self.outputs:
            raise NodeError(argv[0], "this program is not installed", "install it")
        return Completed(tuple(argv), 0, self.outputs[argv[0]], "")


def journal(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def test_the_journal_has_what_the_ring_buffer_lost(tmp_path: pathlib.Path) -> None:
    (tmp_path / "kmsg").write_text("6,4711,99000000,-;eth0: link up\n", encoding="ascii")
    banner = {"MESSAGE": "Linux version 6.8.0", "_SOURCE_MONOTONIC_TIMESTAMP": "0", "PRIORITY": "5"}
    binary = {"MESSAGE": [78, 86, 255], "__MONOTONIC_TIMESTAMP": "2500000", "SYSLOG_FACILITY": "0"}
    host = Commands(kmsg=str(tmp_path / "kmsg"), journalctl=journal(banner, binary, {"MESSAGE": None}))
    log = kernel_log.read(host)
    assert (log.source, log.complete) == ("journal", True)
    assert list(log.lines) == [
        kernel_log.Line(0.0, "Linux version 6.8.0", 5, None),
        kernel_log.Line(2.5, "NV\ufffd", None, 0),
    ]


@pytest.mark.parametrize(
    "records",
    [
        [{"MESSAGE": "eth0: link up", "_SOURCE_MONOTONIC_TIMESTAMP": "9000000"}] * 2,
        [
            {"MESSAGE": "Linux version 6", "__MONOTONIC_TIMESTAMP": "1"},
            {"MESSAGE": "Missed 12 kernel messages", "__MONOTONIC_TIMESTAMP": "2"},
        ],
    ],
    ids=["vacuumed", "missed"],
)
def test_a_journal_with_a_gap_is_not_complete(records: Any) -> None:
    log = kernel_log.read(Commands(journalctl=journal(*records)))
    assert (log.source, log.complete) == ("journal", False)


def test_what_is_left_of_the_buffer_is_told_when_there_is_no_journal(tmp_path: pathlib.Path) -> None:
    (tmp_path / "kmsg").write_text("6,4711,99000000,-;eth0: link up\n", encoding="ascii")
    log = kernel_log.read(Commands(kmsg=str(tmp_path / "kmsg")))
    assert (log.source, log.complete, len(log.records)) == ("ring buffer", False, 1)


def test_dmesg_is_not_asked() -> None:
    """It prints a line break in a message as it is: a path that a user chose would be a record."""
    with pytest.raises(NodeError, match="the kernel log: it cannot be read"):
        kernel_log.read(Commands(dmesg="<5>[    0.000000] Linux version 6.8\n"))


def test_nobody_may_read_it() -> None:
    with pytest.raises(NodeError, match="the kernel log: it cannot be read"):
        kernel_log.read(Commands())


RECORDS = st.one_of(
    st.text(),
    st.from_regex(r"[0-9]{0,30},[0-9]{0,30},[0-9]{0,30},-;.*"),
    st.dictionaries(
        st.sampled_from(["MESSAGE", "PRIORITY", "SYSLOG_FACILITY", "_SOURCE_MONOTONIC_TIMESTAMP"]),
        st.one_of(st.none(), st.text(), st.integers(), st.floats(), st.lists(st.integers())),
    ).map(json.dumps),
)


@examples(50)
@given(st.sampled_from(["ring buffer", "journal"]), st.lists(RECORDS))
def test_no_record_crashes_a_reader(source: str, records: Any) -> None:
    for line in kernel_log.KernelLog(source, tuple(records), True).lines:
        assert line.text is not None and line.seconds == line.seconds
