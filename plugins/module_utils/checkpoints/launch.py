# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start azcopy so that no secret is on a command line, it keeps off the cores of others, and it ends with us.

azcopy takes a shared access signature only as a part of a URL on its command line, which everybody on the machine can
read in /proc. So it is started with a word that says nothing in that place, and with the real one in its environment,
which only its owner can read. The kernel stops it at its first instruction, since we trace it; then the pointer to that
word in its array of arguments is set to the text in its environment, and it runs on, untraced. /proc shows the memory
where the command line was, and that is never written to.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import subprocess
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ..core import processes
from ..core.host import Host
from ..core.resource import NodeError
from .words import Hidden, Word, shown

_VARIABLE = "GPU_NODE_WORD_"
# ptrace(2), prctl(2).
_TRACEME, _DETACH = 0, 17
_SET_PDEATHSIG = 1
_POINTER = struct.calcsize("P")
_LONGEST = 32
# Both ends of a pipe that nobody writes to.
_SILENT: List[int] = []


def start(
    program: str,
    words: Sequence[Word],
    environment: Mapping[str, str],
    cpus: Optional[Tuple[int, ...]] = None,
) -> "subprocess.Popen[bytes]":
    """Its output is a pipe. ``cpus``: the only ones that it may run on; None leaves them as they are.

    :raises NodeError: it cannot be started, or not without showing a secret.
    """
    hidden = {place: word.real for place, word in enumerate(words, start=1) if isinstance(word, Hidden)}
    whole = dict(environment)
    whole.update({_VARIABLE + str(place): real for place, real in hidden.items()})
    library = ctypes.CDLL(None, use_errno=True)
    library.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    library.ptrace.restype = ctypes.c_long

    def before() -> None:
        library.prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if cpus:
            with contextlib.suppress(OSError):  # a cpuset may have changed meanwhile
                os.sched_setaffinity(0, cpus)
        if hidden and library.ptrace(_TRACEME, 0, None, None) != 0:
            os._exit(126)

    argv = [program, *shown(words)]
    try:
        child = subprocess.Popen(  # pylint: disable=consider-using-with,subprocess-popen-preexec-fn
            argv,
            stdin=_silence(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=whole,
            preexec_fn=before,
            start_new_session=True,  # a Ctrl-C is ours to handle
        )
    except OSError as error:
        raise NodeError(program, "it cannot be started ({0})".format(error.strerror), "install azcopy anew") from error
    if hidden:
        _uncover(library, child, hidden, len(argv))
    return child


def _silence() -> int:
    """A standard input that is silent and does not end: azcopy (10.x) waits there for a word of a person, and at its
    end asks again and again, which takes a core from the job for as long as it copies."""
    if not _SILENT:
        _SILENT.extend(os.pipe())
    return _SILENT[0]


def _uncover(library: ctypes.CDLL, child: "subprocess.Popen[bytes]", hidden: Mapping[int, str], count: int) -> None:
    done = script = False
    try:
        dummy, status = os.waitpid(child.pid, 0)
        if os.WIFSTOPPED(status):
            with open("/proc/{0}/mem".format(child.pid), "r+b", buffering=0) as memory:
                stack = _stack(child.pid)
                script = _read(memory.fileno(), stack) != count
                if not script:
                    _point(memory.fileno(), stack, hidden)
            done = not script and library.ptrace(_DETACH, child.pid, None, None) == 0
        else:
            child.returncode = 126
    except (OSError, ValueError, struct.error):
        done = False
    if not done:
        if child.returncode is None:
            child.kill()
            library.ptrace(_DETACH, child.pid, None, None)
            child.wait()
        if child.stdout is not None:
            child.stdout.close()
        if script:
            raise NodeError(
                str(child.args[0]) if isinstance(child.args, list) else "azcopy",
                "it is a script, which would have the signature on the command line of what it calls",
                "have azcopy itself in the search path, or use msi, workload or spn",
            )
        raise NodeError(
            "auth sas_file",
            "this system forbids tracing a program of one's own (ptrace), so everybody could read the signature on "
            "azcopy's command line",
            "allow it (kernel.yama.ptrace_scope of 0 or 1, no seccomp filter against it), or use msi, workload or spn",
        )


def _stack(pid: int) -> int:
    """The address where the stack began, at which the kernel put the count of arguments."""
    found = processes.stat(Host(), pid)
    return (found and found.number(processes.STARTSTACK)) or 0


def _point(memory: int, stack: int, hidden: Mapping[int, str]) -> None:
    """Argument ``place`` becomes the value of the variable that carries it."""
    first = stack + _POINTER
    place = first + (_read(memory, stack) + 1) * _POINTER
    values: Dict[int, int] = {}
    while True:
        address = _read(memory, place)
        if not address:
            break
        text = os.pread(memory, _LONGEST, address).split(b"\0", 1)[0]
        name, equals, dummy = text.partition(b"=")
        digits = name[len(_VARIABLE) :]
        if equals and name.startswith(_VARIABLE.encode()) and digits.isdigit():
            values[int(digits)] = address + len(name) + 1
        place += _POINTER
    for number in hidden:
        os.pwrite(memory, struct.pack("P", values[number]), first + number * _POINTER)


def _read(memory: int, address: int) -> int:
    found: int = struct.unpack("P", os.pread(memory, _POINTER, address))[0]
    return found
