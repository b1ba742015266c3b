# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure in a process of its own, bound to a NUMA node, under a limit; and run tools that leave nothing behind.

What is started here ends with its parent, whatever ends that: a check that runs past its limit is killed, and a tool
that went on loading a GPU beside the next job would be worse than the fault it looked for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
import select
import signal
import subprocess
import time
from typing import Callable, Dict, Generic, Iterator, List, Mapping, Optional, Sequence, TypeVar

from ...core.child import Child, Report, at, die_with_parent, keep_only
from ...core.resource import NodeError
from . import bind

Answer = TypeVar("Answer")
# What decides which GPUs a process sees and in which order; an order by speed would swap GPUs of a mixed machine.
_OF_JOBS = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
# Without MPS: a daemon, which any user can start at its default place in /tmp, would limit or hold up what is measured,
# and its server stays on the GPUs. CUDA goes on without MPS if it reaches no daemon (nvidia-cuda-mps-control(1)).
_NO_MPS = "/dev/null"
_GPU = re.compile(r"GPU \S+( \(\S+\))?")
_GRACE_SECONDS = 10.0
#: What :func:`doing` gets in a child that waits for the others: it does not count as one that works.
WAITING = "wait for the other GPUs"
_MEANWHILE_SECONDS = 1.0


@dataclasses.dataclass(frozen=True)
class Task(Generic[Answer]):
    """``run`` is called in a child of its own, on a NUMA node. Its answer must be picklable."""

    thing: str
    run: Callable[[], Answer]
    node: Optional[int] = None
    cpus: Sequence[int] = ()


def measure(thing: str, seconds: float, task: Callable[[], Answer], node: Optional[int], cpus: Sequence[int]) -> Answer:
    """What ``task`` returns, run in a child on a NUMA node. The answer must be picklable.

    :raises NodeError: when it does not end within ``seconds``, or dies.
    """
    return side_by_side([Task(thing, task, node, cpus)], seconds)[0]()


def side_by_side(
    tasks: Sequence[Task[Answer]],
    seconds: float,
    meanwhile: Optional[Callable[[], None]] = None,
    ended: Optional[Callable[[int], None]] = None,
) -> List[Callable[[], Answer]]:
    """For each task, in their order, what returns its answer or raises its error, as :func:`measure` does.

    ``meanwhile`` is called about once a second while any of them runs; ``ended`` with the number of each task that has
    ended or does not answer.
    """
    parent = os.getpid()

    def in_child(report: Report, task: Task[Answer]) -> Iterator[Answer]:
        die_with_parent(parent)
        report(task.thing, seconds)
        _Inside.report = report
        bind.to_node(task.node, task.cpus)
        yield task.run()

    children = [Child(functools.partial(in_child, task=task), seconds, task.thing) for task in tasks]
    running, called = list(children), time.monotonic()
    try:
        while running:
            busy = [task.thing for task, child in zip(tasks, children) if child in running and child.label != WAITING]
            at(together(busy, len(tasks)) if busy else "")
            select.select(running, [], [], min(child.glance_seconds for child in running))
            left = [child for child in running if not child.look()]
            for child in running:
                if ended is not None and child not in left:
                    ended(children.index(child))
            running = left
            if meanwhile is not None and running and time.monotonic() - called >= _MEANWHILE_SECONDS:
                meanwhile()
                called = time.monotonic()
    finally:
        at("")
        for child in children:
            child.close()
    return [functools.partial(_answer, task.thing, child, seconds) for task, child in zip(tasks, children)]


def together(things: Sequence[str], tasks: int) -> str:
    """What a progress line shows for the ``things`` of ``tasks`` that still run: ``GPU 3 (0000:0b:00.0)``,
    ``all 8 GPUs``. Pure."""
    if len(things) == 1:
        return things[0]
    if all(_GPU.fullmatch(one) for one in things):
        return "{0}{1} GPUs".format("all " if len(things) == tasks else "", len(things))
    return "{0} and {1} more".format(things[0], len(things) - 1)


class _Inside:
    """Of a child that measures: how it reports to its parent."""

    report: Optional[Report] = None


def doing(words: str, seconds: float) -> None:
    """In a child: from now on it does ``words`` (``kernel write, pattern 1 of 6``), and no longer than ``seconds``.

    The error of a child that does not end in time, or dies, names this.
    """
    if _Inside.report is not None:
        _Inside.report(words, seconds)


def _answer(thing: str, child: Child[Answer], seconds: float) -> Answer:
    if child.error is not None:
        raise child.error
    if child.items:
        return child.items[0]
    during = child.died_at or child.hung_at
    if child.died_at is not None:
        remedy = "look at the kernel log for an Xid or an out-of-memory kill"
        at = "" if during == thing else " ({0})".format(during)
        raise NodeError(thing, "the process that measured it died" + at, remedy)
    remedy = "look at the kernel log for the device, then reboot the node"
    if during in (None, thing):
        raise NodeError(thing, "measuring it did not end within {0:g} s".format(seconds), remedy)
    raise NodeError(thing, "it did not end in time: {0}".format(during), remedy)


@dataclasses.dataclass(frozen=True)
class Ended:
    """A tool that ended; its two outputs as text."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def words(self) -> str:
        """What a person would quote of it, in one line."""
        lines = [line.strip() for line in (self.stderr + "\n" + self.stdout).splitlines() if line.strip()]
        return " ".join(lines)[:200] or "exit status {0}".format(self.returncode)


def run(argv: Sequence[str], seconds: float, environment: Mapping[str, str], stop: int = signal.SIGKILL) -> Ended:
    """Run a tool to its end, in the C locale, without a terminal. ``stop`` is the signal that ends it cleanly.

    :raises NodeError: when it cannot be started or runs past its limit. Its exit status is not judged here.
    """
    with started(argv, environment, stop) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as error:
            remedy = "run it by hand on the node, and look at the kernel log"
            raise NodeError(argv[0], "it did not end within {0:g} s".format(seconds), remedy) from error
    return Ended(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


@contextlib.contextmanager
def started(
    argv: Sequence[str], environment: Mapping[str, str], stop: int = signal.SIGKILL
) -> "Iterator[subprocess.Popen[bytes]]":
    """A tool that runs while the block does, and not longer."""
    parent = os.getpid()
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            cwd="/",
            start_new_session=True,  # a signal reaches all that it starts
            preexec_fn=lambda: _prepare(parent, stop),
        )
    except OSError as error:
        raise NodeError(argv[0], "it cannot be started ({0})".format(error.strerror), "look at its file") from error
    with _guarded(process.pid, stop):
        try:
            yield process
        finally:
            _end(process, stop)


@contextlib.contextmanager
def _guarded(group: int, stop: int) -> Iterator[None]:
    """What a tool has started (a script of the site) ends, too, if this process is killed meanwhile: the kernel would
    end the tool alone. A process of its own waits for that."""
    reading, writing = os.pipe()
    try:
        guard = os.fork()
    except OSError:  # the node has no process left: the kernel still ends the tool itself
        os.close(reading)
        os.close(writing)
        yield
        return
    if guard == 0:
        try:
            os.setsid()  # ^C is not for it
            keep_only(reading)
            if not os.read(reading, 1):  # the other end was closed without a word
                _end_group(group, stop)
        finally:
            os._exit(0)
    os.close(reading)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # somebody ended the guard
            os.write(writing, b"1")
        os.close(writing)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(guard, 0)


def _end_group(group: int, stop: int) -> None:
    """The kernel has sent ``stop`` to the tool itself, so that one is given some time before all of them get it."""
    with contextlib.suppress(OSError):  # until there is nobody left
        for number in () if stop == signal.SIGKILL else (0, stop):
            os.killpg(group, number)
            deadline = time.monotonic() + _GRACE_SECONDS / 2
            while time.monotonic() < deadline:
                time.sleep(0.05)
                os.killpg(group, 0)
        os.killpg(group, signal.SIGKILL)


def _prepare(parent: int, stop: int) -> None:
    """In the new process. What a shell starts with ``&`` ignores SIGINT, and hands that on to all that it starts."""
    if stop != signal.SIGKILL:
        signal.signal(stop, signal.SIG_DFL)
    die_with_parent(parent, stop)


def _end(process: "subprocess.Popen[bytes]", stop: int) -> None:
    if process.poll() is None and stop != signal.SIGKILL:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, stop)
        deadline = time.monotonic() + _GRACE_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
    # Also after it has ended: what it started may still be there, in its group.
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_GRACE_SECONDS)


def environment(gpus: Sequence[str] = (), more: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
    """That of a tool: the C locale, and these GPUs (UUIDs) in the order of their PCI addresses; none given: all."""
    kept = {name: value for name, value in os.environ.items() if name not in _OF_JOBS}
    kept.update(LC_ALL="C", LANGUAGE="C", CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_MPS_PIPE_DIRECTORY=_NO_MPS)
    if gpus:
        kept["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    kept.update(more or {})
    return kept


def become(gpus: Sequence[str]) -> None:
    """Make the environment of this process that of a tool, before it loads CUDA.

    Other variables of CUDA (``CUDA_DISABLE_PTX_JIT``, ``CUDA_LAUNCH_BLOCKING``) would change the measurement. The
    driver keeps compiled kernels in the home directory unless told not to, and would run what it finds there.
    """
    wanted = environment(gpus)
    own = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_MPS_PIPE_DIRECTORY")
    wanted = {name: value for name, value in wanted.items() if not name.startswith("CUDA_") or name in own}
    wanted["CUDA_CACHE_DISABLE"] = "1"
    for name in set(os.environ) - set(wanted):
        del os.environ[name]
    os.environ.update(wanted)
