# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node for the installed file: a root of its own with simulated GPUs, real paths, and no network.

The namespaces of a user without rights are around it, so root of this node changes nothing outside, and no process
of the machine can be seen or killed from it.
"""

from __future__ import annotations

import dataclasses
import functools
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import shared

INSTALLED = "/opt/gpu_node/gpunode.pyz"
COPIED = "/root/gpunode.pyz"
GPUS = tuple("{0:04x}:00:00.0".format(bus) for bus in (1, 2, 3, 4, 11, 12, 13, 14))  # of an ND96asr_v4
_VERSION = re.compile(r"python3\.(\d+)$")
_NAMESPACES = ("--map-root-user", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
_ENTER = r"""
set -e
cd "$1"; python=$2; shift 2
for name in usr lib lib64 bin sbin "$python"; do
    if [ -L "/$name" ]; then ln -sfn "$(readlink "/$name")" "./$name"
    elif [ -d "/$name" ]; then
        mkdir -p "./$name"; mount --rbind "/$name" "./$name"; mount -o remount,bind,ro "./$name"
    fi
done
mount --bind local usr/local
mount -t proc none proc
for name in null zero urandom; do : >dev/$name; mount --bind /dev/$name dev/$name; done
mount -t tmpfs -o mode=1777 none dev/shm
mount -t tmpfs -o size=64k none full
exec chroot . "$@"
"""
_DRIVER = r"""
import json, subprocess, sys

asked = json.load(sys.stdin)
answers = []
for one in asked["commands"]:
    try:
        done = subprocess.run(
            one["argv"],
            input=one["stdin"].encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(asked["environment"], **one["environment"]),
            cwd="/root",
            timeout=one["seconds"],
        )
        answers.append([done.returncode, *(text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))])
    except subprocess.TimeoutExpired:
        answers.append([-1, "", "it did not end within {0} s".format(one["seconds"])])
    except OSError as error:
        answers.append([-1, "", "it cannot be started: {0}".format(error)])
json.dump(answers, sys.stdout)
"""


@dataclasses.dataclass(frozen=True)
class Command:
    argv: Sequence[str]
    stdin: str = ""
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    seconds: int = 180


@dataclasses.dataclass(frozen=True)
class Answer:
    words: str
    status: int
    out: str
    error: str

    def fault(self) -> str:
        """What shows that the archive lacks something, or that the command failed in a way that is not foreseen."""
        text = self.out + self.error
        found = re.search(
            r"Traceback|ImportError|ModuleNotFoundError|FileNotFoundError|NotADirectoryError|report this as a bug"
            r"|No module named|gpunode\.pyz/|UserWarning|DeprecationWarning|SyntaxWarning",
            text,
        )
        return "{0}: {1}".format(self.words, text[max(0, found.start() - 300) : found.end() + 700]) if found else ""


def pythons() -> Dict[str, str]:
    """The interpreters of this machine that nodes may have, one for each minor version, by it."""
    places = ["/usr/bin/python3.*", os.path.expanduser("~/.pyenv/versions/3.*/bin/python3.*")]
    found = [sys.executable, *(path for place in places for path in sorted(glob.glob(place)))]
    versions: Dict[int, str] = {}
    for path in map(os.path.realpath, found):
        match = _VERSION.search(path)
        # The root has a /usr/local of its own.
        if match is not None and int(match.group(1)) >= 8 and not path.startswith("/usr/local/"):
            versions.setdefault(int(match.group(1)), path)
    return {"3.{0}".format(minor): versions[minor] for minor in sorted(versions)}


@functools.lru_cache(None)
def reason_to_skip() -> str:
    """Why this machine cannot have such a node; empty: it can."""
    if shutil.which("unshare") is None:
        return "a root of its own needs unshare: install util-linux"
    done = subprocess.run(["unshare", *_NAMESPACES, "true"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else "this machine has no user namespaces: " + done.stderr.strip()


class Node:
    """One root. ``python`` is the interpreter of the node; ``archive`` the file of the controller."""

    def __init__(self, root: Path, python: str, archive: bytes, simulator: Any) -> None:
        reason = reason_to_skip()
        if reason:
            pytest.skip(reason)
        self.root, self.python = root, python
        for name in ("etc", "mnt", "var/lib", "dev/shm", "tmp", "run", "root", "proc", "simulator/state", "local/bin"):
            (root / name).mkdir(parents=True)
        shutil.copytree(str(Path(shared("ndv4")) / "sys"), str(root / "sys"), symlinks=True)
        for path in (root / "sys/bus/pci/devices").iterdir():  # with as many GPUs as NVML has
            if path.name in GPUS[int(simulator.control("get", "gpu.count").split()[-1]) :]:
                path.unlink()
        self.write(
            "dev/kmsg", "6,0,0,-;Linux version 6.8.0\n6,1,1000000,-;NVRM: loading NVIDIA UNIX Open Kernel Module\n"
        )
        (root / "full").mkdir()  # a file system of 64 KiB
        self.write("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
        self.write("etc/group", "root:x:0:\n")
        self.write("root/driver.py", _DRIVER)
        (root / COPIED.lstrip("/")).write_bytes(archive)
        for path in simulator.built.glob("*.so*"):
            shutil.copy(str(path), str(root / "simulator"))
        shutil.copytree(str(simulator.state), str(root / "simulator/state"), dirs_exist_ok=True)
        # No secret of the user who runs the tests, and nothing that leads to a module of his.
        self.environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "LD_LIBRARY_PATH": "/simulator",
            "NVML_SIMULATOR_STATE": "/simulator/state",
        }

    def write(self, path: str, text: str) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")

    def run(self, commands: Sequence[Command]) -> List[Answer]:
        """Run them one after another."""
        asked = {"environment": self.environment, "commands": [dataclasses.asdict(one) for one in commands]}
        words = ["unshare", *_NAMESPACES, "sh", "-c", _ENTER, "enter", str(self.root), self._prefix()]
        words += ["/usr/bin/env", "-i", *("{0}={1}".format(*one) for one in self.environment.items())]
        done = subprocess.run(
            [*words, self.python, "-I", "/root/driver.py"],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        texts = [" ".join(one.argv) for one in commands]
        return [Answer(text, *answer) for text, answer in zip(texts, json.loads(done.stdout))]

    def _prefix(self) -> str:
        """The directory of an interpreter that is not below /usr."""
        folder = os.path.dirname(os.path.dirname(self.python))
        return "none" if folder.startswith("/usr") else folder.lstrip("/")

    def files(self) -> Dict[str, str]:
        """A digest of each file that the node can write, by its path; a directory has its mode, a link its target."""
        found = {}
        for top in ("etc", "mnt", "opt", "var", "tmp", "run", "root", "local"):
            for path in sorted((self.root / top).rglob("*")):
                shown = str(path.relative_to(self.root))
                if shown.startswith("root/.pyenv"):
                    continue
                if path.is_symlink():
                    found[shown] = os.readlink(str(path))
                elif path.is_dir():
                    found[shown] = "{0:o}".format(path.stat().st_mode)
                else:
                    found[shown] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found
