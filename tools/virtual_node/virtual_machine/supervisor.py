# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process beside each QEMU: it starts it, and ends it when nobody is left to want it.

Run as ``python3 -m virtual_machine.supervisor FOLDER OWNER_PID``. QEMU ends when its owner (0: none) has ended, when
the folder of the node is gone, when the supervisor is told to (SIGTERM), and by the kernel's hand when the supervisor
itself is killed. The supervisor holds the lock file ``running`` as long as QEMU runs: that is what "up" means.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Optional

_PR_SET_PDEATHSIG = 1
_WATCH_SECONDS = 0.5
_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)


def process_started(pid: int) -> Optional[str]:
    """When a process started, in clock ticks since boot; with the pid it names one process for ever. None: gone."""
    try:
        text = Path("/proc/{0}/stat".format(pid)).read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


def _prepare_child() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def main(folder: Path, owner: int) -> int:
    os.chdir(str(folder))
    handle = os.open("running", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.stderr.write("this node is running already\n")
        return 1
    identity = os.stat(".").st_ino
    owner_started = process_started(owner) if owner else None
    if owner and owner_started is None:
        sys.stderr.write("its owner, process {0}, has ended before it started\n".format(owner))
        return 1
    command = json.loads(Path("qemu.json").read_text())
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_prepare_child)
    Path("pids.json").write_text(json.dumps({"supervisor": os.getpid(), "qemu": child.pid}))
    reason = "ended by itself"
    while child.poll() is None:
        received = signal.sigtimedwait(_SIGNALS, _WATCH_SECONDS)
        if received is not None and received.si_signo != signal.SIGCHLD:
            reason = "was told to end"
        elif owner and process_started(owner) != owner_started:
            reason = "its owner, process {0}, has ended".format(owner)
        elif _gone(folder, identity):
            reason = "its folder is gone"
        else:
            continue
        child.terminate()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    sys.stderr.write("{0} QEMU {1}, status {2}\n".format(time.strftime("%H:%M:%S"), reason, child.returncode))
    return 0


def _gone(folder: Path, identity: int) -> bool:
    try:
        return os.stat(str(folder)).st_ino != identity
    except OSError:
        return True


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
