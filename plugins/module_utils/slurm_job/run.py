# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a prolog and an epilog do, step by step.

A step that fails for good (the scratch is not there, a process cannot be ended) is a finding: the node is drained for
it. Everything else that goes wrong is told, and the job goes on. Each step has a time limit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from .. import declaration
from ..enroot import user_folders
from ..host import Host
from ..resource import NodeError
from . import drain, jobs, scratch
from .jobs import Running
from .slurm import Slurm
from .types import SECTION, Job, Settings

# Setting the clocks of eight healthy GPUs takes a fraction of a second.
CLOCKS_SECONDS = 15.0
HEALTH_SECONDS = 25.0
GATE_SECONDS = 30.0
HEALTH_GATE = "health_gate"
_LOCK_SECONDS = 20.0  # one other hook may be at its time limit
Tell = Callable[[str], None]


@dataclasses.dataclass
class Report:
    """What a hook did. ``finding`` is what the node was, or should be, drained for; ``notes`` were told already."""

    finding: Optional[str] = None
    decision: Optional[drain.Decision] = None
    folder: Optional[str] = None
    raised: Tuple[str, ...] = ()
    returned: Tuple[str, ...] = ()
    ended: Tuple[int, ...] = ()
    notes: List[str] = dataclasses.field(default_factory=list)

    def to_dict(self) -> Dict[str, Any]:
        return dataclasses.asdict(self)


class Hook:
    """One run of a hook. ``tell`` gets a sentence for the logs."""

    def __init__(self, host: Host, tell: Tell) -> None:
        self.host = host
        self.report = Report()
        self._tell = tell
        self.declared: Dict[str, Dict[str, Any]] = {}

    def tell(self, text: str) -> None:
        self.report.notes.append(text)
        self._tell(text)

    def section(self, name: str) -> Optional[Mapping[str, Any]]:
        return self.declared.get(name)

    @property
    def settings(self) -> Settings:
        return Settings.from_section(self.section(SECTION))

    @contextlib.contextmanager
    def cosmetic(self, what: str, seconds: float) -> Iterator[None]:
        """A step that may fail, or take too long, without holding the job."""
        try:
            with time_limit(seconds, what):
                yield
        except NodeError as error:
            self.tell("{0} ({1})".format(error, what))
        except Exception as error:  # a bug of ours must neither hold a job nor drain a node
            self.tell("{0}: {1}: {2}; report this as a bug.".format(what, type(error).__name__, error))

    def conclude(self, node: str) -> int:
        """Drain the node where something was found; the exit status for slurmd."""
        if self.report.finding is None:
            return 0
        with self.cosmetic("draining the node", 25.0):
            self.report.decision, before = Slurm(self.host, node, self.settings.scontrol).settle(self.report.finding)
            if self.report.decision.action == drain.LEAVE:
                text = "the node is left as it is, {0} (reason: {1})"
                self.tell(text.format(self.report.decision.why, before.reason or "none"))
        return 1


def prolog(host: Host, job: Job, tell: Tell) -> Tuple[int, Report]:
    hook = Hook(host, tell)
    try:
        hook.declared = declaration.read(host)
        # Also where no folder is wanted, the scratch has to be there.
        wanted = job if hook.settings.job_folder else None
        hook.report.folder = scratch.look(host, hook.section(scratch.SECTION), wanted)
    except NodeError as error:
        hook.report.finding = _short(error)
        hook.tell(str(error))
        return hook.conclude(job.node), hook.report
    except Exception as error:
        hook.tell("the scratch was not looked at: {0}: {1}; report this as a bug.".format(type(error).__name__, error))
    if not _healthy(hook, job):
        return 1, hook.report
    with hook.cosmetic("noting the job", _LOCK_SECONDS):
        jobs.write(host, Running(job.id, job.uid, job.gpus, hook.report.folder))
    _user_folders(hook, job, wanted=True)
    if job.gpus and hook.settings.clocks:
        with hook.cosmetic("raising the clocks", _LOCK_SECONDS + CLOCKS_SECONDS), host.lock("jobs", _LOCK_SECONDS):
            from . import clocks  # loaded only where a job has GPUs

            hook.report.raised = job.gpus
            for note in clocks.raise_to_maximum(host, job.gpus):
                hook.tell(note)
    return 0, hook.report


def epilog(host: Host, job: Job, tell: Tell) -> Tuple[int, Report]:
    hook = Hook(host, tell)
    try:
        hook.declared = declaration.read(host)
    except NodeError as error:  # the prolog of the next job drains for it
        hook.tell(str(error))
    known = jobs.read(host, job.id)
    if known is not None and not job.gpus:
        job = dataclasses.replace(job, gpus=known.gpus)  # not every version of Slurm tells an epilog
    stuck: Tuple[Tuple[int, int], ...] = ()
    if job.gpus and hook.settings.end_processes:
        stuck = _end_processes(hook, job)
    if job.gpus and hook.settings.clocks:
        _return_clocks(hook, job)
    folder = known.folder if known is not None else _folder(hook, job)
    if folder is not None:
        with hook.cosmetic("removing the folder of the job", scratch.REMOVE_SECONDS + 10.0):
            scratch.remove(host, folder, job)
            hook.report.folder = folder
    with hook.cosmetic("forgetting the job", _LOCK_SECONDS):
        if stuck:
            jobs.write(host, Running(job.id, job.uid, (), None, stuck))
        else:
            jobs.remove(host, job.id)
    _user_folders(hook, job, wanted=False)
    _health_after(hook, job)
    return hook.conclude(job.node), hook.report


def _healthy(hook: Hook, job: Job) -> bool:
    """The quick checks, where the gate was declared: whether the job may start on this node.

    A sick node takes no job, also when slurmctld does not answer: a failed prolog makes Slurm drain it. It takes one
    where the gate leaves the node in service: draining is switched off, or too many are drained and a person must look.
    """
    section = hook.section(HEALTH_GATE)
    if section is None or section.get("prolog") is not True:
        return True
    from ..health_gate import hooks  # loaded only where the gate was declared

    sick, stays = None, False
    with hook.cosmetic("checking the health", HEALTH_SECONDS):
        verdict = hooks.examined(hook.host, job.node, hook.tell)
        sick = hooks.failure(verdict)
    if sick is None:
        return True
    hook.report.finding = sick
    hook.tell(sick)
    with hook.cosmetic("settling the node's state in Slurm", GATE_SECONDS):
        hook.report.decision, stays = hooks.settled(hook.host, job.node, verdict, hook.tell)
    if stays:
        hook.tell("the job starts all the same: the node is left in service")
    return stays


def _health_after(hook: Hook, job: Job) -> None:
    """After a job, where that is wanted: the node is drained at once for what the job left it with."""
    section = hook.section(HEALTH_GATE)
    if section is None or section.get("epilog") is not True:
        return
    from ..health_gate import hooks

    sick = None
    with hook.cosmetic("checking the health", HEALTH_SECONDS):
        verdict = hooks.examined(hook.host, job.node, hook.tell)
        sick = hooks.failure(verdict)
    if sick is None:
        return
    hook.tell(sick)
    with hook.cosmetic("settling the node's state in Slurm", GATE_SECONDS):
        hook.report.decision, dummy = hooks.settled(hook.host, job.node, verdict, hook.tell)


def _user_folders(hook: Hook, job: Job, wanted: bool) -> None:
    """The folders of the user's containers: made before a job, and gone after the user's last one on this node.

    A prolog has noted its job before, and both hold the user's lock: an epilog sees the job, or the prolog makes anew
    what the epilog has removed.
    """
    section = hook.section(user_folders.SECTION)
    folders = user_folders.of_user(section, job.uid) if section is not None else ()
    if not folders:
        return
    from ..enroot import folder_work  # loaded only where containers are declared

    what = "making the folders of the user's containers" if wanted else "removing the folders of the user's containers"
    seconds = scratch.LOOK_SECONDS if wanted else scratch.REMOVE_SECONDS
    lock = "user-{0}".format(job.uid)
    with hook.cosmetic(what, _LOCK_SECONDS + seconds), hook.host.lock(lock, _LOCK_SECONDS):
        if wanted:
            folder_work.make(hook.host, folders, job.uid, -1 if job.gid is None else job.gid)
        elif all(one.uid != job.uid for one in jobs.others(hook.host, job)):
            folder_work.remove(hook.host, folders)


def _short(error: NodeError) -> str:
    """The thing and the reason, for Slurm; the remedy is for the logs."""
    return "{0}: {1}".format(error.thing, error.reason)


def _folder(hook: Hook, job: Job) -> Optional[str]:
    """Where the folder of a job that nobody noted would be."""
    found = scratch.mounted(hook.host, scratch.places(hook.section(scratch.SECTION)))
    return None if found is None else "{0}/{1}/{2}".format(found[0], scratch.JOBS, job.id)


def _end_processes(hook: Hook, job: Job) -> Tuple[Tuple[int, int], ...]:
    """What the job left on its GPUs is ended; returns what could not be, which is a finding."""
    from . import leftovers, processes

    left: List[leftovers.Process] = []
    with hook.cosmetic("ending what the job left on its GPUs", 40.0 + hook.settings.grace_seconds):
        running = jobs.others(hook.host, job)
        verdicts = [leftovers.judge(one, job, running) for one in processes.on_gpus(hook.host, job.gpus)]
        for one in verdicts:
            if not one.end and one.process.uid == job.uid:
                hook.tell("process {0} ({1}) stays: {2}".format(one.process.pid, one.process.command, one.why))
        chosen = [one.process for one in verdicts if one.end]
        left = processes.end(hook.host, chosen, hook.settings.grace_seconds)
        gone = [one for one in chosen if one not in left]
        hook.report.ended = tuple(one.pid for one in gone)
        for process in gone:
            text = "process {0} ({1}) of job {2} was still on a GPU and was ended"
            hook.tell(text.format(process.pid, process.command, job.id))
    if left:
        first = left[0]
        text = "GPU {0}: process {1} ({2}) of job {3} could not be ended"
        hook.report.finding = text.format(" ".join(first.gpus), first.pid, first.command, job.id)
        hook.tell(hook.report.finding + "; reboot the node when it stays.")
    return tuple((one.pid, one.start) for one in left)


def _return_clocks(hook: Hook, job: Job) -> None:
    what = "returning the clocks"
    with hook.cosmetic(what, _LOCK_SECONDS + CLOCKS_SECONDS), hook.host.lock("jobs", _LOCK_SECONDS):
        from . import clocks

        free = jobs.unshared(job.gpus, jobs.others(hook.host, job))
        if free:
            hook.report.returned = free
            for note in clocks.return_to_declared(hook.host, free, hook.section(clocks.SECTION)):
                hook.tell(note)


def finding(host: Host) -> Optional[str]:
    """Why this node can take no job now, by the same checks that drain it; None: nothing is found."""
    try:
        scratch.look(host, declaration.read(host).get(scratch.SECTION))
    except NodeError as error:
        return _short(error)
    for job in jobs.all_of(host):
        if not job.stuck:
            continue
        from . import processes

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
    slurm = Slurm(host, node, hook.settings.scontrol)
    if hook.report.finding is not None:
        hook.report.decision = drain.Decision(drain.LEAVE, hook.report.finding)
        hook.tell(hook.report.finding)
        return 1, hook.report
    hook.report.decision, dummy = slurm.settle(None)
    for job in jobs.all_of(host):
        if job.stuck:
            jobs.remove(host, job.id)
    return 0, hook.report


@contextlib.contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """:raises NodeError: in whatever stands within, when it takes longer. For the main thread, one at a time."""

    def up(dummy: int, frame: object) -> None:
        raise NodeError(what, "it took longer than {0:g} s".format(seconds), "look at the kernel log of the node")

    before = signal.signal(signal.SIGALRM, up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
