# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The only door to the machine: files under a root, commands with a time limit, locks.

Readers take a :class:`Host` so that tests can point them at a captured tree. Commands never see a terminal
(standard input is empty), so no tool can stop at a question.
"""

# pylint: disable=ansible-bad-function  # the library has no AnsibleModule
from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from typing import TYPE_CHECKING, Iterator, List, Mapping, Optional, Sequence, Tuple

from . import safe_files
from .frozen import frozen
from .resource import NodeError

if TYPE_CHECKING:
    import subprocess


def be_root() -> str:
    """The remedy where a user may not do something. Root of a container is refused what root of the node may do."""
    if os.geteuid() != 0:
        return "run it as root"
    return "run it on the node itself: outside of containers, and not as root of a user namespace"


def not_written(path: str, error: OSError) -> NodeError:
    """The sentence for a file that could not be written."""
    remedy = {
        errno.ENOSPC: "free some space on that file system, then run it again",
        errno.EROFS: "remount that file system read-write, then run it again",
        errno.EACCES: be_root(),
        errno.EPERM: be_root(),
    }.get(error.errno or 0, "correct that, then run it again")
    return NodeError(path, "it could not be written ({0})".format(error.strerror), remedy)


class LockHeld(NodeError):
    """Another run holds the lock: try again later."""


@frozen
class Completed:
    """A command that ended: its exit status and what it wrote."""

    argv: Tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str

    @property
    def message(self) -> str:
        """The last line that the command wrote, errors first: what a person would quote."""
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        return lines[-1].strip() if lines else "exit status {0}".format(self.returncode)


_READ_BYTES = 1 << 16
# So long a command that was killed may take to end.
_KILLED_SECONDS = 2.0


class Host:
    """Files and commands of one machine. ``root`` other than ``/`` serves captured trees (reading only)."""

    def __init__(self, root: str = "/") -> None:
        self.root = root

    def path(self, path: str) -> str:
        return path if self.root == "/" else os.path.join(self.root, path.lstrip("/"))

    # Reading ------------------------------------------------------------------------------------------

    def read(self, path: str, limit: Optional[int] = None) -> Optional[str]:
        """The text of a file, or None when it is missing or cannot be read (sysfs answers EINVAL, ENODEV).
        ``limit``: read no more bytes than that.

        A carriage return stays one: users may write it into the name of a process or of a cgroup, where the kernel
        keeps only the newline from them, and what follows it must not become a line of its own.
        """
        # Without a stream, which costs ten times as much: some looks read a file of each process.
        try:
            handle = os.open(self.path(path), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        pieces: List[bytes] = []
        try:
            while True:
                piece = os.read(handle, _READ_BYTES if limit is None else min(limit, _READ_BYTES))
                if not piece:
                    return b"".join(pieces).decode("utf-8", "surrogateescape")
                pieces.append(piece)
                limit = None if limit is None else limit - len(piece)
        except OSError:
            return None
        finally:
            os.close(handle)

    def read_or_fail(self, path: str) -> Optional[str]:
        """The text of a file that is going to be written anew, or None when it is missing.

        :raises NodeError: it is there and cannot be read: what it says must not be lost.
        """
        try:
            with open(self.path(path), encoding="utf-8", errors="surrogateescape", newline="\n") as stream:
                return stream.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = "it cannot be read ({0})".format(error.strerror or error)
            raise NodeError(path, reason, "correct that, then run it again") from error

    def read_line(self, path: str) -> Optional[str]:
        text = self.read(path)
        return None if text is None else text.strip()

    def names(self, path: str) -> List[str]:
        """The sorted names in a folder; empty when there is no such folder."""
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        return os.path.exists(self.path(path))

    def real_path(self, path: str) -> str:
        real = os.path.realpath(self.path(path))
        if self.root == "/":
            return real
        root = os.path.realpath(self.root)
        return "/" + os.path.relpath(real, root) if real.startswith(root + os.sep) else real

    def which(self, program: str) -> Optional[str]:
        """Where a program is; system folders are searched even when PATH lacks them (a plain ssh login)."""
        folders = os.environ.get("PATH", "").split(os.pathsep) + ["/usr/local/sbin", "/usr/sbin", "/sbin"]
        # Not shutil.which: a look before each job would pay for that module, and an empty folder is the current one.
        paths = [program] if os.sep in program else [os.path.join(folder, program) for folder in folders if folder]
        return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)

    # Commands -----------------------------------------------------------------------------------------

    def run(
        self,
        argv: Sequence[str],
        timeout_seconds: float = 60.0,
        accept: Tuple[int, ...] = (0,),
        environment: Optional[Mapping[str, str]] = None,
    ) -> Completed:
        """Run a command without a terminal and in the C locale. ``environment`` replaces this process's environment.

        :raises NodeError: when the program is missing, runs past its time, or ends with a status that is
            not in ``accept``.
        """
        import subprocess  # not wanted by looks that only read files, as before each job

        program = self.which(argv[0])
        if program is None:
            raise NodeError(argv[0], "this program is not installed", "install the package that provides it")
        given = dict(os.environ if environment is None else environment, LC_ALL="C", LANGUAGE="C")
        pipe = subprocess.PIPE
        child = subprocess.Popen(  # pylint: disable=consider-using-with # one that the kernel holds is left behind
            [program] + list(argv[1:]), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=given
        )
        try:
            output, errors = child.communicate(timeout=timeout_seconds)
        except BaseException as error:
            self._abandon(child)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise NodeError(
                " ".join(argv),
                "did not end within {0:g} s".format(timeout_seconds),
                "look at the kernel log for the device it works on",
            ) from error
        done = Completed(
            tuple(argv),
            child.returncode,
            output.decode("utf-8", "replace"),
            errors.decode("utf-8", "replace"),
        )
        if done.returncode not in accept:
            raise NodeError(
                " ".join(argv),
                "ended with status {0}: {1}".format(done.returncode, done.message),
                "run it by hand on the node to see its whole output",
            )
        return done

    @staticmethod
    def _abandon(child: subprocess.Popen[bytes]) -> None:
        """Kill a command. One that waits for a device in the kernel (state D) ends when that answers, if ever."""
        import subprocess

        child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_KILLED_SECONDS)
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                stream.close()

    # Writing ------------------------------------------------------------------------------------------

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Replace a file in one step: readers see the old text or the new, also after a power cut.

        An existing file keeps its owner and mode, but for rights of others where ``mode`` has none for them; a symbolic
        link is followed, not replaced.
        """
        target = os.path.realpath(self.path(path))
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            directory = os.open(os.path.dirname(target), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                owner, name = (-1, -1), os.path.basename(target)
                with contextlib.suppress(FileNotFoundError):
                    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
                    mode = stat.S_IMODE(found.st_mode) & (0o700 if mode & 0o077 == 0 else 0o7777)
                    owner = (found.st_uid, found.st_gid)
                with safe_files.replaced_in(directory, name, mode, True, owner) as stream:
                    stream.write(text.encode("utf-8", "surrogateescape"))
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise not_written(path, error) from error

    def remove(self, path: str, folder_too: bool = False) -> None:
        """Delete a file; it may be gone already. ``folder_too``: and its folder, when nothing else lies in it."""
        try:
            os.unlink(self.path(path))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise NodeError(path, "it could not be removed ({0})".format(error.strerror), be_root()) from error
        if folder_too:
            with contextlib.suppress(OSError):  # somebody else's files keep it
                os.rmdir(os.path.dirname(self.path(path)))

    @contextlib.contextmanager
    def lock(self, name: str, timeout_seconds: float = 120.0) -> Iterator[None]:
        """Hold the lock of one resource on this machine, so that two convergences take turns.

        The lock lies in /run, so it is gone after a reboot, and the kernel drops it when its holder dies.

        :raises LockHeld: when another process holds it for longer than ``timeout_seconds``.
        :raises NodeError: when there can be no lock.
        """
        path = self._lock_file(name)
        try:
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NodeError(path, "it could not be opened ({0})".format(error.strerror), be_root()) from error
        try:
            deadline = time.monotonic() + timeout_seconds
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError as error:
                    if time.monotonic() >= deadline:
                        raise LockHeld(
                            name,
                            "another run has been working on it for {0:g} s".format(timeout_seconds),
                            "wait for that run to end, then run it again",
                        ) from error
                    time.sleep(0.1)
            yield
        finally:
            os.close(handle)

    def locked(self, name: str) -> bool:
        """Whether somebody holds that lock now. Nothing is made where none is; one that may not be asked is held."""
        try:
            handle = os.open(self._lock_file(name), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except OSError:
            return True
        finally:
            os.close(handle)

    def _lock_file(self, name: str) -> str:
        return self.path("/run/gpu_node/{0}.lock".format(name))
