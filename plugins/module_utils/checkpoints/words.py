# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What azcopy is told, and what it answers. Pure.

azcopy 10.32: flags and messages from its source (cmd/copy.go, cmd/list.go, common/rpc-models.go), and tried.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

from ..core.frozen import frozen
from ..core.resource import NodeError

_JOB = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@frozen
class Hidden:
    """A word of a command line that only azcopy may see; everybody else sees ``shown``."""

    shown: str
    real: str


Word = Union[str, Hidden]
_JSON = ("--output-type=json", "--check-version=false")
_ALWAYS = (*_JSON, "--log-level=WARNING")


def addressed(url: str, query: str) -> Word:
    """A URL as azcopy takes it: with the signature, where there is one."""
    return Hidden(url, "{0}?{1}".format(url, query)) if query else url


def upload(path: str, target: Word, cap: float) -> Tuple[Word, ...]:
    # Overwrite: what lies there without a manifest is of a copy that never ended.
    flags = ("--from-to=LocalBlob", "--blob-type=BlockBlob", "--put-md5", "--check-length", "--overwrite=true")
    return ("copy", path, target, *flags, _cap(cap), *_ALWAYS)


def download(source: Word, path: str, cap: float) -> Tuple[Word, ...]:
    flags = ("--from-to=BlobLocal", "--check-md5=FailIfDifferentOrMissing", "--check-length", "--overwrite=true")
    return ("copy", source, path, *flags, _cap(cap), *_ALWAYS)


def resume(job: str, query: str, cap: float) -> Tuple[Word, ...]:
    flag = "--destination-sas="
    hidden: Tuple[Word, ...] = (Hidden(flag + "REDACTED", flag + query),) if query else ()
    return ("jobs", "resume", job, *hidden, _cap(cap), *_ALWAYS)


def listing(target: Word) -> Tuple[Word, ...]:
    properties = "--properties=LastModifiedTime;ContentMD5"
    # It tells no number of its job, by which its log could be removed.
    return ("list", target, "--location=Blob", "--machine-readable", properties, *_JSON, "--log-level=NONE")


def remove(target: Word, everything: bool = False) -> Tuple[Word, ...]:
    return ("remove", target, "--from-to=BlobTrash", *(("--recursive",) if everything else ()), *_ALWAYS)


def shown(words: Sequence[Word]) -> List[str]:
    return [word.shown if isinstance(word, Hidden) else word for word in words]


def _cap(megabits: float) -> str:
    return "--cap-mbps={0:g}".format(megabits)


@frozen
class Message:
    """``kind``: Init, Progress, EndOfJob, ListObject, Error, Info and others; ``content`` is a mapping or a text."""

    kind: str
    content: Any


def parse(line: str) -> Optional[Message]:
    """None: this line is none of its messages."""
    try:
        outer = json.loads(line)
        kind, text = outer["MessageType"], outer["MessageContent"]
    except (ValueError, KeyError, TypeError):
        return None
    try:
        return Message(str(kind), json.loads(text))
    except (ValueError, TypeError):
        return Message(str(kind), str(text))


def job_of(message: Message) -> str:
    found = message.content.get("JobID") if isinstance(message.content, Mapping) else None
    return str(found) if found and _JOB.fullmatch(str(found)) else ""


def number(message: Message, name: str) -> float:
    """A figure of a progress message, which has them as texts."""
    try:
        return float(message.content.get(name) or 0)
    except (AttributeError, TypeError, ValueError):
        return 0.0


@frozen
class Blob:
    """``path`` below the URL that was listed; ``md5`` in hexadecimal digits, empty where it has none."""

    path: str
    size_bytes: int
    md5: str
    modified: str


def blobs(messages: Sequence[Message]) -> Tuple[Blob, ...]:
    found = []
    for one in messages:
        if one.kind == "ListObject" and isinstance(one.content, dict):
            try:
                size = int(str(one.content.get("ContentLength")).split(" ", maxsplit=1)[0])
            except ValueError:
                continue
            digest, modified = (str(one.content.get(name) or "") for name in ("ContentMD5", "LastModifiedTime"))
            found.append(Blob(str(one.content.get("Path") or ""), size, _hexadecimal(digest), modified))
    return tuple(found)


def _hexadecimal(digest: str) -> str:
    try:
        return base64.b64decode(digest, validate=True).hex()
    except (binascii.Error, ValueError):
        return ""


# By what azcopy or the store says; the first that fits.
_REASONS: Sequence[Tuple[str, str, str, bool]] = (
    (
        r"Authorization\w+Mismatch|AuthorizationFailure|AuthenticationFailed|InvalidAuthentication|RESPONSE 40[13]",
        "the store refuses the credential",
        "see that it is that of this account, not expired, and may read, write and list there",
        False,
    ),
    (r"ContainerNotFound", "there is no such container", "create it, or correct the destination", False),
    (r"BlobNotFound|RESPONSE 404", "it is not in the store", "see 'gpunode checkpoint list'", False),
    (r"(?i)no space left on device|disk quota exceeded|\bENOSPC\b", "the disk is full", "free some space there", False),
    (
        r"(?i)source modified during transfer",
        "it was written to while it was copied",
        "write each checkpoint into files of its own, and copy when they are closed",
        False,
    ),
    (r"(?i)\bmd5\b", "its content differs from its checksum", "copy it again", True),
    (r"ServerBusy|RESPONSE 503|\b503\b", "the store is busy (503)", "lower the ingress limit, or wait", True),
    (
        r"(?i)no such host|connection refused|i/o timeout|connection reset|network is unreachable",
        "the store cannot be reached",
        "see the network, the name and the firewall of the account",
        True,
    ),
    (
        r"(?i)failed to get.*token|failed to perform.*login|oauth|managed identity",
        "there is no token for this identity",
        "see that the machine has it, and that it may use the account",
        False,
    ),
    (
        r"error while loading shared libraries: (?P<what>[^:\s]+)",
        "azcopy does not start, as a library is missing",
        "install it (libsecret-1-0 on Debian and Ubuntu, libsecret on others)",
        False,
    ),
)


@frozen
class Failure:
    """``again``: another try may help."""

    reason: str
    remedy: str
    again: bool = False

    def error(self, thing: str) -> NodeError:
        return NodeError(thing, self.reason, self.remedy)


def failure(text: str, status: int) -> Failure:
    """What went wrong, from all that azcopy said."""
    for pattern, reason, remedy, again in _REASONS:
        found = re.search(pattern, text)
        if found:
            said = found.groupdict().get("what") or _line(text, found.start())
            return Failure("{0} ({1})".format(reason, said) if said else reason, remedy, again)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = lines[-1] if lines else "it said nothing"
    return Failure(
        "azcopy ended with status {0}: {1}".format(status, told[:200]), "see its log in the work folder", True
    )


def _line(text: str, place: int) -> str:
    """The store's own code, else the line of the text that says it."""
    code = re.search(r"ERROR CODE: (\w+)", text)
    if code:
        return code.group(1)
    begin, end = text.rfind("\n", 0, place) + 1, text.find("\n", place)
    line = text[begin : len(text) if end < 0 else end].strip()
    # Of a line of its log, what comes after the time, the job, the file and a code.
    return (re.split(r" : | ERR: (?:\[\S+\] )?", line)[-1] if " ERR: " in line else line)[:160]


def said(messages: Sequence[Message], other: Sequence[str]) -> str:
    """All that it said of why it failed, as one text. Of single files it says nothing: that is in its log."""
    found: List[str] = []
    for one in messages:
        if one.kind in ("Error", "Info"):
            found.append(str(one.content))
    return "\n".join([*other, *found])
