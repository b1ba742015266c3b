# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small bundle, and a machine for cluster-init: a root of its own, in which it runs under the real paths."""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import List, Optional

from ansible_collections.trainyard.gpu_node.tools.cluster_init import __main__ as cluster_init

RUNNER = Path(cluster_init.__file__).with_name("runner.py")
# As the bundle's own: it notes how it was run, and ends as the machine's /answer says.
CONVERGE = """#!/bin/sh
echo "$PWD $0 $*" >>/converges
[ ! -e /etc/gpu_node/declaration.json ] || cat /etc/gpu_node/declaration.json >/declared
[ "$2" != --declaration ] || { mkdir -p /etc/gpu_node; cp "$3" /etc/gpu_node/declaration.json; }
[ ! -s /answers ] || { read -r status </answers; sed -i 1d /answers; exit "$status"; }
"""
# Which of the machine's units have failed is written in /failed; what systemctl is told goes to /systemctl.
SYSTEMCTL = """#!/bin/sh
[ "$1" = --quiet ] || { echo "$*" >>/systemctl; exit 0; }
grep -qxF "$3" /failed
"""
# The system's programs are shared, read-only; everything else is the machine's own.
ENTER = r"""
set -e
cd "$1"; shift
for name in usr lib lib64 bin sbin; do
    if [ -L "/$name" ]; then ln -sfn "$(readlink "/$name")" "$name"
    elif [ -d "/$name" ]; then mkdir -p "$name"; mount --rbind "/$name" "$name"; mount -o remount,bind,ro "$name"; fi
done
mount --rbind /dev dev
exec chroot . /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin "$@"
"""


def make_bundle(folder: Path, version: str, converge: str = CONVERGE) -> Path:
    top = "gpu-node-bundle-" + version
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (top + ".tar.gz")
    # gzip writes the time of day into its header; the bundle that make makes has none, either.
    with gzip.GzipFile(str(path), "wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        info = tarfile.TarInfo(top + "/converge")
        info.size, info.mode = len(converge), 0o755
        tar.addfile(info, io.BytesIO(converge.encode()))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_name(path.name + ".sha256").write_text("{0}  {1}\n".format(digest, path.name), encoding="utf-8")
    return path


class Machine:
    """``locker`` is CycleCloud's, and lies in the machine's root; nothing else of CycleCloud is there at first."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.locker = root / "locker"
        self.template = "[[nodearray execute]]\n[[[cluster-init gpu_node:execute:{0}]]]\n"
        for name in ("etc", "mnt", "opt/cycle/jetpack/bin", "var/tmp", "dev", "tmp", "run"):
            (root / name).mkdir(parents=True)
        shutil.copyfile(str(RUNNER), str(root / "runner.py"))
        self.write("opt/cycle/jetpack/bin/systemctl", SYSTEMCTL, 0o755)
        self.write("opt/cycle/jetpack/bin/sleep", '#!/bin/sh\necho "$1" >>/sleeps\n', 0o755)
        self.write("failed", "")
        self.write("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
        self.write("etc/group", "root:x:0:\n")

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")
        (self.root / path).chmod(mode)

    def read(self, path: str) -> str:
        file = self.root / path
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def lines(self, path: str) -> List[str]:
        return self.read(path).splitlines()

    def upload(self, project: Path) -> None:
        self.runner("upload", "/project", "/locker", project=project)

    def runner(self, *words: str, project: Optional[Path] = None) -> "subprocess.CompletedProcess[str]":
        if project is not None:
            shutil.rmtree(str(self.root / "project"), ignore_errors=True)
            shutil.copytree(str(project), str(self.root / "project"))
        return subprocess.run(
            ["unshare", "--map-root-user", "--mount", "sh", "-c", ENTER, "enter", str(self.root)]
            + ["python3", "/runner.py", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def converge(self, version: str = "1.0", node: str = "execute") -> "subprocess.CompletedProcess[str]":
        self.write("template.txt", self.template.format(version))
        done = self.runner("converge", "/locker", "/template.txt", node)
        assert "Traceback" not in done.stderr and "enter:" not in done.stderr, done.stderr
        return done

    def log(self, version: str = "1.0", spec: str = "execute") -> str:
        folder = "opt/cycle/jetpack/logs/cluster-init/gpu_node/{0}/scripts/10-gpu_node-{1}.sh.out"
        return self.read(folder.format(spec, version))

    def marker(self, version: str = "1.0", spec: str = "execute") -> Path:
        return self.root / "mnt/cluster-init/.run/gpu_node/{0}/scripts/10-gpu_node-{1}.sh.run".format(spec, version)

    def converges(self) -> int:
        return len(self.lines("converges"))

    def lose_mnt(self) -> None:
        """What a deallocation does to the temporary disk."""
        shutil.rmtree(str(self.root / "mnt"))
        (self.root / "mnt").mkdir()
