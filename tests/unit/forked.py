# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run Python code in a process of its own, in a tenth of the CPU time of a new interpreter.

``run([path, *arguments])`` and ``run(["-c", code, *arguments])`` are :func:`subprocess.run` with this interpreter. A
server imports what the code imports, and forks a process for each run: it has its own environment, arguments, standard
files and exit status, and no state of the tests or of an earlier run. Of the process that calls it it has the folder,
the umask and the CPUs, and no limits, signals or other file descriptors.

What it cannot do, and a real interpreter can: import errors that depend on the order of imports, options and variables
of the interpreter (``-I``, ``PYTHON*``), locales, and libraries that the loader finds by ``LD_LIBRARY_PATH`` (those in
its folders are loaded before the code runs, so that their names find them).
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import glob
import importlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set

#: What a run has imported of these is imported in the server, so that the next run has it.
KEPT = ("ansible.module_utils.", "ansible_collections.trainyard.gpu_node.plugins.", "pynvml")
# By its name, so that a run which imports this module has the same one.
SERVE = """
import socket, sys
from ansible_collections.trainyard.gpu_node.tests.unit import forked
forked.serve(socket.socket(fileno=int(sys.argv[1])))
"""
_lock = threading.Lock()
# What processes of this one have imported, in a process of run().
_imported: Set[str] = set()
_server: Optional["Server"] = None


def run(
    words: Sequence[str],
    input: str = "",  # pylint: disable=redefined-builtin  # the name of subprocess.run
    env: Optional[Mapping[str, str]] = None,
    timeout: float = 60,
    check: bool = False,
    folder: str = "",
) -> "subprocess.CompletedProcess[str]":
    """In the folder ``folder``, or this process's.

    :raises subprocess.TimeoutExpired: it is killed then; what it has started is not.
    :raises subprocess.CalledProcessError: with ``check``."""
    global _server
    with _lock:
        if _server is None or _server.owner != os.getpid():  # a fork of the test process has a server of its own
            _server = Server()
    done = _server.run(list(words), input, dict(os.environ if env is None else env), folder, timeout)
    if check:
        done.check_returncode()
    return done


class Server:
    """The client's side of the process that forks."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.known: Set[str] = set()
        self.control, other = socket.socketpair()
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(other.fileno())],
            env=dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path)),
            pass_fds=[other.fileno()],
            stdin=subprocess.DEVNULL,
        )
        other.close()
        atexit.register(self.stop)

    def stop(self) -> None:
        """It ends by the end of its input; its CPU time counts as that of this process when it is waited for."""
        if self.owner == os.getpid():
            self.control.close()
            self.process.wait()

    def run(self, words: List[str], text: str, env: Dict[str, str], folder: str, timeout: float) -> Any:
        mine, other = socket.socketpair()
        files = [os.memfd_create(name) for name in ("input", "output", "errors")]
        try:
            _write(files[0], text.encode())
            os.lseek(files[0], 0, os.SEEK_SET)
            umask = os.umask(0)
            os.umask(umask)
            told = {
                "words": words,
                "env": env,
                "folder": folder or os.getcwd(),
                "umask": umask,
                "cpus": sorted(os.sched_getaffinity(0)),
                "path": [path for path in sys.path if path],
                "import": sorted(self.known),
            }
            with _lock:
                socket.send_fds(self.control, [b"r"], [other.fileno(), *files])
            other.close()
            mine.settimeout(timeout)
            _write(mine.fileno(), json.dumps(told).encode() + b"\n")
            status = self._status(mine, words, timeout)
            output, errors = (_read(one).decode(errors="replace") for one in files[1:])
            return subprocess.CompletedProcess([sys.executable, *words], status, output, errors)
        finally:
            mine.close()
            for one in files:
                os.close(one)

    def _status(self, mine: socket.socket, words: List[str], timeout: float) -> int:
        pid, deadline = 0, time.monotonic() + timeout
        with mine.makefile("r", encoding="utf-8") as lines:
            while True:
                try:
                    mine.settimeout(max(deadline - time.monotonic(), 0.001))
                    line = lines.readline()
                except OSError as error:
                    if pid:
                        os.kill(pid, signal.SIGKILL)
                    raise subprocess.TimeoutExpired(words, timeout) from error
                assert line, "the process that forks has ended"
                told = json.loads(line)
                pid = told.get("pid", pid)
                self.known.update(told.get("imported", ()))
                if "status" in told:
                    return int(told["status"])


def _write(number: int, content: bytes) -> None:
    while content:
        content = content[os.write(number, content) :]


def _read(number: int) -> bytes:
    return os.pread(number, os.fstat(number).st_size, 0)


def serve(control: socket.socket) -> None:
    """Fork for each request until the client ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client ends by it, and its end is this one's
    while True:
        content, files, dummy, dummy = socket.recv_fds(control, 1, 4)
        if not content:
            return
        for one in files:
            os.set_inheritable(one, False)
        conn = socket.socket(fileno=files[0])
        with conn.makefile("r", encoding="utf-8") as stream:
            told = json.loads(stream.readline())
        sys.path[:] = told["path"]
        for name in told["import"]:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        gc.collect()
        gc.freeze()
        if os.fork() == 0:
            _watch(told, conn, files[1:])
        for one in files[1:]:
            os.close(one)
        conn.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _watch(told: Dict[str, Any], conn: socket.socket, files: List[int]) -> None:
    """Wait for the process of one run, and tell how it ended."""
    pid = os.fork()
    if pid == 0:
        os.chdir(told["folder"])
        os.umask(told["umask"])
        os.sched_setaffinity(0, told["cpus"])
        os.environ.clear()
        os.environ.update(told["env"])
        time.tzset()
        _become(told["words"], files, conn)
    _send(conn, pid=pid)
    for one in files:
        os.close(one)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    _send(conn, status=code)
    os._exit(0)


def _send(conn: socket.socket, **told: Any) -> None:
    with contextlib.suppress(OSError):
        conn.sendall(json.dumps(told).encode() + b"\n")


def _become(words: List[str], files: List[int], conn: Optional[socket.socket] = None, told: int = -1) -> None:
    """This process is a new interpreter from now on; it ends here. What it has imported goes to either."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    before = set(sys.modules)
    for target, one in enumerate(files):
        os.dup2(one, target)
    for one in files:
        os.close(one)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2)  # type: ignore[misc]
    tempfile.tempdir = None
    status = 1
    try:
        for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
            for library in sorted(glob.glob(os.path.join(folder, "lib*.so*"))) if folder else ():
                ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
        status = _execute(words)
        atexit._run_exitfuncs()
        threading._shutdown()  # type: ignore[attr-defined]
    except BaseException:  # an interpreter ends so, too
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        imported = [name for name in set(sys.modules) - before if name.startswith(KEPT)]
        if conn is not None:
            _send(conn, imported=[*imported, *_imported])
        else:
            _write(told, json.dumps(imported).encode())
        os._exit(status)


def _stream(number: int) -> io.TextIOWrapper:
    errors = "backslashreplace" if number == 2 else "strict"
    return open(number, "w", encoding="utf-8", errors=errors, closefd=False, buffering=1 if number == 2 else -1)  # type: ignore[return-value]


def _execute(words: List[str]) -> int:
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    if words[0] == "-c":
        source, name, sys.argv = words[1], "<string>", ["-c", *words[2:]]
    else:
        name, sys.argv = words[0], list(words)
        with open(name, encoding="utf-8") as stream:
            source = stream.read()
        main.__file__ = name
        sys.path.insert(0, os.path.dirname(os.path.abspath(name)))
    try:
        exec(compile(source, name, "exec"), main.__dict__)  # pylint: disable=exec-used
        return 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)
        return 1


def again(words: Sequence[str], content: bytes) -> "subprocess.CompletedProcess[bytes]":
    """A process of a process of :func:`run`: what this one has imported is there."""
    files = [os.memfd_create(name) for name in ("input", "output", "errors")]
    told = os.memfd_create("imported")
    _write(files[0], content)
    os.lseek(files[0], 0, os.SEEK_SET)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    pid = os.fork()
    if pid == 0:
        atexit._clear()
        _become(list(words), files, None, told)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    done = subprocess.CompletedProcess(list(words), code, _read(files[1]), _read(files[2]))
    _imported.update(json.loads(_read(told) or b"[]"))
    for one in (*files, told):
        os.close(one)
    return done
