# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hide the names that users gave their programs, in messages of the kernel and in outputs of NVIDIA's tools. Pure.

The kernel keeps 15 bytes of the name of a process, and any byte but zero may be among them; so a pattern never takes
the first sign behind a name for its end, but the last one that is near enough.
"""

from __future__ import annotations

import re
from typing import Any, Tuple

from ...core.frozen import frozen
from ...core.secrets import HIDDEN

_COMM = r".{1,15}"
_START = r"(^|\] |kernel: "


@frozen
class Rule:
    """``pattern`` has two groups that stay, around the name. ``sample`` is such a line, with the name ``train, py``."""

    pattern: str
    sample: str


RULES: Tuple[Rule, ...] = (
    Rule(
        r"(\bpid='?<?(?:\d+|unknown)>?'?, name=)" + _COMM + r"(,|$)",
        "NVRM: Xid (PCI:0000:0b:00): 31, pid=4711, name=train, py, Ch 00000010, intr 00000000. MMU Fault",
    ),
    Rule(
        r"(\bComm: )" + _COMM + r"( |$)",
        "CPU: 3 PID: 4711 Comm: train, py Tainted: P           OE      6.8.0-1010-azure #11",
    ),
    Rule(r"(\btask )" + _COMM + r"(:\d+)", "INFO: task train, py:4711 blocked for more than 120 seconds."),
    Rule(
        r"(\bprocess \d+ \()" + _COMM + r"(\))",
        "Memory cgroup out of memory: Killed process 4711 (train, py) total-vm:1kB, anon-rss:1kB, UID:1000",
    ),
    Rule(
        r"(\boom-kill:.{0,400},task=)" + _COMM + r"(,pid=)",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,task=train, py,pid=4711,uid=1000",
    ),
    Rule(
        r"((?:^|[\]>] |: )\[ {0,6}\d{1,8}\](?: +-?\d+){6,9} +)" + _COMM + r"($)",
        "[   4711]  1000  4711   123456    7890   456789        0             0 train, py",
    ),
    Rule(
        _START + ")" + _COMM + r"( invoked oom-killer)",
        "train, py invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0",
    ),
    Rule(
        _START + "|traps: )" + _COMM + r"(\[\d+\][: ])",
        "train, py[4711]: segfault at 8 ip 7f2a sp 7ffd error 4",
    ),
    Rule(_START + ")" + _COMM + r"( \(\d+\)[ :])", "train, py (4711): drop_caches: 3"),
    Rule(_START + ")" + _COMM + r"(: page allocation )", "train, py: page allocation failure: order:4, mode:0x40cc0"),
    Rule(
        r"( in )[^\n]{1,256}(\[[0-9a-f]+(?:,[0-9a-f]+)?\+[0-9a-f]+\])",
        "x[1]: segfault at 8 ip 0 sp 0 error 4 in train, py[400000+1000]",
    ),
    Rule(
        r"(\b(?:comm|exe|proctitle|cmd)=\")[^\n]*(\")",
        'audit: type=1326 uid=1000 pid=4711 comm="train, py" exe="/x/train, py" sig=0',
    ),
    Rule(r"(\bprocess [`'])[^\n]{1,4096}(')", "process '/home/x/train, py' started with executable stack"),
    Rule(r"(^warning: [`'])" + _COMM + r"(')", "warning: `train, py' uses 32-bit capabilities (legacy support in use)"),
    # nvidia-smi --query, and its table.
    Rule(r"(^\s+Name\s+:)[^\n]*($)", "            Name                              : train, py"),
    Rule(
        r"(^\|\s+\d+(?:\s+(?:N/A|\d+)){2}\s+\d+\s+[CGM+]+\s+)[^\n]*(\s+(?:\d+MiB|N/A)\s+\|$)",
        "|    0   N/A  N/A            4711      C   train, py                              512MiB |",
    ),
)
_COMPILED = tuple((re.compile(one.pattern), r"\g<1>" + HIDDEN + r"\g<2>") for one in RULES)
# Keys of our own documents under which a name of a user's stands.
_KEYS = ("command", "name", "user")


def without_names(text: str) -> str:
    """The lines of a log or of a tool without names of users' processes."""
    lines = text.split("\n")
    for place, line in enumerate(lines):
        for pattern, kept in _COMPILED:
            line = pattern.sub(kept, line)
        lines[place] = line
    return "\n".join(lines)


def texts_without_names(value: Any) -> Any:
    """The same for each text of a document."""
    if isinstance(value, dict):
        return {key: texts_without_names(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [texts_without_names(one) for one in value]
    return without_names(value) if isinstance(value, str) else value


def unnamed(gpus: Any) -> Any:
    """The document of ``gpu_info`` with its processes as numbers and sizes alone."""
    if isinstance(gpus, list):
        return [unnamed(one) for one in gpus]
    if isinstance(gpus, dict):
        return {key: _nameless(one) if key == "running" else unnamed(one) for key, one in gpus.items()}
    return gpus


def _nameless(running: Any) -> Any:
    if not isinstance(running, list):
        return running
    return [{key: one for key, one in process.items() if key not in _KEYS} for process in running]
