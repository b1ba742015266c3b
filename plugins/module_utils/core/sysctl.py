# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel settings: which of them are limits, so that a larger value is enough, and which files set them at boot."""

from __future__ import annotations

import fnmatch
import re
from typing import List, Optional, Tuple

from .frozen import frozen
from .host import Host

# sysctl.d(5), in the order of precedence. /etc/sysctl.conf is read last, by the link 99-sysctl.conf or by procps.
_FOLDERS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
_LAST = "/etc/sysctl.conf"
# Sizes of tables, queues and buffers. Modes such as vm.zone_reclaim_mode have no order.
_LIMITS = re.compile(
    r"(?:^|.*[._-])max(?:[._-].*|$)|.*[._](?:gc_thresh[123]|[a-z]*slot_table_entries|somaxconn|optmem_max"
    r"|tcp_[rw]mem|udp_mem|netdev_[a-z_]*backlog|netdev_budget[a-z_]*|shm(?:max|all|mni)|msgm(?:ax|nb|ni)"
    r"|nr_(?:open|hugepages)|min_free_kbytes|maxkeys|maxbytes)"
)


@frozen
class Line:
    """A line of a file. ``name`` may be a pattern (``net.ipv4.conf.*.rp_filter``)."""

    name: str
    value: str
    path: str

    def sets(self, name: str) -> bool:
        return fnmatch.fnmatchcase(name, self.name)


def is_limit(name: str) -> bool:
    return _LIMITS.fullmatch(name) is not None


def enough(name: str, found: Optional[str], wanted: str) -> bool:
    """Whether the found value satisfies the wanted one: the same, or a larger limit. In a limit with several numbers
    (``tcp_rmem``) each number counts."""
    if found is None:
        return False
    if found.split() == wanted.split():
        return True
    has, needs = _numbers(found), _numbers(wanted)
    if not is_limit(name) or not has or len(has) != len(needs):
        return False
    return all(one >= other for one, other in zip(has, needs))


def raised(name: str, found: Optional[str], wanted: str) -> str:
    """The value to set: no number of a limit with several numbers becomes smaller."""
    has, needs = _numbers(found or ""), _numbers(wanted)
    if not is_limit(name) or len(needs) < 2 or len(has) != len(needs):
        return wanted
    return " ".join(str(max(one, other)) for one, other in zip(has, needs))


def _numbers(text: str) -> Tuple[int, ...]:
    words = text.split()
    return tuple(int(word) for word in words) if all(re.fullmatch(r"[0-9]{1,20}", word) for word in words) else ()


def lines(host: Host) -> Tuple[Line, ...]:
    """The values that the files set at boot, in the order in which they are read: the last line of a name wins."""
    paths = {}
    for folder in reversed(_FOLDERS):
        paths.update({name: "{0}/{1}".format(folder, name) for name in host.names(folder) if name.endswith(".conf")})
    found: List[Line] = []
    for path in [*(paths[name] for name in sorted(paths)), _LAST]:
        for line in (host.read(path) or "").splitlines():
            name, equals, value = line.strip().lstrip("-").partition("=")
            name = name.strip()
            # sysctl.d(5): by the first separator; with slashes the points are points.
            if re.match(r"[^./]*/", name):
                name = name.replace(".", "\0").replace("/", ".").replace("\0", "/")
            if equals and name and not name.startswith(("#", ";")):
                found.append(Line(name, " ".join(value.split()), path))
    return tuple(found)


def winner(found: Tuple[Line, ...], name: str, own: str) -> Tuple[Optional[Line], bool]:
    """(the line that sets it at boot, our own file left out; whether our file would be read before it)."""
    others = [place for place, one in enumerate(found) if one.sets(name) and one.path != own]
    if not others:
        return None, False
    line = found[others[-1]]
    order = [one.rpartition("/")[2] for one in (line.path, own)]
    return line, line.path == _LAST or order[0] > order[1]
