# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one step on packages."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import Iterator, List, Mapping, Sequence

from .. import artefact
from ..host import Completed, Host
from ..resource import NodeError, Step
from .observe import rpm
from .types import DPKG, FOLDER, FetchPackage, InstallPackages, Package, RemovePackages

# Unattended upgrades may hold the lock for minutes; a package manager must not be ended in the middle.
LOCK_SECONDS = 180.0
INSTALL_SECONDS = 1800.0
# No questions. needrestart would restart services behind the packages it thinks of, slurmd among them.
QUIET = ["env", "DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1"]
# A configuration file that somebody changed stays as it is: the package's new one lies beside it as .dpkg-dist.
CONFIGURATION = ("--force-confdef", "--force-confold")


def fetch_package(host: Host, action: FetchPackage, dummy: object = None) -> None:
    """:raises NodeError: the file is not what was asked for."""
    with _nothing_left(host, only_after_failure=True):
        artefact.fetch(host, action.package.file, FOLDER)
        _check(host, action.package, action.manager)


def install_packages(
    host: Host, action: InstallPackages, dummy: object = None, lock_seconds: float = LOCK_SECONDS
) -> None:
    """:raises NodeError: the package manager says no."""
    with _nothing_left(host, only_after_failure=False):
        if action.manager == DPKG:
            _wait_for_lock(host, lock_seconds)
            _install_debs(host, action.packages, lock_seconds)
        else:
            _install_rpms(host, action.packages)


def remove_packages(host: Host, action: RemovePackages, dummy: object = None) -> None:
    """:raises NodeError: the package manager says no."""
    if action.manager != DPKG:
        _run(host, [*rpm(host), "-e", *action.names], action.names, "removed")
        return
    _wait_for_lock(host, LOCK_SECONDS)
    # Not apt-get, which would take along what depends on them; dpkg refuses then and says why.
    # Asked first without doing it, since a refusal would leave them marked for removal.
    _run(host, [*_dpkg(host), "--no-act", "--purge", *action.names], action.names, "removed")
    _run(host, [*_dpkg(host), "--purge", *action.names], action.names, "removed")


@contextlib.contextmanager
def _nothing_left(host: Host, only_after_failure: bool) -> Iterator[None]:
    """The files are in the way of nobody, but a node that is to be as it was must not keep them."""
    try:
        yield
    except BaseException:
        only_after_failure = False
        raise
    finally:
        if not only_after_failure:
            for name in host.names(FOLDER):
                host.remove("{0}/{1}".format(FOLDER, name))
            for folder in (FOLDER, os.path.dirname(FOLDER)):
                with contextlib.suppress(OSError):  # others keep what they know of this node beside it
                    os.rmdir(host.path(folder))


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
        raise NodeError(
            package.file.shown, "it is no package ({0})".format(error.reason), "give the right file with its sha256"
        ) from error
    found = tuple(done.stdout.strip().split("\t"))
    if found != (package.name, package.version):
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
        options += [word for one in CONFIGURATION for word in ("-o", "Dpkg::Options::=" + one)]
        argv = ["apt-get", *options, "install", *paths]
    else:
        argv = [*_dpkg(host), *CONFIGURATION, "--force-downgrade", "--install", *paths]
    _run(host, argv, _names(packages), "installed")


def _install_rpms(host: Host, packages: Sequence[Package]) -> None:
    """rpm itself needs no network and checks dependencies before it changes anything; what lacks one is for dnf."""
    paths = [host.path(one.path) for one in packages]
    try:
        _run(host, [*rpm(host), "-U", "--oldpackage", "--replacepkgs", *paths], _names(packages), "installed")
    except NodeError:
        if host.root != "/" or host.which("dnf") is None:
            raise
        argv = ["dnf", "-y", "--setopt=install_weak_deps=False", "install", *paths]
        _run(host, argv, _names(packages), "installed")


def _names(packages: Sequence[Package]) -> List[str]:
    return ["{0} {1}".format(one.name, one.version) for one in packages]


def _run(host: Host, argv: Sequence[str], names: Sequence[str], what: str) -> None:
    done = host.run([*QUIET, *argv], INSTALL_SECONDS, accept=tuple(range(256)))
    if done.returncode != 0:
        raise NodeError(
            "package {0}".format(" and ".join(names)),
            "it could not be {0}, {1} says: {2}".format(what, argv[0], reason(done)),
            "repair that on the node, then run it again",
        )


def reason(done: Completed) -> str:
    """The line that says why: what apt, dpkg and rpm write last only says that it failed. Pure."""
    lines = [line.strip() for line in (done.stdout + "\n" + done.stderr).splitlines()]
    for mark in (
        " : Depends: ",
        " : Conflicts: ",
        " depends on ",
        " is needed by ",
        "nothing provides ",
        "error: ",
        "E: ",
    ):
        found = [line for line in lines if mark in " " + line]
        if found:
            return found[0]
    return done.message


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


#: For the table of a resource that installs such files.
STEPS: Mapping[type, Step] = {
    FetchPackage: fetch_package,
    InstallPackages: install_packages,
    RemovePackages: remove_packages,
}
