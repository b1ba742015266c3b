# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one step on BeeOND."""

from __future__ import annotations

import os
from typing import Mapping

from ...core import declaration, managed_files
from ...core.host import Host
from ...core.resource import NodeError, Step
from ...slurm.beeond import node
from .options import Desired
from .types import AUTH, CLIENT, FORCED, SECTION, BuildClient, RemoveAuth, WriteAuth

_BUILD_SECONDS = 900.0


def write_auth(host: Host, dummy: WriteAuth, desired: Desired) -> None:
    """:raises NodeError: it cannot be written."""
    if desired.auth_secret:
        host.write(AUTH, desired.auth_secret + "\n", mode=0o400)
    os.chmod(host.path(AUTH), 0o400)
    os.chown(host.path(AUTH), os.geteuid(), -1)


def remove_auth(host: Host, dummy: RemoveAuth, other: object = None) -> None:
    host.remove(AUTH)


def build_client(host: Host, action: BuildClient, dummy: object = None) -> None:
    """:raises NodeError: it cannot be built; what was built before is still recorded, and not for this kernel."""
    thing = "kernel module of BeeGFS for " + action.kernel
    done = host.run([host.path(CLIENT), "rebuild"], _BUILD_SECONDS, accept=tuple(range(256)))
    if done.returncode != 0 or not host.exists(node.MODULES.format(action.kernel)):
        reason = "it could not be built: {0}".format(done.message)
        raise NodeError(thing, reason, "run '{0} rebuild' and see what its compiler says".format(CLIENT))
    host.remove(FORCED)
    section = dict(declaration.read(host).get(SECTION) or {}, built={"kernel": action.kernel, "ofed": action.ofed})
    declaration.apply(host, declaration.Declare(SECTION, section))


STEPS: Mapping[type, Step] = {
    **declaration.STEPS,
    **managed_files.STEPS,
    WriteAuth: write_auth,
    RemoveAuth: remove_auth,
    BuildClient: build_client,
}
