# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the other nodes of a job note of its file system, asked by ssh."""

from __future__ import annotations

import time

from ...core.host import Host
from ...core.resource import NodeError
from . import note, rules
from .rules import Instance

_SSH_SECONDS = 10.0
_ASK_AGAIN_SECONDS = 1.0
# Keys of hosts have to be known here, although beeond itself takes any: so it is never let loose on a stranger.
_SSH = ("ssh", "-qq", "-oBatchMode=yes", "-oConnectTimeout=5")


def ready(host: Host, one: Instance, node: str, deadline: float) -> Instance:
    """:raises NodeError: that node takes no part, or has not begun in time."""
    last = "its prolog has noted nothing"
    while True:
        try:
            done = host.run([*_SSH, node, "cat", note.path(one.job)], _SSH_SECONDS, accept=tuple(range(256)))
        except NodeError as error:
            last = error.reason
        else:
            theirs = note.parsed(done.stdout, one.job) if done.returncode == 0 else None
            wrong = rules.not_ready(one, node, theirs)
            if theirs is not None and wrong == "":
                return theirs
            if wrong:
                raise NodeError(node, wrong, "")
            last = "ssh to it fails" if done.returncode == 255 else "its prolog has noted nothing"
        if time.time() + _ASK_AGAIN_SECONDS > deadline:
            raise NodeError(node, "node {0} was not ready in time: {1}".format(node, last), "")
        time.sleep(_ASK_AGAIN_SECONDS)
