# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The declared scratch: mounted, and a file can be written to it.

The probe is a file without a name (O_TMPFILE), so nothing is left whatever happens; only where a file system has none
of those, it is ``.gpu_node_health.*``, removed at once. The scratch of a lost disk may hold a call for ever: the check
then ends by its time limit.
"""

from __future__ import annotations

import errno
import os
from typing import Optional

from ...core import mounts
from ...core.frozen import frozen
from .. import scratch
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy

_PROBE = b"gpu_node" * 512
_REMEDY = "run 'gpunode scratch status' for the reason, then 'gpunode apply nvme_scratch'"
_NO_SUCH_FILES = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL)


@frozen
class Seen:
    """``mount`` None: at none of the places is a mount. ``error``: the number of what the probe ended with."""

    mount: Optional[mounts.Mount]
    error: Optional[int] = None
    root: bool = True


def look(evidence: Evidence) -> Optional[Seen]:
    candidates = scratch.places(evidence.declared)
    if not candidates:
        return None
    table = mounts.read(evidence.host)
    mount = mounts.scratch_in(table, candidates)
    if mount is None or not mount.writable:
        return Seen(mount)
    try:
        _write(evidence.host.path(mount.point))
    except OSError as error:
        return Seen(mount, error.errno or errno.EIO, os.geteuid() == 0)
    return Seen(mount)


def _write(folder: str) -> None:
    """:raises OSError: it cannot be written to."""
    name = None
    try:
        handle = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in _NO_SUCH_FILES:
            raise
        import tempfile  # only where a scratch is declared

        handle, name = tempfile.mkstemp(prefix=".gpu_node_health.", dir=folder)
    try:
        if name is not None:
            os.unlink(name)
        os.write(handle, _PROBE)
    finally:
        os.close(handle)


def judge(seen: Optional[Seen], expected: Expected) -> Judgement:
    if seen is None:
        return Judgement(not_applicable=scratch.NOT_DECLARED)
    if seen.mount is None:
        point = scratch.places(expected.declared)[0]
        return _bad(Outcome.FAIL, point, "it is not mounted", _REMEDY, "not_mounted")
    point = seen.mount.point
    if not seen.mount.writable:
        reason = "it is mounted read-only, as after an error of its file system"
        return _bad(
            Outcome.FAIL, point, reason, "look at 'dmesg', then unmount it and run 'gpunode converge'", "read_only"
        )
    if seen.error is None:
        return Judgement("{0} is writable".format(point))
    reason = "it cannot be written to ({0})".format(os.strerror(seen.error))
    if seen.error in (errno.ENOSPC, errno.EDQUOT):
        return _bad(Outcome.FAIL, point, reason, "remove what jobs left there", "full")
    if seen.error in (errno.EACCES, errno.EPERM) and not seen.root:
        return _bad(Outcome.UNKNOWN, point, reason, "run it as root", "not_allowed")
    return _bad(Outcome.FAIL, point, reason, "look at 'dmesg' and 'gpunode scratch status'", "not_writable")


def _bad(outcome: Outcome, point: str, reason: str, remedy: str, code: str) -> Judgement:
    action = Remedy.CONFIGURE if code in ("not_mounted", "not_allowed") else Remedy.LOOK
    finding = Finding(outcome, "scratch " + point, reason, remedy, action, Certainty.CERTAIN, point, code)
    return Judgement(findings=(finding,))


CHECKS = (Check("scratch_mounted", "The scratch is mounted and writable", Cost.QUICK, judge, look, lane="storage"),)
