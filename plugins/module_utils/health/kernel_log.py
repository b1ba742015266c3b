# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel has said since the boot, and which of its messages are meant.

The kernel's own ring buffer comes first: it is the cheapest (some milliseconds), and while its first record is still
there it holds the whole boot. Where it has wrapped, the journal has the rest, if there is one; else what is left of
the buffer is told as incomplete. In a captured tree the file ``/dev/kmsg`` is what ``cat /dev/kmsg`` had printed.

Users write into this log: paths and process names of theirs stand in messages of the kernel, and programs write to
/dev/kmsg. So a message is found by a :class:`Rule` only: it is of the kernel itself (facility 0), and its pattern
holds from its first character. dmesg(1) is not asked: it prints a line break in a message as it is, so what a user
chose can look like a record.
"""

from __future__ import annotations

import bisect
import errno
import functools
import json
import os
import re
import stat
from typing import Any, Callable, Dict, Iterator, List, Mapping, Match, Optional, Sequence, Tuple

from ..core import processes
from ..core.frozen import frozen, replaced
from ..core.host import Host, be_root
from ..core.resource import NodeError

RING_BUFFER = "/dev/kmsg"
# Bounds of one reading: above what any ring buffer holds (CONFIG_LOG_BUF_SHIFT ends at 25: 32 MiB).
MAX_RECORDS = 200000
MAX_BYTES = 64 * 2**20
# Of the journal, the newest: each is a JSON document of some hundred bytes.
MAX_JOURNAL_RECORDS = 50000
_RECORD_BYTES = 8192  # linux/printk.h, PRINTK_MESSAGE_MAX is 2048; the /dev/kmsg reader wants room for escapes
_COMMAND_SECONDS = 4.0
_FIRST_WORDS = "Linux version "  # init/main.c prints the banner before anything else
_JOURNAL = ("journalctl", "-k", "-b", "-q", "--no-pager", "-o", "json", "-n", str(MAX_JOURNAL_RECORDS))
_JOURNAL_FIELDS = "--output-fields=MESSAGE,PRIORITY,SYSLOG_FACILITY,_SOURCE_MONOTONIC_TIMESTAMP"
_HEAD = re.compile(r"([0-9]{1,6}),([0-9]{1,20}),([0-9]{1,18})(?:,|$)")
_KERNEL = 0  # sys/syslog.h, LOG_KERN; a write to /dev/kmsg gets another one (linux/kernel/printk, devkmsg_write)
# journalctl prints a message with an unprintable byte as a list of numbers, in which no word can be looked for.
_BYTES = ('"MESSAGE":[', '"MESSAGE" : [')  # of systemd today, and before version 247
_ESCAPE = r"\\x([0-9a-f]{2})"


@frozen
class Line:
    """A whole message. ``level`` is 0 (emergency) to 7 (debug), ``facility`` 0 for the kernel itself; None where it is
    not told."""

    seconds: float
    text: str
    level: Optional[int] = None
    facility: Optional[int] = None


@frozen
class Rule:
    """A message that is looked for. ``pattern`` is a regular expression that holds from the first character on.

    ``word`` stands in each such message as it is (plain ASCII, capitals count), which makes the search quick.
    ``sample`` is such a message; a test puts it into messages of others, where no rule may find it. Many messages of
    the kernel begin with the name of a process, 15 characters of a user's choice, and end with a file name of his: so
    behind a short beginning a pattern has no gap that anything fits into.
    """

    word: str
    pattern: str
    sample: str


@frozen
class KernelLog:
    """Records as they were read, oldest first; they are taken apart only when somebody wants them.

    ``complete``: nothing since the boot is missing. ``booted`` is in seconds since 1970.
    """

    source: str
    records: Tuple[str, ...]
    complete: bool
    booted: Optional[float] = None

    @property
    def lines(self) -> Iterator[Line]:
        """Of everybody."""
        parse = _PARSERS[self.source]
        return (line for line in map(parse, self.records) if line is not None)

    def _with(self, words: Sequence[str]) -> List[int]:
        """The places of the records that contain one of the words. A record has a line break before each next one, and
        no word has one, so all records are searched as one text: as a rule most words are nowhere in it."""
        text, begins = self._whole
        found = set()
        for word in words:
            at = text.find(word)
            while at >= 0:
                place = bisect.bisect_right(begins, at) - 1
                found.add(place)
                after = begins[place + 1] if place + 1 < len(begins) else len(text)
                at = text.find(word, after)
        return sorted(found)

    @functools.cached_property
    def _whole(self) -> Tuple[str, List[int]]:
        begins, size = [], 0
        for record in self.records:
            begins.append(size)
            size += len(record) + 1
        return "\n".join(self.records), begins

    @functools.cached_property
    def _parsed(self) -> Dict[int, Optional[Line]]:
        """Records that one of the checks has taken apart."""
        return {}

    def find(self, rules: Sequence[Rule]) -> Iterator[Tuple[int, Match[str], Line]]:
        """(place of the rule, what its pattern found, the message) for each that one of the rules means."""
        parse, words = _PARSERS[self.source], sorted({rule.word for rule in rules})
        words += _BYTES if self.source == "journal" else ()
        for number in self._with(words):
            if number not in self._parsed:
                self._parsed[number] = parse(self.records[number])
            line = self._parsed[number]
            if line is None or line.facility != _KERNEL:
                continue
            for place, rule in enumerate(rules):
                found = re.match(rule.pattern, line.text) if rule.word in line.text else None
                if found is not None:
                    yield place, found, line
                    break


def read(host: Host) -> KernelLog:
    """:raises NodeError: when there is no kernel log that this user may read."""
    captured = host.root != "/"
    try:
        ring: Optional[KernelLog] = _ring_buffer(host)
        refused = ""
    except OSError as error:
        ring, refused = None, "{0}: {1}".format(RING_BUFFER, error.strerror)
    if captured and ring is None:
        raise NodeError("the kernel log", "it cannot be read ({0})".format(refused), "capture /dev/kmsg of the machine")
    if ring is None or not (ring.complete or captured):
        found = _journal(host)
        if found is not None and (ring is None or found.complete or len(found.records) > len(ring.records)):
            ring = found
    if ring is None:
        raise NodeError("the kernel log", "it cannot be read ({0})".format(refused), be_root())
    return replaced(ring, booted=processes.boot_time(host))


def last_seconds(host: Host) -> Optional[float]:
    """The time of the last line, in seconds from the boot; None: nobody can read it, or it is empty."""
    try:
        lines = [line.seconds for line in read(host).lines]
    except NodeError:
        return None
    return lines[-1] if lines else None


# The ring buffer --------------------------------------------------------------------------------------------------


def _ring_buffer(host: Host) -> KernelLog:
    """:raises OSError: when it is not there, or not for this user."""
    handle = os.open(host.path(RING_BUFFER), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        regular = stat.S_ISREG(os.fstat(handle).st_mode)
        records, lost = _of_file(handle) if regular else _of_device(handle)
    finally:
        os.close(handle)
    return KernelLog("ring buffer", tuple(records), not lost and _whole(records))


def _of_device(handle: int) -> Tuple[List[str], bool]:
    """Each read is one record. EPIPE: records were overwritten before they were read."""
    records: List[str] = []
    lost = False
    while len(records) < MAX_RECORDS:
        try:
            piece = os.read(handle, _RECORD_BYTES)
        except BlockingIOError:
            return records, lost
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            lost = True
            continue
        if not piece:
            return records, lost
        records.append(piece.decode("utf-8", "replace"))
    return records, True


def _of_file(handle: int) -> Tuple[List[str], bool]:
    with os.fdopen(os.dup(handle), "rb") as stream:
        text = stream.read(MAX_BYTES + 1)
    records: List[str] = []
    for line in text[:MAX_BYTES].decode("utf-8", "replace").split("\n"):
        if line.startswith(" ") and records:
            records[-1] += "\n" + line  # a record goes on with KEY=value lines
        elif line:
            records.append(line)
    return records[:MAX_RECORDS], len(text) > MAX_BYTES or len(records) > MAX_RECORDS


def _whole(records: List[str]) -> bool:
    """Documentation/ABI/testing/dev-kmsg: the records are counted from 0 at boot."""
    found = _HEAD.match(records[0]) if records else None
    return found is not None and int(found.group(2)) == 0


def _of_ring_buffer(record: str) -> Optional[Line]:
    """``PRIORITY,NUMBER,MICROSECONDS,FLAGS[,...];TEXT``, then lines ``KEY=value`` that begin with a blank."""
    head, semicolon, text = record.partition(";")
    found = _HEAD.match(head)
    if not semicolon or found is None:
        return None
    priority = int(found.group(1))
    text = text.split("\n", 1)[0]
    if "\\x" in text:
        text = re.sub(_ESCAPE, _unescaped, text)
    return Line(int(found.group(3)) / 1e6, text, priority & 7, priority >> 3)


def _unescaped(found: Match[str]) -> str:
    return chr(int(found.group(1), 16))


# The journal ------------------------------------------------------------------------------------------------------


def _journal(host: Host) -> Optional[KernelLog]:
    """None where there is no journal, or nothing of the kernel in it."""
    try:
        done = host.run(_JOURNAL + (_JOURNAL_FIELDS,), _COMMAND_SECONDS)
    except NodeError:
        return None
    records = tuple(line for line in done.stdout.splitlines() if line.startswith("{"))
    if not records:
        return None
    first = _of_journal(records[0])
    whole = first is not None and first.text.startswith(_FIRST_WORDS) and len(records) < MAX_JOURNAL_RECORDS
    # journald says so itself when the ring buffer was faster than it.
    missed = any("kernel messages" in one and "Missed " in one for one in records)
    return KernelLog("journal", records, whole and not missed)


def _of_journal(record: str) -> Optional[Line]:
    try:
        fields: Any = json.loads(record)
        seconds = int(fields.get("_SOURCE_MONOTONIC_TIMESTAMP") or fields["__MONOTONIC_TIMESTAMP"]) / 1e6
        text = fields["MESSAGE"]
        if isinstance(text, list):  # bytes that are no text
            text = bytes(text).decode("utf-8", "replace")
        if not isinstance(text, str):
            return None
        return Line(seconds, text, _number(fields, "PRIORITY"), _number(fields, "SYSLOG_FACILITY"))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None


def _number(fields: Mapping[str, Any], name: str) -> Optional[int]:
    value = fields.get(name)
    return int(value) if value is not None else None


_PARSERS: Dict[str, Callable[[str], Optional[Line]]] = {
    "ring buffer": _of_ring_buffer,
    "journal": _of_journal,
}
