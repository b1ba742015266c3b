# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The slurmd of this node: since when it runs, and its restart, which is decided and done here and nowhere else.

slurmd reads gres.conf when it starts and at SIGHUP, which ``scontrol reconfigure`` comes to (slurmd.c: ``_reconfigure``
of 22.05, in the same process; ``_try_to_reconfig`` from 23.11 on, in a new one that takes the old one's place). Only a
start can be seen afterwards in every version, so a restart is what proves that a file was read. It ends no step of a
job: those have processes of their own, and the units that Slurm brings have KillMode=process.

Whatever it is restarted for, it reads gres.conf as well. slurmctld takes a node out of service that registers with
fewer GPUs than its ``Gres=`` says (INVALID_REG), and goes by the ``Gres=`` that it has read, which need not be that of
the file by now. So both are asked before any restart.
"""

from __future__ import annotations

import contextlib
import os
from typing import Callable, ContextManager, FrozenSet, Mapping, Optional, Sequence, Tuple

from ..core import processes, systemd
from ..core.frozen import frozen
from ..core.host import Host
from ..core.resource import Action, NodeError
from . import gres_conf, places, slurm_conf, states, syntax, this_node
from .client import Slurm
from .commands import NoSuchNode
from .jobs import steps

IDLE = "idle"
_LOCK = "slurmd"
Look = Callable[[str], Optional[str]]


@frozen
class RestartSlurmd(Action):
    def describe(self) -> str:
        return "restart slurmd, as no job runs here"


@frozen
class Withheld:
    """Why slurmd is not restarted, and what to do for it."""

    reason: str
    remedy: str


def settle(
    host: Host,
    unread: Sequence[str],
    wished: bool,
    check_mode: bool = False,
    planned: Optional[Mapping[str, Optional[str]]] = None,
) -> Optional[str]:
    """Restart slurmd, once for all files that it has yet to read; None: it was, or in check mode would be. Otherwise
    a sentence tells why not, with the remedy. ``planned``: texts as they will be, None for a file that will be gone.

    :raises NodeError: its unit does not restart it.
    """
    texts = planned or {}

    def look(path: str) -> Optional[str]:
        return texts[path] if path in texts else host.read(path)

    turn: ContextManager[object] = contextlib.nullcontext() if check_mode else host.lock(_LOCK)
    with turn:
        why = _against(host, wished, look)
        if why is not None:
            told = "slurmd has yet to read {0}, and is not restarted, as {1}: {2}"
            return told.format(" and ".join(unread), why.reason, why.remedy)
        if not check_mode:
            _restart(host)
    return None


def _restart(host: Host) -> None:
    before = _processes(host)
    systemd.restart(host, "slurmd.service")
    if before and _processes(host) == before:
        raise NodeError(
            "slurmd", "slurmd.service is not the unit that it runs in", "restart it by hand when no job runs here"
        )


def _against(host: Host, wished: bool, look: Look) -> Optional[Withheld]:
    """Asks slurmctld, so it is called only where a restart is due."""
    here = this_node.here(host)
    place, text, name = here.place, here.text, here.node_name
    jobs, gres = asked(Slurm(host, name))
    ours = slurm_conf.node(text, name) if text is not None else None
    given = [("slurmctld", gres)] if ours is None else [(place.path or "slurm.conf", ours.gres), ("slurmctld", gres)]
    few = None if place.configless else too_few(given, name, place.beside("gres.conf"), look)
    if few is not None:  # first: no other remedy may be followed then
        return few
    if not wished:
        return Withheld("that is left to you", "run 'systemctl restart slurmd' when no job runs here, then this again")
    if not systemd.running(host):
        return Withheld("this node has no systemd", "restart it when no job runs here, then this again")
    return None if jobs == IDLE else Withheld(jobs, "run this again when no job runs here")


def too_few(given: Sequence[Tuple[str, str]], name: str, path: Optional[str], look: Look) -> Optional[Withheld]:
    """Why slurmd must not read gres.conf at ``path`` as it is. ``given``: who has which ``Gres=`` of the node; what is
    handed out by slurmctld, not there, or counted by slurmd itself (AutoDetect) is not known here. Pure but for
    ``look``."""
    text = syntax.read(path, look) if path else None
    has = gres_conf.gres_of(gres_conf.gpus(text, name)) if text is not None else None
    if has is None:
        return None
    for where, gres in given:
        if gres_conf.fewer(has, gres):
            told = "{0} has Gres={1} for {2}, and Slurm drains a node that comes with fewer: {3} has {4}"
            remedy = "restart slurmctld, then slurmd, and run this again"
            if where != "slurmctld":
                remedy = "correct Gres= of {0} in {1}, {2}".format(name, where, remedy)
            return Withheld(told.format(where, gres, name, path, has or "none"), remedy)
    return None


def started(host: Host, now: float) -> Optional[float]:
    """When the slurmd that runs here began to, in seconds since 1970; ``now`` is the time in the same."""
    known = [began for dummy, began in _processes(host) if began is not None]
    uptime = processes.uptime(host)
    if not known or uptime is None:
        return None
    return now - uptime + min(known) / os.sysconf("SC_CLK_TCK")


def _processes(host: Host) -> FrozenSet[Tuple[int, Optional[int]]]:
    """The processes that are slurmd, with their start in ticks since the boot."""
    return frozenset((pid, processes.start_time(host, pid)) for pid in places.running(host))


UNTOLD = "slurmctld does not tell whether jobs run here"


def asked(slurm: Slurm) -> Tuple[str, str]:
    """Of this node: ``idle``, or why that cannot be said; and the ``Gres=`` that slurmctld holds against what it
    registers with, however slurm.conf reads by now, "" where that is not known.

    Its state alone does not tell: a suspended job leaves a node IDLE."""
    if any(steps(slurm.host)):
        return "a step of a job runs here", ""
    try:
        found = slurm.show()
        if states.busy(found.flags):
            return "its state is {0}".format("+".join(sorted(found.flags))), found.gres
        jobs = slurm.jobs()
    except NoSuchNode:
        return "slurmctld knows no node {0}".format(slurm.node), ""
    except NodeError as error:
        return "{0} ({1})".format(UNTOLD, error.reason), ""
    return "job {0} is on it".format(jobs[0]) if jobs else IDLE, found.gres
