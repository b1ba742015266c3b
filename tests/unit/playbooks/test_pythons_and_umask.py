# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real Ansible manages this machine below overlays that end with the test: /usr/bin/python3 is Python 3.6, Ansible uses
another Python, and root has another umask than 022."""

from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Dict

import pytest

import ansible_collections.trainyard.gpu_node as collection

ROOTS = os.pathsep.join(sorted({str(Path(path).parents[2]) for path in collection.__path__}))
OLD = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.6.*/bin/python3.6")))[-1:]
# Directories of the machine that are overlaid; what is written there is gone when the namespace ends.
NAMESPACE = """
set -e
top=$1 old=$2; shift 2
mount -t tmpfs none "$top"
for name in etc opt usr/local var/lib usr/bin; do
    mkdir -p "$top/$name/up" "$top/$name/work"
    [ $name != usr/bin ] || ln -s "$old" "$top/usr/bin/up/python3"
    mount -t overlay none -o "lowerdir=/$name,upperdir=$top/$name/up,workdir=$top/$name/work" "/$name"
done
mount -t tmpfs none /run
rm -rf /etc/gpu_node /opt/gpu_node /var/lib/gpu_node /usr/local/bin/gpunode
mkdir "$top/tmp"; cd "$top/tmp"
eval "$1"
"""
PLAY = [
    {
        "hosts": "localhost",
        "gather_facts": False,
        "tasks": [
            {"trainyard.gpu_node.cleanup": {}, "register": "made"},
            {"debug": {"msg": "changed={{ made.changed }}"}},
        ],
    }
]

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a mount namespace"),
    pytest.mark.skipif(not OLD, reason="needs a Python 3.6 of pyenv"),
]


def in_namespace(tmp_path: Path, script: str) -> "subprocess.CompletedProcess[str]":
    (tmp_path / "play.json").write_text(json.dumps(PLAY))
    (tmp_path / "top").mkdir()
    clean: Dict[str, str] = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    words = [sys.executable, "-m", "ansible.cli.playbook", "-i", "localhost,", "-c", "local"]
    words += ["-e", "ansible_python_interpreter=" + os.path.realpath(sys.executable), str(tmp_path / "play.json")]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", NAMESPACE, "sh", str(tmp_path / "top"), OLD[0], script],
        env=dict(clean, ANSIBLE_COLLECTIONS_PATH=ROOTS, ANSIBLE_NOCOLOR="1", PLAY=" ".join(words)),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if "mount:" in done.stderr:
        pytest.skip("no overlay in a mount namespace here: " + done.stderr.strip())
    return done


def test_the_command_that_ansible_installs_starts_where_python3_is_3_6(tmp_path: Path) -> None:
    script = """
/usr/bin/python3 --version
$PLAY; $PLAY
env -i PATH=/usr/bin:/bin gpunode --version
for name in "help hook" "help boot" "help apply"; do
    env -i PATH=/usr/bin:/bin /opt/gpu_node/gpunode.pyz $name >/dev/null
done
echo all started
"""
    script = script.replace("PATH=/usr/bin:/bin gpunode", "PATH=/usr/local/bin:/usr/bin:/bin gpunode")
    done = in_namespace(tmp_path, script)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("Python 3.6") and "\ngpunode (trainyard.gpu_node) " in done.stdout
    assert done.stdout.count("changed=True") == done.stdout.count("changed=False") == 1, done.stdout
    assert done.stdout.endswith("all started\n")


@pytest.mark.parametrize("umask", ["000", "027", "077"])
def test_users_read_and_enter_what_root_creates_and_write_to_none_of_it(tmp_path: Path, umask: str) -> None:
    script = (
        "umask {0}; $PLAY".format(umask)
        + """
cd /
find etc/gpu_node opt/gpu_node var/lib/gpu_node run/gpu_node usr/local/bin/gpunode usr/local/share/man/man1 \\
    etc/systemd/system/gpu-node-* ! -type l -printf '%m %y %p\\n' 2>/dev/null || true
"""
    )
    done = in_namespace(tmp_path, script)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split(" ", 2) for line in done.stdout.splitlines() if line[:3].strip().isdigit()]
    found = {path: (int(mode, 8), kind) for mode, kind, path in (line for line in lines if len(line) == 3)}
    assert {"etc/gpu_node", "opt/gpu_node", "opt/gpu_node/gpunode.pyz", "run/gpu_node"} <= set(found), done.stdout
    assert not {path: oct(mode) for path, (mode, dummy) in found.items() if mode & 0o022}
    shared = {path: mode for path, (mode, kind) in found.items() if kind == "d" and not path.startswith("run/")}
    assert all(mode & 0o005 == 0o005 for mode in shared.values()), shared
    assert found["opt/gpu_node/gpunode.pyz"][0] == 0o755
