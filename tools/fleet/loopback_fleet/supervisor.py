# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of a fleet. Whatever ends the first of them, the kernel ends all others and drops every mount.

supervisor (outside) -> keeper (in the new namespaces, as root there and nobody outside) -> init (its first process)
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import selectors
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple

from . import kernel, layer
from .node import Namespaces
from .places import Places
from .settings import FleetError, Node, Settings

# Fills a folder with what all nodes share.
Lay = Callable[[str], None]


def serve(places: Places, settings: Settings, until_input_ends: bool) -> None:
    """Make the fleet, print where its inventory is, and stay until there is an end to it."""
    if os.geteuid() != 0:
        raise FleetError("fleet: it makes namespaces and mounts, which root may; run it as root.")
    program, simulated = layer.sshd(), layer.simulator()
    places.make()
    lock = open(str(places.supervisor), "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(str(os.getpid()))
        lock.flush()
        _run(places, settings, until_input_ends, lambda top: _lay(top, places, settings, program, simulated))
    finally:
        places.remove()
        lock.close()


def _lay(top: str, places: Places, settings: Settings, program: Optional[Path], simulated: Path) -> None:
    os.mkdir(top + "/layer")
    layer.build(top + "/layer", places, settings, program, simulated)
    os.mkdir(top + "/tree")
    layer.sysfs(top + "/tree", settings.tree)


def _run(places: Places, settings: Settings, until_input_ends: bool, lay: Lay) -> None:
    stop, stopped = os.pipe()
    signal.signal(signal.SIGTERM, lambda *dummy: os.write(stopped, b"1"))
    signal.signal(signal.SIGINT, lambda *dummy: os.write(stopped, b"1"))
    mapped, map_written = os.pipe()
    # Held by everything inside that is not a node's: when it closes, the last of them is gone.
    alive, held = os.pipe()
    told, tell = os.pipe()
    keeper = os.fork()
    if keeper == 0:
        os.close(alive)
        os.close(told)
        os.close(map_written)
        _keeper(places, settings, lay, mapped, tell)
    os.close(held)
    os.close(tell)
    try:
        # An empty line asks for the ids; anything else is the sentence that it ended with.
        words = os.read(told, 1)
        if words == b"\n":
            words = b""
            for name in ("uid_map", "gid_map"):
                with open("/proc/{0}/{1}".format(keeper, name), "w") as stream:
                    stream.write("0 0 4294967295")
            os.write(map_written, b"1")
        while True:
            more = os.read(told, 4096)
            words += more
            if not more or words.endswith(b"\n"):
                break
        if not words.startswith(b"ready"):
            raise FleetError(words.decode(errors="replace").strip() or "fleet: it ended by itself; see its log.")
        print(places.inventory, flush=True)
        with selectors.DefaultSelector() as waiting:
            waiting.register(stop, selectors.EVENT_READ)
            waiting.register(alive, selectors.EVENT_READ)
            if until_input_ends:
                waiting.register(sys.stdin.fileno(), selectors.EVENT_READ)
            waiting.select()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(keeper, signal.SIGKILL)
        os.waitpid(keeper, 0)
        os.read(alive, 1)


def _keeper(places: Places, settings: Settings, lay: Lay, mapped: int, tell: int) -> None:
    """Never returns."""
    try:
        kernel.die_with_parent(signal.SIGKILL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.umask(0o022)
        # An overlay takes no folder with mounts below it that came from outside; a copy of the root has none.
        kernel.unshare(kernel.NEW_MOUNTS)
        kernel.mount("", "/", flags=kernel.RECURSIVE | kernel.PRIVATE)
        top = str(places.folder / "top")
        os.mkdir(top)
        kernel.mount("tmpfs", top, "tmpfs", 0, "mode=755")
        os.mkdir(top + "/machine")
        kernel.bind("/", top + "/machine", read_only=True)
        kernel.unshare(kernel.NEW_USER | kernel.NEW_MOUNTS | kernel.NEW_PROCESSES)
        os.write(tell, b"\n")
        os.read(mapped, 1)
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        kernel.die_with_parent(signal.SIGKILL)
        child = os.fork()
        if child == 0:
            kernel.die_with_parent(signal.SIGKILL)
            try:
                _init(places, settings, lay, top, tell)
            except BaseException as error:
                os.write(tell, "{0}\n".format(error).encode())
            finally:
                os._exit(1)
        os.close(tell)
        os.waitpid(child, 0)
    except BaseException as error:
        os.write(tell, "{0}\n".format(error).encode())
    finally:
        os._exit(1)


def _init(places: Places, settings: Settings, lay: Lay, top: str, tell: int) -> None:
    """Make the nodes and serve their connections."""
    log = os.open(str(places.log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 2)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    # The processes that are seen from here on are those of the fleet.
    kernel.mount("proc", "/proc", "proc")
    inner = top + "/inner"
    os.mkdir(inner)
    kernel.mount("tmpfs", inner, "tmpfs", 0, "mode=755,size=90%,nr_inodes=0")
    os.mkdir(inner + "/machine")
    kernel.bind(top + "/machine", inner + "/machine", read_only=True)
    os.mkdir(inner + "/nodes")
    lay(inner)
    homes = {node.number: Namespaces(node, inner) for node in settings.nodes}
    listeners, port = _listen([node for node in settings.nodes if not node.unreachable])
    places.write_inventory(settings, port)
    os.write(tell, b"ready\n")
    os.close(tell)
    with selectors.DefaultSelector() as waiting:
        for number, listener in listeners.items():
            waiting.register(listener, selectors.EVENT_READ, homes[number])
        while True:
            for key in [one[0] for one in waiting.select(timeout=1.0)]:
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    connection = key.fileobj.accept()[0]  # type: ignore[union-attr]
                    with connection:
                        connection.setblocking(True)
                        key.data.serve(connection, log)
            _reap()


def _listen(nodes: List[Node]) -> Tuple[Dict[int, socket.socket], int]:
    """All at one port, one that is free at every address."""
    until = time.monotonic() + 10.0
    while time.monotonic() < until:
        listeners: Dict[int, socket.socket] = {}
        port = 0
        try:
            for node in nodes:
                listener = listeners[node.number] = socket.socket()
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((node.address, port))
                listener.listen(32)
                listener.setblocking(False)
                port = listener.getsockname()[1]
            return listeners, port or 22
        except OSError as error:
            for listener in listeners.values():
                listener.close()
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError("no port is free at all addresses")


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
