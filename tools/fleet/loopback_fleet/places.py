# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder of a fleet: keys, the inventory, the log. It is all that a fleet writes on this machine."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Dict, List

from .settings import FleetError, Settings

TOOL = Path(__file__).resolve().parent.parent
REPOSITORY = TOOL.parent.parent


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "trainyard-gpu-node"


class Places:
    def __init__(self, run: str) -> None:
        if not run.replace("-", "").replace("_", "").isalnum():
            raise FleetError("--run {0}: a name has letters, digits, - and _; give another.".format(run))
        self.folder = Path(tempfile.gettempdir()) / "gpu-node-fleet-{0}-{1}".format(os.getuid(), run)
        self.key = self.folder / "key"
        self.host_key = self.folder / "host_key"
        self.known_hosts = self.folder / "known_hosts"
        self.inventory = self.folder / "inventory.json"
        self.log = self.folder / "log"
        self.supervisor = self.folder / "supervisor"

    def make(self) -> None:
        """
        :raises FleetError: when a fleet of this name is up.
        """
        if self.process():
            raise FleetError("{0}: a fleet of this name is up; end it by 'fleet down'.".format(self.folder))
        self.remove()
        self.folder.mkdir(mode=0o700)
        for key in (self.key, self.host_key):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "fleet", "-f", str(key)], check=True)
        self.known_hosts.write_text("* {0}\n".format(self.host_key.with_suffix(".pub").read_text().strip()))

    def remove(self) -> None:
        if self.folder.is_symlink() or (self.folder.exists() and self.folder.stat().st_uid != os.getuid()):
            raise FleetError("{0}: it is somebody else's; remove it, or give another --run.".format(self.folder))
        shutil.rmtree(str(self.folder), ignore_errors=True)

    def process(self) -> int:
        """The supervisor, as long as it lives: it holds a lock on the file that names it. Otherwise 0."""
        try:
            with open(str(self.supervisor)) as stream:
                try:
                    fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return int(stream.read() or 0)
        except FileNotFoundError:
            pass
        return 0

    def ssh_options(self) -> List[str]:
        options = {
            "UserKnownHostsFile": self.known_hosts,
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
        }
        return ["-F", "none"] + ["-o{0}={1}".format(name, value) for name, value in options.items()]

    def write_inventory(self, settings: Settings, port: int) -> None:
        variables: Dict[str, object] = {
            "ansible_user": "root",
            "ansible_port": port,
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_private_key_file": str(self.key),
            "ansible_ssh_common_args": " ".join(self.ssh_options()),
        }
        hosts = {node.name: {"ansible_host": node.address} for node in settings.nodes}
        content = {"gpu_nodes": {"hosts": hosts, "vars": variables}}
        self.inventory.write_text(json.dumps(content, indent=1) + "\n")
