# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs playbooks of the collection against the real API server. Nothing of the user's reaches them."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Mapping

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOKS = ROOT / "playbooks"
_SECONDS = 900


@dataclasses.dataclass(frozen=True)
class Done:
    """``told``: everything that was printed, in one line."""

    status: int
    text: str
    seconds: float

    @property
    def told(self) -> str:
        return " ".join(self.text.split())

    @property
    def short(self) -> str:
        """For a person who looks for the reason of a failure: without the recap of hundreds of nodes."""
        return self.text.partition("PLAY RECAP")[0][-6000:]

    @property
    def changed(self) -> int:
        return sum(int(one) for one in re.findall(r"\bchanged=(\d+)", self.text.rpartition("PLAY RECAP")[2]))


def environment(folder: Path) -> Mapping[str, str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "KUBECONFIG"))}
    clean.update(
        ANSIBLE_COLLECTIONS_PATH=str(ROOT / ".collections"),
        ANSIBLE_NOCOLOR="1",
        ANSIBLE_HOME=str(folder / "ansible_home"),
        ANSIBLE_LOCAL_TEMP=str(folder / "tmp"),
        ANSIBLE_REMOTE_TEMP=str(folder / "remote"),
        ANSIBLE_DISPLAY_SKIPPED_HOSTS="0",
        # kubectl keeps here what it learned about a server.
        HOME=str(folder),
    )
    return clean


class Play:
    """``account``: the kubeconfig. Its token is in nothing that a play prints."""

    def __init__(self, folder: Path, kubectl: str, kubeconfig: str) -> None:
        self.folder, self.kubeconfig = folder, kubeconfig
        self._token = json.loads(Path(kubeconfig).read_text())["users"][0]["user"]["token"]
        self._variables = {
            "gpu_node_kubernetes_kubectl": kubectl,
            "gpu_node_kubernetes_kubeconfig": kubeconfig,
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
        }

    def __call__(
        self, playbook: str, hosts: Mapping[str, Mapping[str, Any]], *words: str, fails: bool = False, **variables: Any
    ) -> Done:
        group = {"hosts": dict(hosts), "vars": {**self._variables, **variables}}
        inventory = self.folder / "inventory.json"
        inventory.write_text(json.dumps({"all": {"children": {"gpu_nodes": group}}}))
        path = playbook if os.path.isabs(playbook) else str(PLAYBOOKS / playbook)
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "ansible.cli.playbook", "-i", str(inventory), *words, path],
            env=dict(environment(self.folder)),
            cwd=str(self.folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        made = Done(done.returncode, done.stdout, time.monotonic() - began)
        assert "Traceback" not in done.stdout and self._token not in done.stdout, made.short
        assert (done.returncode != 0) == fails, made.short
        return made
