# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find and change our own line in the text of /etc/fstab; every other byte stays as it is."""

from __future__ import annotations

import re
from typing import Optional, Sequence, Tuple

from ...core.frozen import frozen
from ...facts.scratch.record import canonical, filesystem_form
from .options import MARKER_OPTION


@frozen
class Line:
    """One entry; ``number`` counts from 0, ``text`` is the line without its end. ``uuid``: of its file system.
    ``ours``: it bears our marker, or mounts a file system that we made where we mount it."""

    number: int
    text: str
    source: str
    mount_point: str
    options: Tuple[str, ...]
    uuid: Optional[str]
    ours: bool


def unescape(text: str) -> str:
    """Undo the octal escapes of fstab and mountinfo (\\040 is a blank)."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda match: chr(int(match.group(1), 8)), text)


def entries(text: Optional[str], place: str = "", filesystem_uuids: Sequence[str] = ()) -> Tuple[Line, ...]:
    """``place``: where we mount one of these file systems."""
    found = []
    # Only a line feed ends a line; str.splitlines would also break at form feeds and the like.
    for number, raw in enumerate((text or "").split("\n")):
        fields = raw.split()
        if len(fields) < 2 or fields[0].startswith("#"):
            continue
        mount_point = unescape(fields[1])
        if len(mount_point) > 1:
            mount_point = mount_point.rstrip("/") or "/"
        options = tuple(fields[3].split(",")) if len(fields) > 3 else ()
        source = unescape(fields[0])
        name = next((source[len(one) :] for one in ("UUID=", "/dev/disk/by-uuid/") if source.startswith(one)), None)
        uuid = None if name is None else canonical(name.strip('"'))
        ours = MARKER_OPTION in options or (mount_point == place and uuid in filesystem_uuids)
        found.append(Line(number, raw, source, mount_point, options, uuid, ours))
    return tuple(found)


def wanted(filesystem_uuid: str, mount_point: str, filesystem: str, options: Sequence[str]) -> str:
    place = re.sub(r"[\s\\#]", lambda match: "\\{0:03o}".format(ord(match.group(0))), mount_point)
    return "UUID={0} {1} {2} {3} 0 0".format(filesystem_form(filesystem_uuid), place, filesystem, ",".join(options))


def edit(text: Optional[str], line: Optional[str], mount_point: str, filesystem_uuids: Sequence[str]) -> str:
    """The text with ``line`` as our only line (None: with no line of ours).

    The first line of ours is replaced where it stands, further ones go. A text that does not end with a line
    feed does not get one: our line then is the last one without it, and taking it out gives the old text back.
    """
    lines = (text or "").split("\n")
    ours = [entry.number for entry in entries(text, mount_point, filesystem_uuids) if entry.ours]
    if line is not None and ours:
        lines[ours.pop(0)] = line
        line = None
    for number in reversed(ours):
        del lines[number]
    if line is not None:
        if not text:
            return line + "\n"
        # A text that ends with a line feed has an empty last item here.
        lines.insert(len(lines) - 1 if lines[-1] == "" else len(lines), line)
    return "\n".join(lines)
