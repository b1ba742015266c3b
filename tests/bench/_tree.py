# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a command costs with everything that it starts, also what outlives it (the masters of ssh connections)."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import resource
import signal
import subprocess
import time
from typing import Dict, List, Mapping, Sequence

_CHILD_SUBREAPER = 36
_SAMPLE_SECONDS = 0.5


@dataclasses.dataclass(frozen=True)
class Cost:
    """``cpu_seconds``: of all processes. ``peak_bytes``: the most memory at a time, shared pages counted once."""

    cpu_seconds: float
    peak_bytes: int
    wall_seconds: float
    status: int


def measured(argv: Sequence[str], log: str, environment: Mapping[str, str], cwd: str) -> Cost:
    """Run it below a process that inherits whatever is left over, so that the kernel accounts for all."""
    reader, writer = os.pipe()
    meter = os.fork()
    if meter == 0:
        os.close(reader)
        try:
            os.write(writer, json.dumps(dataclasses.astuple(_meter(argv, log, environment, cwd))).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        told = stream.read()
    os.waitpid(meter, 0)
    return Cost(*json.loads(told))


def _meter(argv: Sequence[str], log: str, environment: Mapping[str, str], cwd: str) -> Cost:
    ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)
    began, peak = time.perf_counter(), 0
    with open(log, "w") as stream:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=dict(environment), cwd=cwd
        )
        while True:
            try:
                process.wait(_SAMPLE_SECONDS)
                break
            except subprocess.TimeoutExpired:
                peak = max(peak, sum(map(_memory, _descendants(os.getpid()))))
    wall = time.perf_counter() - began
    for one in _descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGTERM)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(used.ru_utime + used.ru_stime, peak, wall, process.returncode)


def _descendants(top: int) -> List[int]:
    children: Dict[int, List[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/{0}/stat".format(name)) as stream:
            children.setdefault(int(stream.read().rpartition(")")[2].split()[1]), []).append(int(name))
    found, pending = [], [top]
    while pending:
        more = children.get(pending.pop(), [])
        found += more
        pending += more
    return found


def _memory(process: int) -> int:
    """Its share of physical memory (PSS)."""
    with contextlib.suppress(OSError, StopIteration), open("/proc/{0}/smaps_rollup".format(process)) as stream:
        return int(next(line for line in stream if line.startswith("Pss:")).split()[1]) * 1024
    return 0
