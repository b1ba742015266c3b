# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask the package manager; nothing is changed."""

from __future__ import annotations

from typing import Any, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..host import Host
from .types import DPKG, RPM, Installed, Package, Packages, records

# dpkg's own list, and where the databases of rpm lie (the second one since Fedora 36 and EL 10).
_DPKG_STATUS = "/var/lib/dpkg/status"
_RPM_DATABASES = ("/var/lib/rpm", "/usr/lib/sysimage/rpm")
_SECONDS = 60.0


def observe(host: Host, wanted: Sequence[Package], declared: Mapping[str, Any], also: Iterable[str] = ()) -> Packages:
    """``declared`` is the section that :func:`remembered` went into; ``also`` names further packages to look at."""
    kept = records(declared)
    names = dict.fromkeys([one.name for one in wanted] + [one.name for one in kept] + list(also))
    manager = _manager(host)
    if manager is None:
        return Packages(records=kept)
    found = _found(host, manager, list(names))
    versions = {one.name: one.version for one in found}
    newer = [
        one.name
        for one in wanted
        if one.name in versions
        and versions[one.name] != one.version
        and _newer(host, manager, versions[one.name], one.version)
    ]
    return Packages(manager, found, tuple(newer), kept)


def _manager(host: Host) -> Optional[str]:
    if host.exists(_DPKG_STATUS):
        return DPKG
    return RPM if any(host.exists(one) for one in _RPM_DATABASES) else None


def _found(host: Host, manager: str, names: List[str]) -> Tuple[Installed, ...]:
    if not names:
        return ()
    if manager == DPKG:
        argv = ["dpkg-query", "--admindir=" + host.path("/var/lib/dpkg"), "--show"]
        argv += ["--showformat=${Package}\\t${Version}\\t${db:Status-Abbrev}\\n", *names]
        return dpkg_answer(host.run(argv, _SECONDS, accept=(0, 1)).stdout)
    # The exit status is the number of names that it does not know.
    argv = [*rpm(host), "-q", "--qf", "%{NAME}\\t%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\\n", *names]
    return rpm_answer(host.run(argv, _SECONDS, accept=tuple(range(len(names) + 1))).stdout)


def dpkg_answer(text: str) -> Tuple[Installed, ...]:
    """The second letter of the state: i is installed, n and c (only its configuration is left) are not. Pure."""
    rows = [line.split("\t") for line in text.splitlines()]
    return tuple(
        Installed(row[0], row[1], whole=row[2][1] == "i" and row[2][2:].strip() == "")
        for row in rows
        if len(row) == 3 and len(row[2]) >= 2 and row[2][1] not in "nc"
    )


def rpm_answer(text: str) -> Tuple[Installed, ...]:
    """Lines without a tab say that a package is not installed. Pure."""
    rows = [line.split("\t") for line in text.splitlines()]
    return tuple(Installed(row[0], row[1]) for row in rows if len(row) == 2)


def rpm(host: Host) -> List[str]:
    return ["rpm"] if host.root == "/" else ["rpm", "--root=" + host.root]


def _newer(host: Host, manager: str, one: str, other: str) -> bool:
    if manager == DPKG:
        return host.run(["dpkg", "--compare-versions", one, "gt", other], _SECONDS, accept=(0, 1)).returncode == 0
    # Both are made of letters, digits and .+:~^_- only, so they cannot end the text.
    done = host.run(["rpm", "--eval", '%{{lua: print(rpm.vercmp("{0}", "{1}"))}}'.format(one, other)], _SECONDS)
    return done.stdout.strip() == "1"
