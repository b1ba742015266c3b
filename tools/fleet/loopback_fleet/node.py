# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node: mounts and a host name of its own, kept by two handles without any process in it."""

from __future__ import annotations

import os
import signal
import socket
from typing import List, Tuple

from . import kernel
from .settings import Node

# What there is of /dev.
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


class Namespaces:
    """``top``: the folder of the fleet's own file system with the layers and the machine's root."""

    def __init__(self, node: Node, top: str) -> None:
        self.node = node
        self.top = top
        self.mounts, self.uts = self._make()

    def _make(self) -> Tuple[int, int]:
        ready, made = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ready)
            try:
                kernel.unshare(kernel.NEW_MOUNTS | kernel.NEW_UTS)
                self._furnish()
                os.write(made, b"1")
                signal.pause()
            except BaseException as error:
                os.write(made, str(error).encode())
            finally:
                os._exit(1)
        os.close(made)
        try:
            told = os.read(ready, 4096)
            if told != b"1":
                raise OSError("{0}: {1}".format(self.node.name, told.decode(errors="replace")))
            folder = "/proc/{0}/ns/".format(child)
            return os.open(folder + "mnt", os.O_RDONLY), os.open(folder + "uts", os.O_RDONLY)
        finally:
            os.close(ready)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def _furnish(self) -> None:
        own = os.path.join(self.top, "nodes", self.node.name)
        for name in ("upper", "work", "root"):
            os.makedirs(os.path.join(own, name))
        os.chmod(os.path.join(own, "upper"), 0o755)  # noqa: S103
        options = "userxattr,lowerdir={0}/layer:{0}/machine,upperdir={1}/upper,workdir={1}/work".format(self.top, own)
        root = os.path.join(own, "root")
        kernel.mount("overlay", root, "overlay", 0, options)
        kernel.mount("proc", root + "/proc", "proc", kernel.NO_SUID | kernel.NO_DEVICES | kernel.NO_EXECUTE)
        kernel.bind(root + "/proc/sys", root + "/proc/sys", read_only=True)
        kernel.bind(self.top + "/tree/sys", root + "/sys", read_only=True)
        kernel.mount("tmpfs", root + "/run", "tmpfs", 0, "mode=755")
        os.mkdir(root + "/run/sshd", 0o755)
        kernel.mount("tmpfs", root + "/dev", "tmpfs", 0, "mode=755")
        for name in DEVICES:
            with open(root + "/dev/" + name, "w"):
                pass
            kernel.bind("/dev/" + name, root + "/dev/" + name)
        os.symlink("/proc/self/fd", root + "/dev/fd")
        os.mkdir(root + "/dev/pts")
        kernel.mount("devpts", root + "/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=620")
        os.symlink("pts/ptmx", root + "/dev/ptmx")
        if self.node.failing:
            kernel.mount("tmpfs", root + "/opt", "tmpfs", kernel.READ_ONLY)
        with open(root + "/etc/hostname", "w") as stream:
            stream.write(self.node.name + "\n")
        with open(root + "/etc/nvml_simulator/override.conf", "w") as stream:
            stream.write("machine.seed = {0}\n".format(self.node.name))
        socket.sethostname(self.node.name)
        kernel.make_root(root)

    def serve(self, connection: socket.socket, log: int) -> None:
        """Start an sshd inside for a connection."""
        if os.fork():
            return
        try:
            kernel.enter(self.mounts, kernel.NEW_MOUNTS)
            kernel.enter(self.uts, kernel.NEW_UTS)
            for number in (0, 1):
                os.dup2(connection.fileno(), number)
            os.dup2(log, 2)
            environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
            os.execve("/usr/sbin/sshd", self._arguments(), environment)  # noqa: S606
        finally:
            os._exit(1)

    def _arguments(self) -> List[str]:
        arguments = ["/usr/sbin/sshd", "-i", "-e", "-f", "/etc/ssh/sshd_config"]
        if self.node.delay_seconds:
            wait = 'sleep {0:g}; eval "$SSH_ORIGINAL_COMMAND"'.format(self.node.delay_seconds)
            arguments += ["-o", "ForceCommand=" + wait]
        return arguments
