# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder for azcopy's plans and logs and for what a copy has done so far: on the scratch, the user's alone.

By themselves they fill ~/.azcopy, and a home folder is small.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from typing import Any, Dict, Iterator, Mapping, Optional

from ..core import declaration, mounts
from ..core.frozen import frozen
from ..core.host import Host
from ..core.resource import NodeError
from ..core.state_file import StateFile
from ..slurm import scratch

PLANS, LOGS, STATES = "plans", "logs", "states"
FILE = StateFile("checkpoint_copy", "{0}/" + STATES + "/{1}.json", dict, most_bytes=1 << 26)
_FALLBACK = "/var/tmp"  # noqa: S108  (the folder in it is checked to be of this user alone)


@frozen
class Work:
    folder: str

    def path(self, *names: str) -> str:
        return "/".join([self.folder, *names])

    def environment(self) -> Dict[str, str]:
        return {
            # azcopy makes ~/.azcopy whatever else it is told.
            "HOME": self.folder,
            "AZCOPY_LOG_LOCATION": self.path(LOGS),
            "AZCOPY_JOB_PLAN_LOCATION": self.path(PLANS),
            "AZCOPY_DISABLE_SYSLOG": "true",
        }

    # State ------------------------------------------------------------------------------------------------

    def read(self, name: str) -> Dict[str, Any]:
        """What is known of a copy; empty where nothing is, or nothing that can be read."""
        return FILE.read(Host(), self.folder, name)[0] or {}

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """:raises NodeError: it cannot be written."""
        FILE.write(Host(), content, self.folder, name)

    def forget(self, name: str) -> None:
        Host().remove(FILE.at(self.folder, name))

    def planned(self, job: str) -> bool:
        """Whether azcopy can go on with that job: its plan is there."""
        return any(one.startswith(job + "--") for one in Host().names(self.path(PLANS)))

    def errors(self, job: str) -> str:
        """Why a job failed: azcopy writes that into its log alone."""
        text = Host().read(self.path(LOGS, job + ".log")) if job else None
        return "\n".join(line for line in (text or "").splitlines() if " ERR: " in line)[-8192:]

    def clear(self, job: str) -> None:
        """The plan and the logs of a job that is done."""
        for folder in (PLANS, LOGS):
            for name in Host().names(self.path(folder)):
                if name.startswith(job):
                    with contextlib.suppress(OSError):
                        os.unlink(self.path(folder, name))

    def tidy(self, before: float) -> None:
        """Remove what failed copies left that nobody went on with since then."""
        for folder in (PLANS, LOGS, STATES):
            for name in Host().names(self.path(folder)):
                with contextlib.suppress(OSError):
                    if os.lstat(self.path(folder, name)).st_mtime < before:
                        os.unlink(self.path(folder, name))

    @contextlib.contextmanager
    def turn(self, name: str) -> Iterator[None]:
        """:raises NodeError: another process copies the same."""
        handle = os.open(self.path(STATES, name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise NodeError(
                    "checkpoint " + name, "another process on this node copies it now", "wait until that one has ended"
                ) from error
            # The file stays until it is tidied away: removing it here would let two processes hold two of one name.
            yield
        finally:
            os.close(handle)


def base(host: Host, given: str) -> str:
    """Where the folder of each user goes: as declared, else the scratch that is mounted, else /var/tmp."""
    if given:
        return given
    declared = declaration.read(host).get(scratch.SECTION)
    found = scratch.mounted(host, mounts.of_scratch(declared))
    return found.point if found is not None and found.writable else _FALLBACK


def place(host: Host, given: str, uid: int) -> str:
    return "{0}/gpu_node-checkpoint-{1}".format(base(host, given).rstrip("/"), uid)


def opened(host: Host, given: str, uid: Optional[int] = None) -> Work:
    """The folder, made where it is missing.

    :raises NodeError: it cannot be made, or is not this user's alone.
    """
    uid = os.geteuid() if uid is None else uid
    folder = host.path(place(host, given, uid))
    try:
        for path in (folder, *(folder + "/" + one for one in (PLANS, LOGS, STATES))):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
            found = os.lstat(path)
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid or stat.S_IMODE(found.st_mode) & 0o077:
                reason = "it is not a folder that this user alone can use"
                raise NodeError("work folder " + path, reason, "move it away, or give another place by --work")
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space there" if full else "give a folder that you may write to by --work"
        raise NodeError("work folder " + folder, "it cannot be made ({0})".format(error.strerror), remedy) from error
    return Work(folder)
