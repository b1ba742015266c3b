# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of the distribution, by name; one step, for the plan of a resource that lacks a tool.

They stay when the resource goes, as others may use them by then.
"""

from __future__ import annotations

import time
from typing import List, Mapping, Tuple

from ..frozen import frozen
from ..host import Completed, Host
from ..resource import Action, NodeError, Step
from .apply import CONFIGURATION, INSTALL_SECONDS, LOCK_SECONDS, QUIET, reason

# The index of packages is missing or older than the mirror: a fresh cloud image has none at all. Unlike dnf,
# apt-get does not renew it by itself.
_OUTDATED = ("Unable to locate package", "has no installation candidate", "Unable to fetch some archives")
_ANY = tuple(range(256))


@frozen
class InstallDistribution(Action):
    """What is recommended with them is not installed: with mdadm that is a mail server."""

    names: Tuple[str, ...]

    def then_look(self) -> bool:
        return True

    def describe(self) -> str:
        return "install the package(s) {0} of the distribution".format(" and ".join(self.names))


def install_distribution(host: Host, action: InstallDistribution, dummy: object = None) -> None:
    """:raises NodeError: there is no package manager, or it fails."""
    thing = "package(s) {0}".format(" and ".join(action.names))
    if host.which("apt-get") is not None and host.exists("/var/lib/dpkg/status"):
        done, renew = _apt(host, action.names), "apt-get update"
    elif host.which("dnf") is not None or host.which("yum") is not None:
        # Both wait for their lock.
        manager = "yum" if host.which("dnf") is None else "dnf"
        words = [manager, "-y", "--setopt=install_weak_deps=False", "install", *action.names]
        done, renew = host.run(words, INSTALL_SECONDS, accept=_ANY), manager + " makecache"
    else:
        raise NodeError(thing, "this node has no apt-get, dnf or yum", "install what it provides by hand")
    if done.returncode != 0:
        raise NodeError(
            thing,
            "it could not be installed, {0} says: {1}".format(renew.split(" ", maxsplit=1)[0], reason(done)),
            "see that the package sources of this node can be reached ({0}), then run it again".format(renew),
        )


def _apt(host: Host, names: Tuple[str, ...]) -> Completed:
    options = ["-y", "-q", "--no-remove", "--no-install-recommends"]
    options += [word for one in CONFIGURATION for word in ("-o", "Dpkg::Options::=" + one)]
    install = [*options, "install", *names]
    done = _locked(host, install)
    if done.returncode != 0 and any(text in done.stdout + done.stderr for text in _OUTDATED):
        # It fails for one source of many, too, while what is wanted comes from another.
        renewed = _locked(host, ["-q", "update"])
        done = _locked(host, install)
        return renewed if done.returncode != 0 and renewed.returncode != 0 else done
    return done


def _locked(host: Host, words: List[str]) -> Completed:
    """By itself apt-get waits for dpkg, and neither for the index nor for the cache, which apt-daily.service uses."""
    deadline = time.monotonic() + LOCK_SECONDS
    argv = [*QUIET, "apt-get", "-o", "DPkg::Lock::Timeout={0:g}".format(LOCK_SECONDS), *words]
    while True:
        done = host.run(argv, INSTALL_SECONDS, accept=_ANY)
        if done.returncode == 0 or "E: Could not get lock" not in done.stderr or time.monotonic() >= deadline:
            return done
        time.sleep(1.0)


#: For the table of a resource that installs some.
STEPS: Mapping[type, Step] = {InstallDistribution: install_distribution}
