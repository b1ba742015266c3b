# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the end-to-end tests: a virtual node, shared by all tests of one pytest run.

    pytest tests/e2e --suite bookworm

``node`` is the shared guest as the test before left it; call ``node.reset()`` for blank disks and a pristine root.
``node_factory(name, **settings)`` makes another one for a test that needs another shape. All guests of a run end with
the pytest process, however it ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Union

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools" / "virtual_node"))
sys.path.insert(0, str(REPOSITORY / "tools"))
sys.path.insert(0, str(REPOSITORY / ".collections"))  # the library, where a test holds its rules against real Slurm

from test_run.results import KERNEL_CRASHED  # noqa: E402
from virtual_machine import faults, places  # noqa: E402
from virtual_machine.node import Node  # noqa: E402
from virtual_machine.settings import Settings, parse_settings  # noqa: E402

_CHUNK = 1024 * 1024
# Every guest of this pytest process.
_nodes: List[Node] = []
# Every file of /etc and /var with its owner, mode and content. Left out: what a machine writes all by itself, and the
# thousands of files of dpkg, whose status names every package.
_LIST_TREES = r"""
cd /
set -- "(" -path var/log -o -path var/lib/systemd -o -path var/cache -o -path var/tmp \
    -o -path var/lib/dpkg/info ")" -prune -o
set -- etc var -xdev "$@"
find "$@" -printf '%y %m %U:%G %p %l\n'
find "$@" -type f -print0 | xargs -0 sha256sum
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--suite", default="bookworm", choices=("bookworm", "trixie"), help="Debian suite of the guest")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "soak: boots a guest once more, or is long; `make soak` runs it, `make test` leaves it out"
    )
    config.addinivalue_line("markers", "all_samples: as many samples of a disk are read as on a node")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A fixture finds here how its test ended: ``request.node.rep_call``. A failure says whose kernel had crashed."""
    outcome = yield
    report = outcome.get_result()
    where = getattr(report.longrepr, "reprcrash", None)
    for node in _nodes if report.failed and where else ():
        for crash in node.kernel_crashes():
            where.message = "{0}{1} had crashed: {2}) {3}".format(KERNEL_CRASHED, node.name, crash, where.message)
    setattr(item, "rep_" + report.when, report)


@dataclasses.dataclass(frozen=True)
class Output:
    """What a command in the guest gave."""

    returncode: int
    stdout: str
    stderr: str


class GuestFailure(AssertionError):
    """A command in the guest, or an Ansible run against it, ended with an error that the test did not expect."""


class VirtualNode:
    """One guest, as tests see it."""

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def folder(self) -> Path:
        return self.node.folder

    # --- commands in the guest
    def ssh(self, command: str, check: bool = True, timeout: float = 300, stdin: Optional[str] = None) -> Output:
        done = self.node.ssh(command, timeout, None if stdin is None else stdin.encode())
        out = Output(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
        if check and out.returncode != 0:
            raise GuestFailure(
                "in {0}: {1!r} ended with {2}\n{3}{4}".format(
                    self.name, command, out.returncode, out.stdout, out.stderr
                )
            )
        return out

    def write(self, path: str, content: str, mode: str = "0644") -> None:
        self.ssh("mkdir -p \"$(dirname '{0}')\" && cat > '{0}' && chmod {1} '{0}'".format(path, mode), stdin=content)

    def disk(self, serial: str) -> str:
        """The device of a disk now, as /dev/nvme3n1. Names change from boot to boot; serials do not."""
        found = self.disks().get(serial)
        if found is None:
            raise GuestFailure("{0} has no disk {1} now".format(self.name, serial))
        return found

    def disks(self) -> Dict[str, str]:
        # A controller reached over a fabric has one more name, nvme0c0n1, for the path to its namespace.
        text = self.ssh(
            "for n in /sys/block/nvme*n*; do case ${n##*/} in *c*) continue ;; esac;"
            " [ -e $n/device/serial ] && read -r serial <$n/device/serial && echo $serial /dev/${n##*/}; done; true"
        ).stdout
        return dict(line.split() for line in text.splitlines() if len(line.split()) == 2)

    # --- life
    def reset(self, disks_only: bool = False) -> None:
        self.node.reset(disks_only, os.getpid())

    def reboot(self) -> None:
        self.node.reboot()

    def start(self) -> None:
        self.node.up(self.node.state.settings, os.getpid())

    def stop(self) -> None:
        faults.power_off(self.node)

    def cut_power(self) -> None:
        faults.cut_power(self.node)

    def wipe_disks(self) -> None:
        faults.wipe_disks(self.node, os.getpid())

    def swap_order(self) -> None:
        faults.swap_order(self.node)

    def detach(self, serial: str) -> None:
        faults.detach_disk(self.node, serial)

    def attach(self, serial: str) -> None:
        faults.attach_disk(self.node, serial)

    def fill_root(self) -> None:
        faults.fill_root(self.node)

    def free_root(self) -> None:
        faults.free_root(self.node)

    def boot_id(self) -> str:
        return self.node.boot_id()

    def blank_disks(self) -> None:
        """Make the disks blank in seconds while the guest runs; arrays, mounts, volume groups are taken down first."""
        self.ssh(_BLANK_DISKS)

    # --- what is written where
    def hash_disks(self) -> Dict[str, str]:
        """A digest of every byte of each disk, and of the files in /etc and /var of the guest.

        The disks are read on the host; the guest writes out what it still holds in memory first.
        """
        self.ssh("sync")
        digests = {disk.serial: content_digest(self.folder / disk.file) for disk in self.node.state.disks}
        files = self.files()
        for top in ("etc", "var"):
            lines = [
                "{0} {1}".format(path, files[path])
                for path in sorted(files)
                if path == top or path.startswith(top + "/")
            ]
            digests["/" + top] = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        return digests

    def files(self) -> Dict[str, str]:
        """Each path under /etc and /var of the guest with its type, mode, owner, link target and content digest."""
        found: Dict[str, str] = {}
        for line in self.ssh(_LIST_TREES).stdout.splitlines():
            digest, separator, path = line.partition("  ")
            if separator and len(digest) == 64:
                found[path] += " " + digest
            elif line:
                kind, mode, owner, path, target = (line.split(" ", 4) + [""])[:5]
                found[path] = " ".join((kind, mode, owner, target))
        return found

    # --- Ansible
    @property
    def inventory_path(self) -> Path:
        """An inventory with this host in the group gpu_nodes; written anew each time, as the port may change."""
        path = self.folder / "inventory.json"
        hosts = {self.name: self.node.inventory()}
        path.write_text(json.dumps({"gpu_nodes": {"hosts": hosts}}, indent=2))
        return path

    def ansible_environment(self) -> Dict[str, str]:
        environment = dict(os.environ)
        environment.update(
            ANSIBLE_CONFIG=str(REPOSITORY / "ansible.cfg"),
            ANSIBLE_COLLECTIONS_PATH=str(REPOSITORY / ".collections"),
            ANSIBLE_HOST_KEY_CHECKING="True",
            ANSIBLE_NOCOLOR="1",
            ANSIBLE_FORCE_COLOR="0",
            ANSIBLE_LOCALHOST_WARNING="False",
            PATH=str(Path(sys.executable).parent) + os.pathsep + os.environ.get("PATH", ""),
        )
        return environment

    def ansible(self, arguments: Union[str, Path, Sequence[str]], check: bool = True, timeout: float = 900) -> Output:
        """Run a playbook (a path, or a list beginning with one) or, with a list beginning with ``-m``, one module."""
        words = [str(arguments)] if isinstance(arguments, (str, Path)) else [str(word) for word in arguments]
        command = ["ansible", self.name] if words[0].startswith("-") else ["ansible-playbook"]
        command[0] = str(Path(sys.executable).parent / command[0])  # the Ansible of this environment
        done = subprocess.run(
            command + ["-i", str(self.inventory_path)] + words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self.ansible_environment(),
            cwd=str(REPOSITORY),
            timeout=timeout,
            check=False,
        )
        if check and done.returncode != 0:
            raise GuestFailure(
                "{0} ended with {1}\n{2}\n{3}".format(
                    " ".join(command + words), done.returncode, done.stdout[-8000:], done.stderr[-4000:]
                )
            )
        return Output(done.returncode, done.stdout, done.stderr)

    def module(self, name: str, check: bool = False, **arguments: Any) -> Dict[str, Any]:
        """Run one module of this collection (short name) and give its result, failed or not."""
        words = ["-m", name if "." in name else "trainyard.gpu_node." + name, "-o"]
        if arguments:
            words += ["-a", json.dumps(arguments)]
        done = self.ansible(words + (["--check", "--diff"] if check else []), check=False)
        for line in done.stdout.splitlines():
            head, separator, tail = line.partition("=>")
            if separator and head.startswith(self.name):
                result: Dict[str, Any] = json.loads(tail)
                result["failed"] = "SUCCESS" not in head and "CHANGED" not in head
                return result
        raise GuestFailure("{0} gave no result\n{1}\n{2}".format(name, done.stdout, done.stderr))


_BLANK_DISKS = r"""
set -e
swapoff -a || true
for try in 1 2 3; do
    awk '$1 ~ "^/dev/(nvme|md|mapper/|dm-)" {print $2}' /proc/mounts | sort -r |
        while read -r at; do umount "$at" || umount -l "$at"; done
    vgchange -an -q >/dev/null 2>&1 || true
    for md in /dev/md[0-9]*; do [ -b "$md" ] && mdadm --stop --quiet "$md" || true; done
done
udevadm settle
for disk in /sys/block/nvme*n*; do
    case ${disk##*/} in *c*|*\*) continue ;; esac
    # A discarded block of these disks reads as zeros: it is a hole in a file of the host.
    { blkdiscard -f "/dev/${disk##*/}" 2>/dev/null || blkdiscard "/dev/${disk##*/}"
      for part in "$disk"/nvme*p*; do [ -e "$part" ] && partprobe "/dev/${disk##*/}" && break; done; true; } &
done
wait
udevadm settle
"""


def content_digest(path: Path) -> str:
    """Of the content of a sparse file: every chunk that is not all zeros, with its place. Holes are not read."""
    digest = hashlib.sha256(str(path.stat().st_size).encode())
    zeros = bytes(_CHUNK)
    with open(str(path), "rb", buffering=0) as handle:
        end = handle.seek(0, os.SEEK_END)
        offset = 0
        while offset < end:
            try:
                offset = os.lseek(handle.fileno(), offset, os.SEEK_DATA)
            except OSError:
                break  # nothing but a hole is left
            offset -= offset % _CHUNK
            chunk = os.pread(handle.fileno(), _CHUNK, offset)
            if chunk != zeros[: len(chunk)]:
                digest.update(str(offset).encode() + b"\0" + chunk)
            offset += len(chunk)
    return digest.hexdigest()


@pytest.fixture(scope="session")
def suite(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--suite"))


@pytest.fixture(scope="session")
def node_run() -> Iterator[str]:
    """The run that all guests of this pytest process belong to. They end with it, and their files go."""
    run = os.environ.get("VIRTUAL_NODE_RUN") or "pytest-{0}".format(os.getpid())
    yield run
    with contextlib.suppress(OSError):
        places.nodes(run).rmdir()


@pytest.fixture(scope="session")
def node_factory(node_run: str, suite: str) -> Iterator[Callable[..., VirtualNode]]:
    """``node_factory("name", nvme_count=7)`` starts a guest of another shape; ``.node.down()`` ends it early."""

    def make(name: str, **settings: Any) -> VirtualNode:
        node = Node(node_run, name)
        wanted: Settings = parse_settings(
            ["{0}={1}".format(key, value) for key, value in dict({"suite": suite}, **settings).items()], places.MACHINES
        )
        _nodes.append(node)
        node.up(wanted, os.getpid(), given=True)
        return VirtualNode(node)

    yield make
    while _nodes:
        _nodes.pop().down()


@pytest.fixture(scope="session")
def shared_node(node_factory: Callable[..., VirtualNode], suite: str) -> VirtualNode:
    return node_factory("node-{0}".format(suite))


@pytest.fixture(scope="module")
def own_node(node_factory: Callable[..., VirtualNode], request: pytest.FixtureRequest) -> Iterator[VirtualNode]:
    """A fresh guest for one file, in place of ``shared_node``; it ends with the file. A file may have settings of its
    own, as ``NODE``."""
    name = str(request.node.path.stem).replace("test_", "").replace("_", "-")
    guest = node_factory(name, **getattr(request.module, "NODE", {}))
    yield guest
    guest.node.down()


@pytest.fixture
def node(shared_node: VirtualNode) -> VirtualNode:
    """The shared guest, running. A test that left it off, or lost it, does not spoil the next."""
    if not shared_node.node.is_up:
        shared_node.start()
    return shared_node
