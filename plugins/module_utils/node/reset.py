# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reset a node without a controller: what reset.yml does, in its order, on a node that is drained and empty."""

from __future__ import annotations

import contextlib
from typing import Callable, Dict, Optional, Tuple

from ..core import declaration, mounts, registry
from ..core.frozen import frozen
from ..core.host import Host, LockHeld
from ..core.lease import SECTION as LEASE
from ..core.resource import NodeError
from ..jobs import gpus_in_use, out_of_service
from ..resources.nvme_scratch import users
from ..slurm import drain, on_node, scratch
from ..slurm.client import Slurm
from . import own, wish
from .converge import Report, Request

_WORDS = "by 'gpunode reset'"
_WAIT = "run it again when it is empty"
_SILENT = "run it again when slurmctld answers, or use 'gpunode reset --yes --without-slurm' if the cluster is gone"
_DRAIN = "drain the node and wait until it is empty, or use 'gpunode reset --yes', which drains it first"
Tell = Callable[[str], None]


@frozen
class Reset:
    """``drained``: by us for it, which stays: a person resumes the node, or takes it out of slurm.conf."""

    report: Report
    drained: bool = False


def sections(host: Host) -> wish.Sections:
    """All that this node may ever have been given, as reset.yml has it: with the options of its declaration where it
    has one.

    :raises NodeError: its declaration cannot be understood.
    """
    every: Dict[str, Dict[str, object]] = {name: {} for name in registry.NAMES}
    return {**every, **(wish.read(host) or {})}


def request(host: Host, check_mode: bool = False, without: Tuple[str, ...] = ()) -> Request:
    """:raises NodeError: its declaration is wrong."""
    return Request(sections(host), without=without, check_mode=check_mode, undo=True)


def run(host: Host, version: str, tell: Tell, check_mode: bool = False, slurm: bool = True, nvml: bool = True) -> Reset:
    """``slurm`` False: neither queries slurmctld nor drains; the node's own data count. ``nvml`` False: does not query
    the driver for processes; a process with an open device file counts.

    :raises NodeError: the node is in use, or this is unknown; or its declaration is wrong.
    :raises LockHeld: a converge of this node runs.
    """
    wanted = request(host, check_mode)
    drained = False
    _refuse(_uses_scratch(host, wanted))
    if slurm:
        drained = _taken_out(host, tell, check_mode, nvml)
    else:
        _refuse(out_of_service.held(host, on_node.here(host), nvml))
    try:
        with contextlib.nullcontext() if slurm else on_node.without_slurmctld():
            return Reset(own.run(host, wanted, version), drained)
    except LockHeld:
        if drained:
            _take_back(on_node.slurm_of(host, declaration.read(host)), tell)
        raise


def _taken_out(host: Host, tell: Tell, check_mode: bool, nvml: bool) -> bool:
    client = on_node.slurm_of(host, declaration.read(host))
    # First, so that a node with jobs is not drained for a reset that is refused.
    here, notes = on_node.look(host, client, ())
    _refuse(" ".join(notes), _SILENT)
    _refuse(out_of_service.held(host, here, nvml))
    if check_mode:
        return False
    out = out_of_service.take_out(host, client, drain.reason_text(drain.RESET + _WORDS), nvml)
    if out.drained:
        tell("drained: no job comes")
    if out.why and out.drained:
        _take_back(client, tell)
    _refuse(out.why)
    return out.drained


def _take_back(client: Slurm, tell: Tell) -> None:
    if client.undrain(drain.RESET):
        tell("our drain is taken back")


def _refuse(why: Optional[str], remedy: str = _WAIT) -> None:
    if why:
        raise NodeError("this node", "it is not reset: {0}".format(why), remedy)


def refuse_in_use(host: Host, request: Request) -> None:
    """Refuse an undo while a job runs, a process computes on a GPU or a process has a file open on the scratch.

    Nothing is drained here, so the node's own records count, and those of slurmctld. If NVML does not answer, the
    processes that have the driver's file open count.

    :raises NodeError: the node is in use, or its processes cannot be read.
    """
    why = out_of_service.busy(on_node.asked(host)) or _computes(host) or _uses_scratch(host, request)
    if why:
        raise NodeError("undo of this node", "it is in use: {0}".format(why), _DRAIN)


def _computes(host: Host) -> str:
    try:
        return gpus_in_use.why_not(host)
    except NodeError:
        return gpus_in_use.why_not(host, nvml=False)


def _uses_scratch(host: Host, request: Request) -> str:
    """The processes on the scratch that the request unmounts; "": none. An adopted scratch stays mounted."""
    section = request.sections.get(scratch.SECTION)
    if section is None or not request.chosen(scratch.SECTION):
        return ""
    given = (section, declaration.read(host).get(scratch.SECTION) or {})
    points = {str(one.get("mount_point", mounts.SCRATCH)) for one in given}
    for point in sorted(points):
        found = users.of(host, point) if scratch.mounted(host, (point,)) else []
        if found:
            return "{0} has files on {1} open".format(users.describe(found), point)
    return ""


def for_lease(host: Host, version: str, but_lease: bool) -> str:
    """For a node that is out of service and empty: what failed, in sentences, or "". ``but_lease``: the lease stays,
    and with it the node command, which goes on with it."""
    try:
        wanted = request(host, without=(LEASE,) if but_lease else ())
        report = own.run(host, wanted, version)
    except NodeError as error:
        return str(error)
    return " ".join(report.failures)
