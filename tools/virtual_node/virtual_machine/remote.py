# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way into a guest: ssh with a key and a host key of this node only."""

from __future__ import annotations

import hashlib
import os
import shlex
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from .progress import VirtualNodeError


def new_key(path: Path, comment: str) -> None:
    """An ed25519 key pair without a passphrase."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        raise VirtualNodeError("ssh-keygen: {0}; is the package openssh-client installed?".format(done.stdout.strip()))


def ssh_options(folder: Path, name: str) -> List[str]:
    """Options for ssh and Ansible alike. The user's own configuration, agent and known hosts play no part."""
    return [
        "-F",
        "/dev/null",
        "-o",
        "IdentityFile={0}".format(folder / "client_key"),
        "-o",
        "IdentitiesOnly=yes",
        "-o",
        "IdentityAgent=none",
        "-o",
        "UserKnownHostsFile={0}".format(folder / "known_hosts"),
        "-o",
        "HostKeyAlias={0}".format(name),
        "-o",
        "StrictHostKeyChecking=yes",
        "-o",
        "GlobalKnownHostsFile=/dev/null",
        "-o",
        "LogLevel=ERROR",
        # The cheapest on an emulated CPU; the traffic never leaves this host.
        "-o",
        "KexAlgorithms=curve25519-sha256",
        "-o",
        "ConnectTimeout=20",
        "-o",
        "ServerAliveInterval=15",
        "-o",
        "ServerAliveCountMax=12",
    ]


def ssh_command(
    folder: Path, name: str, port: int, command: Sequence[str], options: Sequence[str] = (), terminal: bool = False
) -> List[str]:
    out = ["ssh"] + ssh_options(folder, name) + list(options) + ["-p", str(port)] + (["-t"] if terminal else [])
    return out + ["root@127.0.0.1"] + list(command)


def _shared_connection(folder: Path) -> List[str]:
    """Options for one connection that many commands share: a sign-in costs an emulated CPU a second.

    Its socket lies in a folder of this user under the temporary folder, as a socket's path may have 107 bytes only. It
    closes itself, half a minute after its last use, and at once when the node goes off.
    """
    base = Path(tempfile.gettempdir()) / "virtual-node-{0}".format(os.getuid())
    base.mkdir(mode=0o700, exist_ok=True)
    if base.stat().st_uid != os.getuid() or base.is_symlink():
        return []
    path = base / hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return ["-o", "ControlMaster=auto", "-o", "ControlPath={0}".format(path), "-o", "ControlPersist=30"]


def close_shared_connection(folder: Path, name: str) -> None:
    """Before a reboot: a connection to the system that was would only be noticed by its time limit."""
    options = _shared_connection(folder)
    if options:
        command = ["ssh"] + ssh_options(folder, name) + options[2:4] + ["-O", "exit", "root@127.0.0.1"]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def run(
    folder: Path,
    name: str,
    port: int,
    command: str,
    timeout_seconds: float,
    stdin: Optional[bytes] = None,
    share: bool = True,
) -> subprocess.CompletedProcess[bytes]:
    """Run a shell command in the guest. A connection that fails is exit status 255, as ssh has it."""
    # An absent standard input is /dev/null: nothing in the guest can wait for a person.
    return subprocess.run(
        ssh_command(folder, name, port, ["--", command], options=_shared_connection(folder) if share else []),
        input=b"" if stdin is None else stdin,
        capture_output=True,
        timeout=timeout_seconds,
        check=False,
    )


def answers(port: int) -> bool:
    """Whether an ssh server shows its banner; cheap, so it can be asked often.

    Not too often: sshd of Debian 13 shuts out for a while who has connected some fifteen times without signing in
    (PerSourcePenalties), and on a busy host it takes seconds to show its banner.
    """
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
            connection.settimeout(4.0)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def free_port() -> int:
    """A port that is free now. Another process may take it before QEMU does; the caller then asks again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def inventory_host(folder: Path, name: str, port: int) -> Dict[str, Any]:
    """The variables of an Ansible inventory host."""
    return {
        "ansible_host": "127.0.0.1",
        "ansible_port": port,
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_common_args": " ".join(shlex.quote(word) for word in ssh_options(folder, name)),
        "ansible_ssh_private_key_file": str(folder / "client_key"),
    }


def replace_this_process(command: Sequence[str]) -> None:
    os.execvp(command[0], list(command))  # noqa: S606
