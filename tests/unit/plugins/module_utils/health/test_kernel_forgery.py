# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What users may write into messages of the kernel is never read as a fault, and hides none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import firmware_records, ignored_gpus
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import gpu_xid_lines
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.kernel_messages import MESSAGES
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.kernel_log import KernelLog
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples

ENDS = tuple(dict.fromkeys(end for one in MESSAGES for end in one.ended))  # a forged one would hide a fault
FIRMWARE = firmware_records.RULES[1:]  # the first one is in the table, too
IGNORED = ignored_gpus.RULES[:3]
RULES = (*gpu_xid_lines.RULES, *gpu_xid_lines.SWITCH_RULES, *FIRMWARE, *IGNORED, *(one.rule for one in MESSAGES), *ENDS)
GPU = "0000:0b:00.0"
COMM = 15  # linux/sched.h, TASK_COMM_LEN without the final zero

# Messages of others in which a user chooses a part. The first was seen: a user namespace mounts overlayfs.
FOREIGN = (
    "overlayfs: failed to resolve '/tmp/{0}': -2",
    "overlayfs: failed to resolve '/tmp/\n{0}': -2",
    "process '/home/eve/{0}' started with executable stack",
    "systemd[1]: {0}",
    'audit: type=1400 audit(1:2): apparmor="DENIED" name="{0}"',
    "traps: {0}",
    "cgroup: fork rejected by pids controller in /user.slice/{0}",
    " {0}",
    "\n{0}",
    "[   12.5] {0}",
    "[U] {0}",  # ttyprintk
)
# Those that begin with the name of a process: arch/x86/mm/fault.c, mm/page_alloc.c, mm/oom_kill.c, kernel/signal.c.
NAMED = (
    "{0}[4711]: segfault at 0 ip 0000000000401136 sp 00007ffd5d1f8e60 error 4 in {1}[401000+1000]",
    "{0}[1]: segfault at 0 ip 1 sp 2 error 4 in {1}[1+1]",
    "{0}: page allocation failure: order:4, mode:0x40dc0(GFP_KERNEL), nodemask=(null),cpuset={1},mems_allowed=0",
    "{0} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0 {1}",
    "{0}: potentially unexpected fatal signal 11. {1}",
)


def record(text, priority=3):
    """As /dev/kmsg prints it: what is not printable, and the backslash, as \\xNN (kernel/printk, msg_add_ext_text)."""
    data = text.encode("utf-8", "replace")
    shown = "".join(chr(one) if 32 <= one < 127 and one != 0x5C else "\\x{0:02x}".format(one) for one in data)
    return "{0},7,60000000,-;{1}".format(priority, shown)


def entry(text, **fields):
    """As journalctl -o json prints it: a message with an unprintable byte as a list of numbers."""
    data = text.encode("utf-8", "replace")
    plain = all(32 <= one < 127 or one in b"\t\n" for one in data)
    known = {"MESSAGE": text if plain else list(data), "SYSLOG_FACILITY": "0", "_SOURCE_MONOTONIC_TIMESTAMP": "1"}
    return json.dumps(dict(known, **fields), separators=(",", ":"))


def ring(*texts, priority=3):
    return KernelLog("ring buffer", tuple(record(text, priority) for text in texts), True, 0.0)


def journal(*texts, **fields):
    return KernelLog("journal", tuple(entry(text, **fields) for text in texts), True, 0.0)


def found(log):
    return [RULES[place] for place, dummy, line in log.find(RULES) if line]


@pytest.mark.parametrize("rule", RULES, ids=range(len(RULES)))
def test_a_rule_finds_its_own_sample_wherever_it_is_read(rule):
    assert rule.word in rule.sample
    for log in (ring(rule.sample), journal(rule.sample)):
        assert [one.sample for one in found(log)] == [rule.sample]


@pytest.mark.parametrize("rule", RULES, ids=range(len(RULES)))
def test_no_rule_finds_a_sample_in_a_message_of_others(rule):
    for text in FOREIGN:
        assert found(ring(text.format(rule.sample))) == []
        assert found(journal(text.format(rule.sample))) == []


@pytest.mark.parametrize("rule", RULES, ids=range(len(RULES)))
def test_no_rule_finds_a_sample_whose_beginning_is_the_name_of_a_process(rule):
    for text in NAMED:
        for end in range(COMM + 1):
            for rest in (rule.sample[end:], rule.sample, "x " + rule.sample[end:]):
                assert found(ring(text.format(rule.sample[:end], rest))) == [], (text, end, rest)


# Of any shape that a pattern may take: the beginning of a sample, with other characters in it.
@examples(300)
@given(st.sampled_from(RULES), st.sampled_from(NAMED), st.integers(1, COMM), st.text(max_size=6), st.data())
def test_no_name_of_a_process_makes_a_fault(rule, text, end, more, data):
    name = (rule.sample[:end] + more)[:COMM]
    rest = data.draw(st.integers(0, len(rule.sample)).map(lambda at: rule.sample[at:]))
    assert found(ring(text.format(name, rest))) == []


@pytest.mark.parametrize("rule", RULES, ids=range(len(RULES)))
@pytest.mark.parametrize("facility", [1, 3, 4, 10, 16])
def test_what_a_program_writes_into_the_log_does_not_count(rule, facility):
    """journald takes a leading "name[1]: " off such a message, so its text may begin with what a user chose."""
    assert found(ring(rule.sample, priority=facility << 3 | 3)) == []
    assert found(journal(rule.sample, SYSLOG_FACILITY=str(facility))) == []
    assert found(journal(rule.sample, SYSLOG_FACILITY=None)) == []


@pytest.mark.parametrize("key", ["loop0", "loop12", "fuseblk", "nbd0", "zram0", "0:58", "ram1"])
def test_a_file_system_that_a_user_brought_is_none_of_the_node(key):
    for text in (
        "EXT4-fs error (device {0}): ext4_find_entry:1455: inode #2: comm sh: reading directory lblock 0",
        "XFS ({0}): Metadata CRC error detected at xfs_agf_read_verify+0x10/0x30 [xfs], xfs_agf block 0x1",
        "I/O error, dev {0}, sector 81920 op 0x0:(READ) flags 0x80700",
    ):
        assert found(ring(text.format(key))) == []
        assert len(found(ring(text.format("md127")))) == 1


@pytest.mark.parametrize(
    "why",
    [
        "Log I/O Error (0x2) detected at xlog_ioend_work+0x5b/0x90 [xfs] (fs/xfs/xfs_log.c:1378).  "
        "Shutting down filesystem.",
        "Corruption of in-memory data (0x8) detected at xfs_defer_finish_noroll+0x3/0x9 [xfs] "
        "(fs/xfs/libxfs/xfs_defer.c:533).  Shutting down filesystem.",
        "Metadata I/O Error (0x1) detected at xfs_trans_read_buf_map+0x1/0x2 (fs/xfs/xfs_trans_buf.c:296).  "
        "Shutting down filesystem.",
        "Metadata corruption detected at xfs_inode_buf_verify+0x1/0x2 [xfs], xfs_inode block 0x8",
        "Corruption detected. Unmount and run xfs_repair",
        "Filesystem has been shut down due to log error (0x2).",
    ],
)
def test_a_file_system_of_the_node_that_was_shut_down_is_told(why):
    assert len(found(ring("XFS (nvme0n1p1): " + why))) == 1


XID = "NVRM: Xid (PCI:0000:0b:00): {0}, pid=77, name={1}, {2}"
LINK = "RLW_REMAP {0} XC1 i0 Link -1 (0x00000004 0x00000000)"
NAMES = st.one_of(
    st.text(max_size=COMM),
    st.sampled_from(["x, A Nonfatal", "x, A Fatal", ", A Nonfatal XC", "a): 13, pid=1", "x\nNVRM: Xid (1"]),
    st.sampled_from(["', '", "a, ", "\x01", "\x7f", "\n", "\\", "\u00e4", ";", '"', ": SXid ("]),
).filter(lambda name: len(name.encode("utf-8", "replace")) <= COMM)


@examples(200)
@given(NAMES, st.sampled_from(["Fatal", "Nonfatal"]), st.booleans())
def test_the_name_of_a_process_changes_neither_code_nor_gpu_nor_severity(name, severity, in_journal):
    text = XID.format(145, name, LINK.format(severity))
    log = journal(text) if in_journal else ring(text)
    (event,) = gpu_xid_lines.read_xids(log).events
    assert (event.pci_address, event.code, event.severity, event.unit) == (GPU, 145, severity, "RLW_REMAP")


@examples(100)
@given(NAMES, st.booleans())
def test_the_name_of_a_process_changes_not_what_the_driver_asks_for(name, in_journal):
    text = XID.format(154, name, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)")
    log = journal(text) if in_journal else ring(text)
    assert [(one.pci_address, one.words) for one in gpu_xid_lines.read_xids(log).recoveries] == [
        (GPU, "node reboot required")
    ]


def test_a_forged_load_of_the_driver_settles_nothing():
    log = ring("overlayfs: failed to resolve '/tmp/NVRM: loading NVIDIA UNIX x86_64 Kernel Module': -2")
    assert gpu_xid_lines.read_xids(log).loads == ()
    real = ring("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05")
    assert len(gpu_xid_lines.read_xids(real).loads) == 1
