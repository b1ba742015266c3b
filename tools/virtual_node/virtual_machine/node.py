# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One virtual node: its state on the host, and its life: create, start, wait, stop, reset."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

from . import acceleration, image, machine, places, remote, seed
from .machine import Disk
from .progress import Step, VirtualNodeError, say, step
from .qmp import Qmp
from .settings import Settings, check_name
from .supervisor import process_started

BOOT_LIMIT_SECONDS = 600.0
# Far beyond the slowest good boot that was seen (110 s with four guests on two cores). Under emulation a guest has hung
# before its root disk was mounted, with kernel threads blocked; the same guest started again booted.
HUNG_BOOT_SECONDS = 240.0
# Terminal sequences and control characters of firmware and systemd, which a progress line must not pass on.
# What a kernel says on its console when it has crashed.
_CRASH = re.compile(r"(Oops: |BUG: |kernel BUG at |Kernel panic - ).*")
_UNPRINTABLE = re.compile(r"\x1b(\[[0-9;?!]*[A-Za-z]|[^\[])|[^ -~]")


@dataclasses.dataclass
class State:
    """What is remembered of a node between commands (state.json)."""

    settings: Settings
    disks: List[Disk]
    image: str
    generation: str
    port: int = 0
    accelerator: str = ""

    def to_dict(self) -> Dict[str, Any]:
        return dict(dataclasses.asdict(self), settings=self.settings.to_dict())

    @classmethod
    def from_dict(cls, values: Dict[str, Any]) -> State:
        known = dict(values, settings=Settings.from_dict(values["settings"]))
        known["disks"] = [Disk.from_dict(disk) for disk in values["disks"]]
        return cls(**known)


class Node:
    def __init__(self, run: str, name: str) -> None:
        self.name = check_name(name)
        self.run_name = run
        self.folder = places.nodes(run) / name
        # A node with much to do at each boot gets more.
        self.boot_limit_seconds = BOOT_LIMIT_SECONDS

    # --- what is -----------------------------------------------------------------------------------------------
    @property
    def exists(self) -> bool:
        return (self.folder / "state.json").is_file()

    @property
    def is_up(self) -> bool:
        return places.is_locked(self.folder / "running")

    @property
    def state(self) -> State:
        try:
            return State.from_dict(json.loads((self.folder / "state.json").read_text()))
        except FileNotFoundError:
            raise VirtualNodeError(
                "node {0}: it does not exist; start it with `virtual_node up {0}`.".format(self.name)
            ) from None

    def save(self, state: State) -> None:
        temporary = self.folder / "state.json.new"
        temporary.write_text(json.dumps(state.to_dict(), indent=2) + "\n")
        temporary.replace(self.folder / "state.json")

    @property
    def _lock_file(self) -> Path:
        return self.folder.with_name(self.name + ".lock")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One command at a time on a node. The lock file lies beside its folder, which may come and go."""
        with places.lock(self._lock_file, "another command on node {0}".format(self.name)):
            yield

    def need_up(self) -> State:
        state = self.state
        if not self.is_up:
            raise VirtualNodeError("node {0}: it is off; start it with `virtual_node up {0}`.".format(self.name))
        return state

    # --- create and reset --------------------------------------------------------------------------------------
    def create(self, settings: Settings) -> None:
        sweep()
        built = image.ensure(settings.suite)
        self.folder.mkdir(parents=True, mode=0o700)
        try:
            remote.new_key(self.folder / "client_key", "virtual-node-client")
            remote.new_key(self.folder / "host_key", "virtual-node-" + self.name)
            host_key = (self.folder / "host_key.pub").read_text().split()
            (self.folder / "known_hosts").write_text("{0} {1} {2}\n".format(self.name, host_key[0], host_key[1]))
            (self.folder / "image").write_text(str(built.folder) + "\n")
            state = State(settings, machine.blank_disks(settings), str(built.folder), "")
            self.save(state)
            self.blank_root(state)
            self.blank_disks(state)
        except BaseException:
            shutil.rmtree(str(self.folder), ignore_errors=True)
            raise

    def blank_root(self, state: State) -> None:
        """A pristine root disk: an empty overlay over the image, and this node's own files behind the initramfs."""
        built = image.Image(Path(state.image))
        overlay = self.folder / "root.qcow2"
        overlay.unlink(missing_ok=True)
        _qemu_img(
            [
                "create",
                "-q",
                "-f",
                "qcow2",
                "-F",
                "raw",
                "-b",
                str(built.root),
                str(overlay),
                str(state.settings.root_size),
            ]
        )
        state.generation = uuid.uuid4().hex
        own = seed.archive(seed.node_files(self.folder, self.name, state.settings), state.generation)
        (self.folder / "initramfs").write_bytes(built.initramfs(state.settings.initramfs).read_bytes() + own)
        self.save(state)

    def blank_disks(self, state: State) -> None:
        """New empty disks in the first order, all attached: what a node gets after a deallocation."""
        state.disks = machine.blank_disks(state.settings)
        for disk in state.disks:
            self.blank_disk(disk, state.settings)
        self.save(state)

    def blank_disk(self, disk: Disk, settings: Settings) -> None:
        path = self.folder / disk.file
        path.unlink(missing_ok=True)
        with open(str(path), "wb") as handle:
            handle.truncate(settings.nvme_size)

    # --- start and stop ----------------------------------------------------------------------------------------
    def start(self, owner: int = 0) -> None:
        """Start QEMU. Its port is chosen here; when another process is quicker to take it, another is chosen."""
        state = self.state
        built = image.Image(Path(state.image))
        state.accelerator = acceleration.choose(built)[0]
        owned = {"pid": owner, "started": process_started(owner)} if owner else {}
        (self.folder / "owner.json").write_text(json.dumps(owned))
        for attempt in range(5):
            if attempt or not state.port or not remote.is_free(state.port):
                state.port = remote.free_port()
            self.save(state)
            complaint = self._launch(state, built, owner)
            if not complaint:
                return
            if "forwarding rule" not in complaint and "set up host" not in complaint:
                break
        raise VirtualNodeError(
            "node {0}: QEMU did not start: {1}.".format(self.name, complaint.strip().rstrip(".")[-400:])
        )

    def _launch(self, state: State, built: image.Image, owner: int) -> str:
        """Start the supervisor, which starts QEMU; what went wrong, or nothing."""
        command = machine.command_line(
            state.settings,
            state.disks,
            str(built.kernel),
            "initramfs",
            state.port,
            state.accelerator,
            self.name,
            self.run_name,
        )
        (self.folder / "qemu.json").write_text(json.dumps(command))
        log = self.folder / "supervisor.log"
        environment = dict(os.environ, PYTHONPATH=str(places.TOOL), PYTHONDONTWRITEBYTECODE="1")
        with open(str(log), "wb") as output:
            child = subprocess.Popen(
                [sys.executable, "-m", "virtual_machine.supervisor", str(self.folder), str(owner)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=environment,
                cwd="/",
            )
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if child.poll() is not None:
                return log.read_text(errors="replace") or "it ended at once"
            try:
                with Qmp(self.folder):
                    return ""
            except OSError:
                time.sleep(0.05)
        child.terminate()
        return "its control socket did not answer within 60 s"

    def boot_id(self, timeout_seconds: float = 60.0) -> str:
        """The guest's boot id; empty while it does not answer."""
        try:
            done = self.ssh("cat /proc/sys/kernel/random/boot_id", timeout_seconds, share=False)
        except subprocess.TimeoutExpired:
            return ""
        return done.stdout.decode().strip() if done.returncode == 0 else ""

    def wait_ready(self, current: Step, not_boot_id: str = "") -> None:
        """Wait until a person could sign in, then until the boot has finished (every unit started or failed)."""
        port = self.state.port
        crashes = self.kernel_crashes()
        started_again = False
        while True:
            if current.seconds > HUNG_BOOT_SECONDS and not started_again and not remote.answers(port):
                say("  no sign-in after {0:.0f} s; starting it once more".format(current.seconds))
                started_again = True
                self.stop()
                self.start(int(json.loads((self.folder / "owner.json").read_text()).get("pid", 0)))
                port = self.state.port
            if not self.is_up:
                raise VirtualNodeError(
                    "node {0}: QEMU ended during the boot: {1}".format(self.name, self._last_words())
                )
            if remote.answers(port):
                found = self.boot_id()
                if found and found != not_boot_id:
                    break
            if current.seconds > self.boot_limit_seconds:
                raise VirtualNodeError(
                    "node {0}: no sign-in after {1:.0f} s; see `virtual_node console {0}`.".format(
                        self.name, self.boot_limit_seconds
                    )
                )
            current.tick(self._console_line())
            time.sleep(0.2)
        say("  sshd answers after {0:.1f} s".format(current.seconds))
        for crash in self.kernel_crashes()[len(crashes) :]:
            say("  note: the guest's kernel crashed and started again: {0}".format(crash))
        left = max(60.0, self.boot_limit_seconds - current.seconds)
        done = self.ssh("systemctl is-system-running --wait; systemctl list-units --failed --plain --no-legend", left)
        words = done.stdout.decode(errors="replace").split("\n")
        if words[0].strip() == "degraded":
            failed = ", ".join(line.split()[0] for line in words[1:] if line.strip())
            say("  note: units failed in the guest: {0}".format(failed))

    def _console(self) -> List[str]:
        try:
            text = (self.folder / "console.log").read_text(errors="replace")
        except OSError:
            return []
        return [_UNPRINTABLE.sub("", line).strip() for line in text.splitlines()]

    def _console_line(self) -> str:
        return (self._console() or [""])[-1][:80]

    def kernel_crashes(self) -> List[str]:
        """What the guest's kernel said each time it crashed since the node was made: nothing of ours does that to it,
        so a test during which this list grew says something about the emulator only."""
        return [found.group() for found in map(_CRASH.search, self._console()) if found]

    def _last_words(self) -> str:
        try:
            return (self.folder / "supervisor.log").read_text(errors="replace").strip()[-300:]
        except OSError:
            return "its folder is gone"

    def stop(self, gently: bool = False) -> None:
        """End QEMU for certain: its own quit, then SIGTERM, then SIGKILL. ``gently``: the guest shuts down first."""
        if not self.is_up:
            return
        if gently:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.ssh("systemctl poweroff", 30, share=False)
            if self._ended_within(90):
                return
        with contextlib.suppress(OSError, ConnectionError, VirtualNodeError):
            with Qmp(self.folder, 5) as qmp:
                qmp.run("quit")
        if self._ended_within(5):
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            self._signal("supervisor", number)
            if self._ended_within(10):
                return
        raise VirtualNodeError(
            "node {0}: QEMU does not end; look for it with `ps -ef | grep virtual-node`.".format(self.name)
        )

    def kill(self) -> None:
        """What a power cut is: QEMU ends at once, by SIGKILL, with no chance to write anything more."""
        self._signal("qemu", signal.SIGKILL)
        if not self._ended_within(10):
            raise VirtualNodeError("node {0}: QEMU outlived a SIGKILL; is the host's disk stuck?".format(self.name))

    def _signal(self, which: str, number: int) -> None:
        try:
            pid = json.loads((self.folder / "pids.json").read_text())[which]
            text = Path("/proc/{0}/cmdline".format(pid)).read_bytes()
        except (OSError, ValueError, KeyError):
            return
        if b"virtual_machine.supervisor" in text or b"qemu-system" in text:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _ended_within(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while self.is_up:
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    # --- use ---------------------------------------------------------------------------------------------------
    def ssh(
        self, command: str, timeout_seconds: float = 600.0, stdin: Optional[bytes] = None, share: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        return remote.run(self.folder, self.name, self.state.port, command, timeout_seconds, stdin, share)

    def inventory(self) -> Dict[str, Any]:
        return remote.inventory_host(self.folder, self.name, self.state.port)

    # --- commands ----------------------------------------------------------------------------------------------
    def up(self, settings: Settings, owner: int = 0, given: bool = False) -> bool:
        """Create the node where it is missing, start it where it is off, wait until it is ready. True: it was off."""
        with self.locked():
            if self.exists and given and self.state.settings != settings:
                raise VirtualNodeError(
                    "node {0}: it exists with other settings; run `virtual_node down {0}` first.".format(self.name)
                )
            if not self.exists:
                self.create(settings)
            was_off = not self.is_up
            with step(
                "starting {0} ({1})".format(self.name, self.state.settings.suite)
                if was_off
                else "{0} is up; waiting for it".format(self.name)
            ) as current:
                if was_off:
                    self.start(owner)
                self.wait_ready(current)
            return was_off

    def down(self) -> None:
        """End the node and forget it. Nothing to do is no error."""
        if not self.folder.parent.is_dir():
            return
        with self.locked():
            self.stop()
            shutil.rmtree(str(self.folder), ignore_errors=True)
            self._lock_file.unlink()
        with contextlib.suppress(OSError):
            self.folder.parent.rmdir()

    def reset(self, disks_only: bool = False, owner: int = 0) -> None:
        """Blank disks and, unless told otherwise, the pristine root disk; then started again."""
        with self.locked(), step("resetting {0}".format(self.name)) as current:
            state = self.state
            self.stop(gently=disks_only)  # a root disk that is kept is shut down cleanly
            self.blank_disks(state)
            if not disks_only:
                self.blank_root(state)
            self.start(owner)
            self.wait_ready(current)

    def reboot(self) -> None:
        """A real reboot of the guest. Disks are kept; QEMU goes on running."""
        with self.locked(), step("rebooting {0}".format(self.name)) as current:
            self.need_up()
            before = self.boot_id()
            if not before:
                raise VirtualNodeError(
                    "node {0}: it does not answer; see `virtual_node console {0}`.".format(self.name)
                )
            remote.close_shared_connection(self.folder, self.name)
            self.ssh("systemd-run --quiet --on-active=0.1 systemctl reboot || systemctl reboot", 60, share=False)
            self.wait_ready(current, not_boot_id=before)


def sweep() -> None:
    """Remove the files of nodes whose owner ended without a word; QEMU has ended with it."""
    for path in places.runs().glob("*/*/owner.json"):
        try:
            owned = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        if (
            owned
            and process_started(owned["pid"]) != owned["started"]
            and not places.is_locked(path.with_name("running"))
        ):
            Node(path.parent.parent.name, path.parent.name).down()


def _qemu_img(arguments: List[str]) -> None:
    try:
        done = subprocess.run(
            ["qemu-img"] + arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except FileNotFoundError:
        raise VirtualNodeError("qemu-img: not found; install the package qemu-utils.") from None
    if done.returncode != 0:
        raise VirtualNodeError("qemu-img: {0}.".format(done.stdout.strip()))
