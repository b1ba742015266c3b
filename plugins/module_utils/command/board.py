# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode board``: TensorBoard on the loopback address, for as long as the job."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import contextlib
import os
import pwd
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..core.child import die_with_parent
from ..core.host import Host
from ..core.machine import whole_name
from ..core.resource import Misuse, NodeError, printable
from .exit_status import DONE
from .output import print_json

LOOPBACK = "127.0.0.1"
# With its libraries on a network file system it takes a while to start.
_START_SECONDS, _END_SECONDS, _POLL_SECONDS = 180.0, 10.0, 0.2
_TABLE, _LISTENS = "/proc/net/tcp", "0A"
# Somebody else may take a port between our look and its start.
_TRIES = 3
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HOST = r"(?:[A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9][A-Za-z0-9._-]*(?::[0-9]{1,5})?"
LOCAL_PORT = 6006
DETAILS = """It starts the TensorBoard of the environment that is active, for the loopback
address only, and stays with it: ^C or the end of the job ends both. TensorBoard
has no password, so it is never bound to the network. Other users of the same
node can read it.

exit status: 0 it was ended, 1 it did not start or broke off, 2 wrong use

examples:
  gpunode board --logdir logs
  gpunode board --logdir logs --jump login.example.org
  srun --jobid=4711 --overlap --pty gpunode board --logdir logs
                                   beside a job that runs
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "TensorBoard on this node's loopback address, with the ssh line to reach it."
    parser.epilog = DETAILS
    parser.add_argument("--logdir", metavar="DIR", required=True, help="the folder with the event files")
    parser.add_argument("--jump", metavar="HOST", help="the machine to go through, as ssh -J takes it")
    parser.add_argument(
        "--local-port", type=int, default=LOCAL_PORT, metavar="PORT", help="the port on your machine (default: 6006)"
    )
    parser.add_argument("--program", metavar="FILE", help="another TensorBoard than that in PATH")


class _Ended(Exception):
    """Somebody ended the command."""


def run(host: Host, arguments: argparse.Namespace) -> int:
    folder = os.path.abspath(arguments.logdir)
    program = checked(host, arguments, folder)
    with _signals():
        try:
            process, port = _started(program, folder)
            try:
                _tell(arguments, port)
                status = process.wait()
            finally:
                _end(process)
        except _Ended:
            return DONE
    raise NodeError("TensorBoard", "it ended with status {0}".format(status), "look at its own words above")


def checked(host: Host, arguments: argparse.Namespace, folder: str) -> str:
    """The program to start.

    :raises Misuse: an option means nothing.
    :raises NodeError: the folder or the program is not there.
    """
    if not 1 <= arguments.local_port <= 65535:
        raise Misuse("option --local-port {0}".format(arguments.local_port), "it is no port", "give 1 to 65535")
    if arguments.jump is not None and not re.fullmatch(_HOST + "(?:," + _HOST + ")*", arguments.jump):
        remedy = "give it as ssh -J takes it, such as login.example.org or alice@login.example.org:2222"
        raise Misuse("option --jump {0}".format(arguments.jump), "it is no host", remedy)
    if not arguments.logdir:  # the variable of a script that is not set
        raise Misuse("option --logdir", "it is empty", "name the folder with the event files")
    if not os.path.isdir(folder) or not os.access(folder, os.R_OK | os.X_OK):
        raise NodeError(arguments.logdir, "it is no folder that you can read", "name the folder with the event files")
    program = host.which(arguments.program or "tensorboard")
    if program is None:
        if arguments.program:
            raise NodeError(arguments.program, "there is no such program", "name the file of a TensorBoard")
        remedy = "activate one that has it, or name it with --program"
        raise NodeError("tensorboard", "it is not installed in the environment that is active", remedy)
    return program


def _started(program: str, folder: str) -> "Tuple[subprocess.Popen[bytes], int]":
    """A TensorBoard that answers, and its port.

    :raises NodeError: it does not.
    """
    for left in range(_TRIES - 1, -1, -1):
        port = _free_port()
        process = _start(program, folder, port)
        try:
            status = _until_it_answers(process, port)
        except BaseException:
            _end(process)
            raise
        if status is None:
            return process, port
        if left == 0 or listener(_TABLE, port) is None:
            reason = "it ended with status {0}".format(status)
            raise NodeError("TensorBoard", reason, "look at its own words above")
    raise AssertionError("unreachable")


def _start(program: str, folder: str, port: int) -> "subprocess.Popen[bytes]":
    argv = [program, "--logdir", folder, "--host", LOOPBACK, "--port", str(port)]
    parent = os.getpid()
    try:
        return subprocess.Popen(  # pylint: disable=consider-using-with,subprocess-popen-preexec-fn # it outlives this
            argv, stdin=subprocess.DEVNULL, stdout=sys.stderr, preexec_fn=lambda: _prepare(parent)
        )
    except OSError as error:
        remedy = "look at its file"
        raise NodeError(program, "it cannot be started ({0})".format(error.strerror), remedy) from error


def _prepare(parent: int) -> None:
    """In the new process: it ends with this command, whatever ends that."""
    for one in _ENDS:
        signal.signal(one, signal.SIG_DFL)
    die_with_parent(parent, signal.SIGTERM)


def _until_it_answers(process: "subprocess.Popen[bytes]", port: int) -> Optional[int]:
    """None: it answers. Else its status, as it has ended."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        status = process.poll()
        if status is not None:
            return status
        if listener(_TABLE, port) == os.getuid():
            return None
        time.sleep(_POLL_SECONDS)
    reason = "it did not answer within {0:g} s".format(_START_SECONDS)
    raise NodeError("TensorBoard", reason, "look at its own words above, and at the file system of its environment")


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.bind((LOOPBACK, 0))
        port: int = one.getsockname()[1]
        return port


def listener(table: str, port: int) -> Optional[int]:
    """The user who listens on that port of the loopback address, by a table of the kernel's; None: nobody does.

    To connect would say that somebody does, and not who.
    """
    try:
        with open(table, encoding="ascii", errors="replace") as stream:
            rows = [line.split() for line in stream]
    except OSError:
        return None
    wanted = "0100007F:{0:04X}".format(port)  # in the order of the bytes of x86 and of Arm
    found = [row[7] for row in rows if len(row) > 7 and row[1] == wanted and row[3] == _LISTENS]
    return int(found[0]) if found else None


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """What ends this command ends what it started first."""

    def ended(*dummy: Any) -> None:
        for one in _ENDS:
            signal.signal(one, signal.SIG_IGN)
        raise _Ended

    before = {one: signal.signal(one, ended) for one in _ENDS}
    try:
        yield
    finally:
        for one, how in before.items():
            signal.signal(one, how)


def ssh_line(user: str, node: str, port: int, local_port: int, jump: Optional[str]) -> str:
    """Pure."""
    words = ["ssh", "-N", "-L", "{0}:{1}:{2}".format(local_port, LOOPBACK, port)]
    words += ["-J", jump] if jump else []
    return " ".join(shlex.quote(word) for word in [*words, "{0}@{1}".format(user, node)])


def _tell(arguments: argparse.Namespace, port: int) -> None:
    node = whole_name()
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = os.environ.get("USER") or str(os.getuid())
    line = ssh_line(user, node, port, arguments.local_port, arguments.jump)
    url = "http://localhost:{0}/".format(arguments.local_port)
    if arguments.json:
        found: Dict[str, Any] = {"node": node, "address": LOOPBACK, "port": port, "ssh": line, "url": url}
        print_json(found)
    else:
        lines: List[str] = [
            "TensorBoard runs on {0}, on its loopback address only".format(node),
            "on your own machine:",
            "  " + line,
            "then open {0}".format(url),
            "every user of {0} can read it; it ends with ^C, or with the job".format(node),
        ]
        print("\n".join(printable(one) for one in lines))
    sys.stdout.flush()
