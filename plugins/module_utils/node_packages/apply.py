# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one step on packages."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import List, Sequence

from .. import artefact
from ..host import Host
from ..resource import Action, NodeError
from .observe import rpm
from .types import DPKG, FOLDER, FetchPackage, InstallPackages, Package, RemovePackages

# Unattended upgrades may hold the lock for minutes; a package manager must not be ended in the middle.
LOCK_SECONDS = 180.0
_INSTALL_SECONDS = 1800.0
# No questions. needrestart would restart services behind the packages it thinks of, slurmd among them.
_QUIET = ["env", "DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1"]
# A configuration file that somebody changed stays as it is: the package's new one lies beside it as .dpkg-dist.
_CONFIGURATION = ("--force-confdef", "--force-confold")


def apply(host: Host, action: Action, lock_seconds: float = LOCK_SECONDS) -> bool:
    """Whether this was a step of ours, so that a resource can go through its kinds of steps one after the other.

    :raises NodeError: the file is not what was asked for, or the package manager says no.
    """
    if isinstance(action, FetchPackage):
        artefact.fetch(host, action.package.file, FOLDER)
        _check(host, action.package, action.manager)
    elif isinstance(action, InstallPackages):
        if action.manager == DPKG:
            _wait_for_lock(host, lock_seconds)
            _install_debs(host, action.packages, lock_seconds)
        else:
            _install_rpms(host, action.packages)
        for one in action.packages:
            artefact.discard(host, one.file, FOLDER)
        with contextlib.suppress(OSError):  # others keep what they know of this node in it
            os.rmdir(host.path(os.path.dirname(FOLDER)))
    elif isinstance(action, RemovePackages):
        if action.manager == DPKG:
            _wait_for_lock(host, lock_seconds)
            # Not apt-get, which would take along what depends on them; dpkg refuses then and says why.
            # Asked first without doing it, since a refusal would leave them marked for removal.
            host.run([*_QUIET, *_dpkg(host), "--no-act", "--purge", *action.names])
            host.run([*_QUIET, *_dpkg(host), "--purge", *action.names], _INSTALL_SECONDS)
        else:
            host.run([*rpm(host), "-e", *action.names], _INSTALL_SECONDS)
    else:
        return False
    return True


def _check(host: Host, package: Package, manager: str) -> None:
    """The file says itself what it is; told before the package manager is called."""
    path = host.path(package.path)
    try:
        if manager == DPKG:
            done = host.run(["dpkg-deb", "--show", "--showformat=${Package}\\t${Version}", path])
        else:
            query = "%{NAME}\\t%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}"
            done = host.run(["rpm", "-q", "--nosignature", "--qf", query, "-p", path])
    except NodeError as error:
        artefact.discard(host, package.file, FOLDER)
        raise NodeError(
            package.file.shown, "it is no package ({0})".format(error.reason), "give the right file with its sha256"
        ) from error
    found = tuple(done.stdout.strip().split("\t"))
    if found != (package.name, package.version):
        artefact.discard(host, package.file, FOLDER)
        raise NodeError(
            package.file.shown,
            "it holds {0}, not {1} {2}".format(" ".join(found), package.name, package.version),
            "correct the name, the version or the source of this package",
        )


def _dpkg(host: Host) -> List[str]:
    return ["dpkg"] if host.root == "/" else ["dpkg", "--root=" + host.root]


def _install_debs(host: Host, packages: Sequence[Package], lock_seconds: float) -> None:
    paths = [host.path(one.path) for one in packages]
    if host.root == "/" and host.which("apt-get") is not None:
        # It brings dependencies along, and needs no network where they are all there. Never at the price of others.
        options = ["-y", "-q", "--no-remove", "--allow-downgrades", "--no-install-recommends"]
        options += ["-o", "DPkg::Lock::Timeout={0:g}".format(lock_seconds)]
        options += [word for one in _CONFIGURATION for word in ("-o", "Dpkg::Options::=" + one)]
        host.run([*_QUIET, "apt-get", *options, "install", *paths], _INSTALL_SECONDS)
    else:
        host.run([*_QUIET, *_dpkg(host), *_CONFIGURATION, "--install", *paths], _INSTALL_SECONDS)


def _install_rpms(host: Host, packages: Sequence[Package]) -> None:
    """rpm itself needs no network and checks dependencies before it changes anything; what lacks one is for dnf."""
    paths = [host.path(one.path) for one in packages]
    try:
        host.run([*rpm(host), "-U", "--oldpackage", "--replacepkgs", *paths], _INSTALL_SECONDS)
    except NodeError:
        if host.root != "/" or host.which("dnf") is None:
            raise
        host.run(["dnf", "-y", "--setopt=install_weak_deps=False", "install", *paths], _INSTALL_SECONDS)


def _wait_for_lock(host: Host, seconds: float) -> None:
    """:raises NodeError: another package manager works for longer than that."""
    path = host.path("/var/lib/dpkg/lock-frontend")
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise NodeError(path, "it could not be opened ({0})".format(error.strerror), "run it as root") from error
    try:
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError as error:
                if time.monotonic() >= deadline:
                    raise NodeError(
                        "dpkg",
                        "another package manager has been working for {0:g} s".format(seconds),
                        "wait until it is done (ps -e | grep -E 'apt|dpkg|unattended'), then run it again",
                    ) from error
                time.sleep(0.5)
    finally:
        os.close(handle)
