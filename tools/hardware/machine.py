# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of the machine itself: the names to hide, and files that describe driver and system."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import pwd
import re
import socket
from typing import Any, Dict, Iterable, Iterator, List, Sequence, Set

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.child import ChildDied, Report, collect
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError

from .mask import COMMON_HOSTS, COMMON_USERS, VOCABULARY

_FILES = (
    "/proc/driver/nvidia/version",
    "/proc/driver/nvidia/params",
    "/proc/driver/nvidia/gpus/*/information",
    "/proc/driver/nvidia/gpus/*/power",
    "/sys/module/nvidia/version",
)
_SERIALS = (
    "/etc/machine-id",
    "/sys/class/dmi/id/*_serial",
    "/sys/class/dmi/id/*_uuid",
    "/sys/class/dmi/id/*_asset_tag",
    "/sys/class/nvme/*/serial",
    "/sys/class/block/*/wwid",
    "/sys/class/infiniband/*/node_guid",
    "/sys/class/infiniband/*/sys_image_guid",
    "/sys/class/net/*/address",
)
# Of virtual machines and of boards whose maker set none.
_NO_SERIALS = {"", "none", "0", "unknown", "not specified", "to be filled by o.e.m.", "default string", "system"}
_SHORTEST_SERIAL = 5
# Users of a directory service have any of these numbers; in between are nobody and systemd's dynamic users.
_FIRST_USER, _NOT_USERS = 1000, range(61184, 65536)
_PATH = re.compile(r"(?<![\w.~-])/[\w.+@%~-]+(?:/[\w.+@%~-]+)*")
_MOST_PATHS = 5000
_OWNER_SECONDS = 5.0
# Of the kernel, and of the check that reports its lines.
_NAME = r"([0-9A-Za-z][0-9A-Za-z.:_%-]{0,254})"
_SERVER = (
    re.compile(r"\b(?:nfs|lockd): server " + _NAME + r"(?= not | OK\b)"),
    re.compile(r"\"NFS server " + _NAME + r"(?=\")"),
    re.compile(r"\bNFS server " + _NAME + r"(?=: )"),
)


def read(path: str) -> str:
    """The text of a file; empty where it cannot be read."""
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read()
    return ""


def owners(texts: Iterable[str], processes: str = "/proc") -> Set[str]:
    """Names of the users who own a process of this machine, or a file or directory that ``texts`` name. A directory
    service (SSSD, LDAP) need not list its users, but tells the name to a number.

    In a child: a file server or a directory service may be gone, and then what is known by that time counts.
    """
    paths = sorted({path for text in texts for path in _PATH.findall(text)})[:_MOST_PATHS]

    def look(report: Report) -> Iterator[str]:
        numbers: Set[int] = set()
        for pid in os.listdir(processes):
            found = re.search(r"^Uid:\s+(\d+)", read("{0}/{1}/status".format(processes, pid)), re.MULTILINE)
            if pid.isdigit() and found is not None:
                numbers.add(int(found.group(1)))
        yield from names(numbers, report)
        seen: Set[str] = set()
        for path in paths:
            while path not in seen and path != "/":
                seen.add(path)
                report("owner of " + path)
                with contextlib.suppress(OSError):
                    number = os.lstat(path).st_uid
                    if number not in numbers:
                        numbers.add(number)
                        yield from names({number}, report)
                path = os.path.dirname(path)

    def names(numbers: Set[int], report: Report) -> Iterator[str]:
        for number in sorted(numbers):
            if number >= _FIRST_USER and number not in _NOT_USERS:
                report("name of user {0}".format(number))
                with contextlib.suppress(KeyError):
                    yield pwd.getpwuid(number).pw_name

    try:
        told = set(collect(look, _OWNER_SECONDS).items)
    except ChildDied as died:
        told = set(died.items)
    except (NodeError, OSError):
        return set()
    # A service may qualify a name: alice@site.example, SITE\\alice.
    return told | {part for one in told for part in re.split(r"[@\\]", one)}


def known(gpus: Sequence[Dict[str, Any]], seen: Iterable[str] = ()) -> Dict[str, List[str]]:
    """What names this machine, by kind. ``gpus``: documents of ``gpu_info``, whose products stay readable; ``seen``:
    names of users beside the local ones."""
    words = VOCABULARY.union(*(re.split(r"\W+", str(gpu.get("name") or "").lower()) for gpu in gpus))
    hosts: Set[str] = set()
    for name in (os.uname().nodename, socket.gethostname()):
        hosts.update((name, name.split(".")[0]))
    if "." in os.uname().nodename:
        hosts.add(os.uname().nodename.partition(".")[2])
    users = {one.pw_name for one in pwd.getpwall() if 1000 <= one.pw_uid < 60000}.union(seen)
    users.update(os.environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER"))
    serials = {read(path).strip() for pattern in _SERIALS for path in glob.glob(pattern)}
    for gpu in gpus:
        serials.update(str(gpu.get(name) or "") for name in ("serial", "uuid"))
        serials.update(str(value) for name, value in (gpu.get("board") or {}).items() if "serial" in name and value)
    return {
        "host": sorted(name for name in hosts if name.lower() not in COMMON_HOSTS | words),
        "user": sorted(name for name in users if name and name not in COMMON_USERS and name.lower() not in words),
        "serial": sorted(
            one
            for one in serials
            if len(one) >= _SHORTEST_SERIAL and one.lower() not in _NO_SERIALS and set(one) != {"0"}
        ),
    }


def of_site(texts: Iterable[str], declared: str) -> Dict[str, List[str]]:
    """What names the site of this machine, by kind: the NFS servers in ``texts``, and the owners and reasons in the
    section ``health`` of the declaration, whose path is ``declared``."""
    try:
        section = json.loads(read(declared) or "{}").get("health", {})
        entries = [one for name in ("silences", "overrules") for one in section.get(name, [])]
        people = {name: {str(one[name]) for one in entries if one.get(name)} for name in ("owner", "reason")}
    except (ValueError, AttributeError, TypeError):
        people = {}
    servers = {name for text in texts for form in _SERVER for name in form.findall(text)}
    # A shorter one may be a word that means something else elsewhere; where JSON names it, the mask finds it.
    longer = {name: sorted(one for one in values if len(one) >= _SHORTEST_SERIAL) for name, values in people.items()}
    return {"server": sorted(servers), **longer}


def description() -> str:
    """Kernel, distribution and processor, and what the driver says of itself in /proc."""
    system = dict(line.split("=", 1) for line in read("/etc/os-release").splitlines() if "=" in line)
    processors = [line.partition(":")[2].strip() for line in read("/proc/cpuinfo").splitlines() if "model name" in line]
    lines = [
        "system {0}".format(system.get("PRETTY_NAME", "?").strip('"')),
        "kernel {0} {1}".format(os.uname().release, os.uname().machine),
        "processors {0} x {1}".format(os.cpu_count(), processors[0] if processors else "?"),
    ]
    for pattern in _FILES:
        for path in sorted(glob.glob(pattern)):
            lines += ["", "## " + path, read(path).rstrip()]
    return "\n".join(lines) + "\n"
