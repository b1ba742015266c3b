# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``run`` is subprocess.run for Python programs of the collection; the imports are done once for all of them.

Most of the CPU time of a short program is the start of the interpreter and its imports. A server process imports the
whole library, loads no driver library, and forks a child for each run, with its own files, environment and session.
What an interpreter reads at its start (LD_LIBRARY_PATH, PYTHONPATH, the locale) cannot change in a fork, so each set of
these has a server of its own, from its second run on; that is the difference to forked.py, which has one server and
also runs modules. Everything that a fork cannot show, such as options of the interpreter, gets a new interpreter.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from typing import Any, Dict, List, Optional, Sequence, Tuple

COLLECTION = "ansible_collections.trainyard.gpu_node.plugins.module_utils"
NAME = "ansible_collections.trainyard.gpu_node.tests.unit.forked"
_START = ("LD_", "LC_", "LANG", "PYTHON", "MALLOC_", "GLIBC_")
_Key = Tuple[Tuple[str, str], ...]
_used: Dict[_Key, int] = {}
_servers: Dict[_Key, "_Server"] = {}
# This process is such a fork.
_forked = False


def run(
    words: Sequence[str],
    *,
    env: Optional[Dict[str, str]] = None,
    cwd: Optional[str] = None,
    stdin: Any = None,
    input: Optional[str] = None,
    stdout: Any = None,
    stderr: Any = None,
    capture_output: bool = False,
    timeout: Optional[float] = None,
    text: bool = False,
    check: bool = False,
    start_new_session: bool = False,
) -> "subprocess.CompletedProcess[Any]":
    """As subprocess.run. Output goes into a file: what a process left behind still writes is not waited for."""
    words = [str(word) for word in words]
    environment = dict(os.environ if env is None else env)
    key = tuple(sorted(one for one in environment.items() if one[0].startswith(_START)))
    _used[key] = _used.get(key, 0) + 1
    if capture_output:
        stdout = stderr = subprocess.PIPE
    if not _can_fork(words) or _used[key] == 1:
        return subprocess.run(
            words,
            env=environment,
            cwd=cwd,
            **({"stdin": stdin} if input is None else {"input": input if text else input.encode()}),
            stdout=stdout,
            stderr=stderr,
            timeout=timeout,
            text=text,
            check=check,
            start_new_session=start_new_session,
        )
    if key not in _servers:
        _servers[key] = _Server(dict(key))
    umask = os.umask(0)
    os.umask(umask)
    request = {"words": words[1:], "env": environment, "cwd": cwd or os.getcwd(), "session": start_new_session}
    request.update(umask=umask, cpus=sorted(os.sched_getaffinity(0)))
    with contextlib.ExitStack() as stack:
        if input is not None:
            stdin = stack.enter_context(tempfile.TemporaryFile())
            stdin.write(input.encode())
            stdin.seek(0)
        files = [_file(stack, one, place) for place, one in enumerate((stdin, stdout, stderr))]
        if stderr == subprocess.STDOUT:
            files[2] = files[1]
        status = _servers[key].run(request, files, timeout)
        output, errors = (
            _content(file, text) if one == subprocess.PIPE else None for file, one in zip(files[1:], (stdout, stderr))
        )
    if status is None:
        raise subprocess.TimeoutExpired(words, timeout or 0.0, output, errors)
    if check and status:
        raise subprocess.CalledProcessError(status, words, output, errors)
    return subprocess.CompletedProcess(words, status, output, errors)


def again(words: Sequence[str], content: bytes) -> "subprocess.CompletedProcess[bytes]":
    """What a program of run() starts with its own interpreter: [sys.executable, "-I", path, ...] with this input."""
    if not _forked:
        return subprocess.run(words, input=content, capture_output=True, check=False)
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for dummy in range(3)]
        files[0].write(content)
        files[0].seek(0)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        pid = os.fork()
        if not pid:
            atexit._clear()
            for place, file in enumerate(files):
                os.dup2(file.fileno(), place)
            # The input of this one has been read.
            sys.stdin = open(0, encoding=sys.stdin.encoding, errors=sys.stdin.errors, closefd=False)
            os._exit(_status([word for word in words[1:] if word != "-I"]))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return subprocess.CompletedProcess(words, status, _content(files[1], False), _content(files[2], False))


def _can_fork(words: Sequence[str]) -> bool:
    """A file, or code after ``-c``, for this interpreter without options."""
    return words[0] == sys.executable and len(words) > 1 and (words[1] == "-c" or not words[1].startswith("-"))


def _file(stack: contextlib.ExitStack, wanted: Any, place: int) -> Any:
    """What has a file descriptor, or is one."""
    if wanted is None:
        return place
    if wanted == subprocess.DEVNULL:
        return stack.enter_context(open(os.devnull, "r+b"))
    return stack.enter_context(tempfile.TemporaryFile()) if wanted in (subprocess.PIPE, subprocess.STDOUT) else wanted


def _content(file: Any, text: bool) -> Any:
    file.seek(0)
    content = file.read()
    return content.decode().replace("\r\n", "\n") if text else content


class _Server:
    def __init__(self, start: Dict[str, str]) -> None:
        self._control, theirs = socket.socketpair()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_START)}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                env=dict(kept, **start),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self._end, os.getpid())

    def _end(self, owner: int) -> None:
        if os.getpid() == owner:
            self._control.close()
            self._process.wait()

    def run(self, request: Dict[str, Any], files: Sequence[Any], timeout: Optional[float]) -> Optional[int]:
        """The status that it ended with, the negative number of a signal; None: it was killed at its time limit."""
        ours, theirs = socket.socketpair()
        with ours, tempfile.TemporaryFile() as asked:
            with theirs:
                asked.write(json.dumps(request).encode())
                asked.seek(0)
                places = [theirs.fileno(), asked.fileno()]
                places += [one if isinstance(one, int) else one.fileno() for one in files]
                socket.send_fds(self._control, [b"r"], places)
            with ours.makefile("r") as answers:
                pid = int(answers.readline())
                if not select.select([ours], [], [], timeout)[0]:
                    os.kill(pid, signal.SIGKILL)
                    answers.readline()
                    return None
                return int(answers.readline())


def _serve(control: socket.socket) -> List[str]:
    """Fork for each request. Returns in the child, with the words of its program."""
    _import_all()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, lambda *dummy: None)
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    running: Dict[int, socket.socket] = {}
    while True:
        ready = select.select([control, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
        while running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            with running.pop(pid) as answers:
                answers.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
        if control not in ready:
            continue
        message, files, dummy, dummy = socket.recv_fds(control, 1, 5)
        if not message:
            os._exit(0)
        pid = os.fork()
        if pid:
            running[pid] = socket.socket(fileno=files[0])
            running[pid].sendall(b"%d\n" % pid)
            for one in files[1:]:
                os.close(one)
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (control.detach(), woken, wake, files[0], *(one.detach() for one in running.values())):
            os.close(number)
        return _become(files[1:])


def _become(files: Sequence[int]) -> List[str]:
    with open(files[0], "rb") as asked:
        request = json.loads(asked.read())
    for place, number in enumerate(files[1:]):
        os.dup2(number, place)
        os.close(number)
    if request["session"]:
        os.setsid()
    os.umask(request["umask"])
    os.sched_setaffinity(0, request["cpus"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    global _forked
    _forked = True
    sys.modules[NAME] = sys.modules["__main__"]
    words: List[str] = request["words"]
    return words


def _import_all() -> None:
    """The whole library, and what modules import of Ansible. What cannot be imported fails in the program."""
    names = ["pynvml", "ansible.module_utils.basic"]
    with contextlib.suppress(ImportError):
        library = importlib.import_module(COLLECTION)
        names += [one.name for one in pkgutil.walk_packages(library.__path__, COLLECTION + ".")]
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _program(words: List[str]) -> None:
    main = types.ModuleType("__main__")
    if words[0] == "-c":
        source, sys.argv, sys.path[0], name = words[1], ["-c", *words[2:]], "", "<string>"
    else:
        with open(words[0], encoding="utf-8") as stream:
            source = stream.read()
        sys.argv, sys.path[0], name = list(words), os.path.dirname(os.path.abspath(words[0])), words[0]
        main.__file__ = name
    sys.modules["__main__"] = main
    exec(compile(source, name, "exec"), main.__dict__)


def _status(words: List[str]) -> int:
    """Run the program and end as an interpreter does, but do not take the imported modules apart."""
    status = 0
    try:
        try:
            _program(words)
        finally:
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(end.code + "\n")
        status = end.code & 0xFF if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        status = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            status = 120
    return status


if __name__ == "__main__":
    os._exit(_status(_serve(socket.socket(fileno=int(sys.argv[1])))))
