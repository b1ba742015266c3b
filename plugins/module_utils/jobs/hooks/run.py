# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prolog, epilog, and the way back into service.

A step that fails for good (the scratch is not there, a process cannot be ended) is a finding: the node is drained for
it. Everything else that goes wrong is told, and the job goes on.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, List, Optional, Tuple

from ...core import declaration, processes
from ...core.frozen import replaced
from ...core.host import Host
from ...core.resource import NodeError
from ...slurm import ACTIVE_LOCK, drain, jobs, scratch, user_folders
from ...slurm import beeond as shared_scratch
from ...slurm.jobs import Running
from ...slurm.prepare import PREPARED, prepare
from ...slurm.types import Job
from .hook import Hook, Report, Tell

if TYPE_CHECKING:
    from ...health import Verdict

__all__ = ["Report", "Tell", "epilog", "finding", "prolog", "resume"]
# Setting the clocks of eight healthy GPUs takes a fraction of a second.
CLOCKS_SECONDS = 15.0
HEALTH_SECONDS = 25.0
# With HEALTH_SECONDS within the budget of a hook.
ACTIVE_SECONDS = 20.0
_POLL_SECONDS = 0.2
HEALTH_GATE = "health_gate"
GPU_METRICS = "gpu_metrics"
_END_SECONDS = 25.0  # beside the grace period
_ASK_SECONDS = 15.0
_LOCK_SECONDS = 20.0  # one other hook may be at its time limit


def prolog(host: Host, job: Job, tell: Tell) -> Tuple[int, Report]:
    hook = Hook(host, tell)
    note = Running(job.id, job.uid, (), None, job.sluid)
    try:
        hook.declared = declaration.read(host)
        wanted = job if hook.settings.job_folder else None
        # Before the folder, so that nobody takes it for one that a dead job left.
        note = _begin(hook, job, _folder(hook, job) if wanted else None)
        if not host.exists(PREPARED):  # no boot unit did it
            hook.step("removing folders of earlier boots", scratch.LOOK_SECONDS + 1.0, lambda: prepare(host))
        # Also where no folder is wanted, the scratch has to be there.
        hook.report.folder = scratch.look(host, hook.section(scratch.SECTION), wanted)
    except NodeError as error:
        hook.report.finding = _short(error)
        hook.tell(str(error))
        if hook.conclude(job.node) != 0:
            hook.step("forgetting the job", _LOCK_SECONDS, lambda: jobs.undo(host, job.id))
            return 1, hook.report
        hook.tell("the job starts all the same: the node is left in service")
        if jobs.read(host, job.id) is None:
            note = _begin(hook, job, None)
    except Exception as error:
        hook.tell("the scratch was not looked at: {0}: {1}; report this as a bug.".format(type(error).__name__, error))
    if host.locked(ACTIVE_LOCK):
        # The health check keeps its time, however long the job had to wait for the lock of another hook.
        seconds = max(0.0, min(ACTIVE_SECONDS, hook.left() - HEALTH_SECONDS))
        hook.step("waiting for active checks", seconds + 5.0, lambda: _wait_for_active_checks(hook, seconds))
    if not _healthy(hook, job):
        hook.step("forgetting the job", _LOCK_SECONDS, lambda: jobs.undo(host, job.id))
        return 1, hook.report
    _user_folders(hook, note, job.gid, wanted=True)
    if hook.section(GPU_METRICS) is not None and (job.gpus or job.visible):
        from . import metrics  # loaded only where they are declared

        metrics.begun(hook, job, note)
    if note.gpus and hook.settings.clocks:
        hook.step("raising the clocks", _LOCK_SECONDS + CLOCKS_SECONDS, lambda: _raise_clocks(hook, note))
    if hook.section(shared_scratch.SECTION) is not None:
        from . import beeond  # loaded only where it is declared

        beeond.begun(hook, job)
    return 0, hook.report


def epilog(host: Host, job: Job, tell: Tell) -> Tuple[int, Report]:
    hook = Hook(host, tell)
    try:
        hook.declared = declaration.read(host)
    except NodeError as error:  # the prolog of the next job drains for it
        hook.tell(str(error))
    hook.more_time(hook.settings.grace_seconds)
    note = _note_of(hook, job)
    hook.step("noting that the job is over", _LOCK_SECONDS, lambda: jobs.end(host, note, processes.this(host)))
    over = (note, *(hook.step("looking for jobs that are over", _ASK_SECONDS, lambda: _left_over(hook, note)) or ()))
    stuck = _end_processes(hook, note) if note.gpus and hook.settings.end_processes else ()
    if hook.settings.clocks:
        hook.step("returning the clocks", _LOCK_SECONDS + CLOCKS_SECONDS, lambda: _return_clocks(hook, over))
    if hook.section(GPU_METRICS) is not None:
        from . import metrics

        for one in over:
            metrics.over(hook, one)
    if host.exists(shared_scratch.FOLDER):
        from . import beeond

        for one in over:
            if jobs.read(hook.host, one.id) is None:  # else it was requeued and has started here again
                beeond.over(hook, one)
    for one in over:
        _discard_folder(hook, one)
    _user_folders(hook, note, None, wanted=False)
    for one in over[1:]:
        if one.uid != note.uid:
            _user_folders(hook, one, None, wanted=False)
    hook.step("forgetting the job", _LOCK_SECONDS, lambda: _forget(hook, over, stuck))
    _health_after(hook, job)
    return hook.conclude(job.node), hook.report


def _begin(hook: Hook, job: Job, folder: Optional[str]) -> Running:
    gpus = _gpus(hook, job)
    note = Running(
        job.id, job.uid, gpus, folder, job.sluid, user=job.user, account=job.account, partition=job.partition
    )
    hook.step("noting the job", _LOCK_SECONDS, lambda: jobs.begin(hook.host, note))
    return note


def _gpus(hook: Hook, job: Job) -> Tuple[str, ...]:
    """The PCI addresses of the job's GPUs; none where they are not certain, or nobody wants to know."""
    wanted = hook.settings.clocks or hook.settings.end_processes or hook.section(GPU_METRICS) is not None
    if not (job.gpus or job.visible) or not wanted:
        return ()
    from ...slurm import gpus  # loaded only where a job has GPUs

    found = hook.step("finding the GPUs of the job", CLOCKS_SECONDS, lambda: gpus.of_job(hook.host, job))
    if found is not None and found.reason is not None:
        hook.tell("no GPU is touched for this job: {0}".format(found.reason))
    return () if found is None else found.gpus


def _folder(hook: Hook, job: Job) -> Optional[str]:
    """Where the folder of the job is, or is about to be."""
    found = scratch.mounted(hook.host, scratch.places(hook.section(scratch.SECTION)))
    return None if found is None else scratch.folder_of(found.point, job.id)


def _raise_clocks(hook: Hook, note: Running) -> None:
    with hook.host.lock("jobs", _LOCK_SECONDS):
        from . import clocks  # loaded only where a job has GPUs

        hook.report.raised = note.gpus
        for text in clocks.raise_to_maximum(hook.host, note.gpus):
            hook.tell(text)


def _note_of(hook: Hook, job: Job) -> Running:
    """What the prolog noted, or an epilog before this one; else what slurmd tells of the job now."""
    earlier = jobs.read(hook.host, job.id, over=True)
    known = jobs.read(hook.host, job.id) or earlier
    if known is None:
        known = Running(job.id, job.uid, (), _folder(hook, job), job.sluid)
    if earlier is not None:  # of an earlier start, whose epilog was killed
        known = replaced(known, gpus=tuple(dict.fromkeys(known.gpus + earlier.gpus)))
    # A record that this job's user cannot have changed says more than the environment of an epilog.
    return known if known.gpus else replaced(known, gpus=_gpus(hook, job))


def _left_over(hook: Hook, note: Running) -> List[Running]:
    """Other jobs that are over, and whose own epilog does nothing for them any more: it was killed, or never came."""
    from ...slurm import running
    from ...slurm.client import Slurm  # a prolog does not ask slurmctld unless something is wrong

    host = hook.host
    found = [one for one in jobs.over(host) if one.id != note.id and not (one.by and processes.alive(host, one.by))]
    found = [one for one in found if not any(processes.alive(host, process) for process in one.stuck)]
    node = Slurm(host, "", hook.settings.scontrol)
    for one in running.find_ended(host, node, (note, *found)):
        hook.tell("job {0} ended without an epilog: its clocks and folders are taken back now".format(one.id))
        jobs.end(host, one, processes.this(host))
        found.append(one)
    return found


def _end_processes(hook: Hook, note: Running) -> Tuple[processes.Started, ...]:
    """What the job left on its GPUs is ended; returns what could not be, which is a finding."""
    from ...slurm import gpu_processes, leftovers

    grace = hook.settings.grace_seconds

    def act() -> List[leftovers.Process]:
        running = tuple(one for one in jobs.running(hook.host) if one.id != note.id)
        verdicts = [leftovers.judge(one, note, running) for one in gpu_processes.on_gpus(hook.host, note.gpus)]
        for one in verdicts:
            if not one.end and one.process.uid == note.uid:
                hook.tell("process {0} ({1}) stays: {2}".format(one.process.pid, one.process.command, one.why))
        chosen = [one.process for one in verdicts if one.end]
        left = gpu_processes.end(hook.host, chosen, grace)
        gone = [one for one in chosen if one not in left]
        hook.report.ended = tuple(one.pid for one in gone)
        for process in gone:
            text = "process {0} ({1}) of job {2} was still on a GPU and was ended"
            hook.tell(text.format(process.pid, process.command, note.id))
        return left

    left = hook.step("ending what the job left on its GPUs", _END_SECONDS + grace, act) or []
    if left:
        first = left[0]
        text = "GPU {0}: process {1} ({2}) of job {3} could not be ended"
        hook.report.finding = text.format(" ".join(first.gpus), first.pid, first.command, note.id)
        hook.tell(hook.report.finding + "; reboot the node when it stays.")
    return tuple((one.pid, one.start) for one in left)


def _return_clocks(hook: Hook, over: Tuple[Running, ...]) -> None:
    gpus = tuple(dict.fromkeys(gpu for one in over for gpu in one.gpus))
    if not gpus:
        return
    with hook.host.lock("jobs", _LOCK_SECONDS):
        from . import clocks

        free = jobs.unshared(gpus, jobs.running(hook.host))
        if free:
            hook.report.returned = free
            for text in clocks.return_to_declared(hook.host, free, hook.declared):
                hook.tell(text)


def _discard_folder(hook: Hook, note: Running) -> None:
    folder = note.folder
    if folder is None or jobs.read(hook.host, note.id) is not None:
        return  # a job that was requeued has started here again
    what = "removing the folder of job {0}".format(note.id)
    hook.step(what, scratch.LOOK_SECONDS + 1.0, lambda: scratch.discard(hook.host, folder, note.id))
    hook.report.folder = hook.report.folder or folder


def _forget(hook: Hook, over: Tuple[Running, ...], stuck: Tuple[processes.Started, ...]) -> None:
    if stuck:
        jobs.stay(hook.host, over[0], stuck)
    for one in over[1:] if stuck else over:
        jobs.forget(hook.host, one.id)


def _user_folders(hook: Hook, note: Running, gid: Optional[int], wanted: bool) -> None:
    """The folders of the user's containers: made before a job, and gone after the user's last one on this node.

    A prolog has noted its job before, and both hold the user's lock: an epilog sees the job, or the prolog makes anew
    what the epilog has removed.
    """
    section = hook.section(user_folders.SECTION)
    folders = user_folders.of_user(section, note.uid) if section is not None else ()
    if not folders or (not wanted and _another_runs(hook, note)):
        return
    from ...slurm import folder_work  # loaded only where containers are declared

    def act() -> None:
        with hook.host.lock("user-{0}".format(note.uid), _LOCK_SECONDS):
            if wanted:
                made = tuple(one for one in folders if not _on_lost_scratch(hook, one.top))
                folder_work.make(hook.host, made, note.uid, -1 if gid is None else gid)
            elif all(one.uid != note.uid for one in jobs.running(hook.host)):
                folder_work.remove(hook.host, folders)

    what = "making the folders of the user's containers" if wanted else "removing the folders of the user's containers"
    hook.step(what, _LOCK_SECONDS + scratch.LOOK_SECONDS, act)


def _another_runs(hook: Hook, note: Running) -> bool:
    """Whether a job without a note runs here, which may be this user's; also where that is not known. A later epilog or
    the cleanup removes what stays."""
    from ...slurm import on_node

    found = hook.step("looking for jobs without a note", _ASK_SECONDS, lambda: on_node.unnoted(hook.host, note))
    return found is None or bool(found)


def _on_lost_scratch(hook: Hook, path: str) -> bool:
    """Whether a path is that of a scratch that is not mounted. What is made there lies on the system disk, and keeps
    the scratch from being mounted again, as a mount would hide it."""
    place = next(iter(scratch.places(hook.section(scratch.SECTION))), None)
    if place is None or not (path + "/").startswith(place.rstrip("/") + "/"):
        return False
    if scratch.mounted(hook.host, (place,)) is not None:
        return False
    hook.tell("{0}: nothing is made there, as {1} is not mounted".format(path, place))
    return True


def _wait_for_active_checks(hook: Hook, seconds: float) -> None:
    """A run of active checks (``gpunode health --active``) fills the memory of all GPUs, so a job that starts beside it
    fails or is slow. From the note of this job on it begins no other check, and the current one may end within this
    time. It costs the node nothing if it does not: the job starts all the same.
    """
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        time.sleep(_POLL_SECONDS)
        if not hook.host.locked(ACTIVE_LOCK):
            text = "the job waited {0:.1f} s until a run of active checks (gpunode health --active) had ended"
            hook.tell(text.format(time.monotonic() - began))
            return
    text = (
        "a run of active checks (gpunode health --active) still loads this node after {0:g} s; the job starts beside "
        "it, and may find GPU memory in use; drain a node before such a run"
    )
    hook.tell(text.format(seconds))


def _healthy(hook: Hook, job: Job) -> bool:
    """The quick checks, where the gate was declared: whether the job may start on this node.

    A sick node takes no job, also when slurmctld does not answer: a failed prolog makes Slurm drain it. It takes one
    where the gate leaves the node in service: draining is switched off, or too many are drained and a person must look.
    """
    section = hook.section(HEALTH_GATE)
    if section is None or section.get("prolog") is not True:
        return True
    from . import health  # loaded only where the gate was declared

    def act() -> Tuple[Verdict, Optional[str]]:
        verdict = health.examined(hook.host, job.node, hook.tell)
        return verdict, health.failure(verdict) or health.owed(hook.host, job.node)

    verdict, sick = hook.step("checking the health", HEALTH_SECONDS, act) or (None, None)
    if verdict is None or sick is None:
        return True
    hook.report.finding = sick
    hook.tell(sick)
    done = hook.settle(
        "settling the node's state in Slurm", lambda: health.settled(hook.host, job.node, verdict, hook.tell)
    )
    if done is None:
        return False
    hook.report.decision, stays = done
    if stays:
        hook.tell("the job starts all the same: the node is left in service")
    return stays


def _health_after(hook: Hook, job: Job) -> None:
    """After a job, where that is wanted: the node is drained at once for what the job left it with."""
    section = hook.section(HEALTH_GATE)
    if section is None or section.get("epilog") is not True:
        return
    from . import health

    verdict = hook.step("checking the health", HEALTH_SECONDS, lambda: health.examined(hook.host, job.node, hook.tell))
    sick = None if verdict is None else health.failure(verdict)
    if verdict is None or sick is None:
        return
    hook.tell(sick)
    done = hook.settle(
        "settling the node's state in Slurm", lambda: health.settled(hook.host, job.node, verdict, hook.tell)
    )
    if done is not None:
        hook.report.decision = done[0]


def _short(error: NodeError) -> str:
    """The thing and the reason, for Slurm; the remedy is for the logs."""
    return "{0}: {1}".format(error.thing, error.reason)


def finding(host: Host) -> Optional[str]:
    """Why this node can take no job now, by the same checks that drain it; None: nothing is found."""
    try:
        scratch.look(host, declaration.read(host).get(scratch.SECTION))
    except NodeError as error:
        return _short(error)
    for job in jobs.over(host):
        for one in job.stuck:
            if processes.alive(host, one):
                return "process {0} of job {1}: it could not be ended and is still there".format(one[0], job.id)
    return None


def resume(host: Host, node: str, tell: Tell) -> Tuple[int, Report]:
    """Put this node back into service when we drained it and the cause is gone; nothing else is ever resumed.

    :raises NodeError: slurmctld cannot be asked.
    """
    hook = Hook(host, tell)
    with contextlib.suppress(NodeError):
        hook.declared = declaration.read(host)
    hook.report.finding = finding(host)
    from ...slurm.client import Slurm

    slurm = Slurm(host, node, hook.settings.scontrol)
    if hook.report.finding is not None:
        hook.report.decision = drain.Decision(drain.LEAVE, hook.report.finding)
        hook.tell(hook.report.finding)
        return 1, hook.report
    from ...health.gate import owing  # not wanted before a job

    hook.report.decision, dummy = slurm.settle(None, 0.0, owing.held(host, node, time.time()).reason)
    for job in jobs.over(host):
        if job.stuck:
            jobs.forget(host, job.id)
    return 0, hook.report
