# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that belong to one node and not to the image: host name, keys, machine id, the NVML simulator.

They travel in a cpio archive behind the initramfs, so no second disk shows up in the guest and nothing is mounted on
the host. The initramfs puts them in place once per blank root disk.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Dict, Optional, Tuple

from . import boot_files, machine, places
from .progress import VirtualNodeError, step
from .settings import Settings

Files = Dict[str, Tuple[int, bytes]]


def node_files(folder: Path, name: str, settings: Settings) -> Files:
    files: Files = {
        "etc/hostname": (0o644, name.encode() + b"\n"),
        "etc/hosts": (0o644, "127.0.0.1 localhost\n127.0.1.1 {0}\n::1 localhost\n".format(name).encode()),
        "etc/machine-id": (0o444, uuid.uuid4().hex.encode() + b"\n"),
        "etc/ssh/ssh_host_ed25519_key": (0o600, (folder / "host_key").read_bytes()),
        "etc/ssh/ssh_host_ed25519_key.pub": (0o644, (folder / "host_key.pub").read_bytes()),
        "root/.ssh/authorized_keys": (0o600, (folder / "client_key.pub").read_bytes()),
    }
    files.update(_model_files(settings))
    if settings.lan:
        match = "[Match]\nMACAddress={0}\n\n[Network]\nAddress={1}\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n"
        text = match.format(machine.lan_mac(settings), settings.lan)
        # Before the file of the first interface, which would match this one too.
        files["etc/systemd/network/05-virtual-node-lan.network"] = (0o644, text.encode())
    built = simulator() if settings.machine != "none" and settings.gpus else None
    if built is not None:
        files.update(_simulator_files(built, settings.machine))
    return files


def _model_files(settings: Settings) -> Files:
    """What presents disks under a model string of their own; nothing where every disk has QEMU's."""
    lines = ["{0} {1}\n".format(disk.serial, disk.model) for disk in machine.blank_disks(settings) if disk.model]
    if not lines:
        return {}
    source = places.TOOL / "guest_files"
    unit = "etc/systemd/system/virtual-node-nvme.service"
    return {
        "etc/virtual_node/nvme_models": (0o644, "".join(lines).encode()),
        "usr/local/sbin/virtual-node-nvme": (0o755, (source / "virtual-node-nvme").read_bytes()),
        "etc/udev/rules.d/61-virtual-node-nvme.rules": (0o644, (source / "61-virtual-node-nvme.rules").read_bytes()),
        unit: (0o644, (source / "virtual-node-nvme.service").read_bytes()),
        "etc/systemd/system/sysinit.target.wants/virtual-node-nvme.service": (boot_files.LINK, ("/" + unit).encode()),
    }


def _simulator_files(built: Path, description: str) -> Files:
    """Where the simulator's own page says its parts belong in a guest (tools/nvml_simulator/README.md)."""
    files: Files = {
        "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1": (0o755, (built / "libnvidia-ml.so.1").read_bytes()),
        "usr/lib/x86_64-linux-gnu/libcuda.so.1": (0o755, (built / "libcuda.so.1").read_bytes()),
        "usr/local/bin/nvml-simulator": (0o755, (built / "nvml-simulator").read_bytes()),
    }
    for path in sorted((built / "machines").glob("*.conf")):
        files["usr/local/share/nvml_simulator/machines/" + path.name] = (0o644, path.read_bytes())
        if path.stem == description:
            files["etc/nvml_simulator/machine.conf"] = (0o644, path.read_bytes())
    if "etc/nvml_simulator/machine.conf" not in files:
        raise VirtualNodeError(
            "setting machine: {0} has no description in {1}; choose another.".format(description, places.MACHINES)
        )
    return files


def simulator() -> Optional[Path]:
    """The built NVML simulator of this tree, built anew when its sources changed; None where the tree has none."""
    if not (places.SIMULATOR / "Makefile").is_file():
        return None
    digest = hashlib.sha256()
    for path in sorted(places.SIMULATOR.rglob("*")):
        if (
            path.is_file()
            and path.suffix in (".c", ".h", ".conf", ".map", ".py", "")
            and "__pycache__" not in path.parts
        ):
            digest.update(str(path.relative_to(places.SIMULATOR)).encode() + b"\0" + path.read_bytes() + b"\0")
    folder = places.cache() / "simulator" / digest.hexdigest()[:12]
    if (folder / "libnvidia-ml.so.1").is_file():
        return folder
    if not (shutil.which("cc") and shutil.which("make")):
        raise VirtualNodeError(
            "NVML simulator: no C compiler or no make; install gcc and make, or use --set machine=none."
        )
    with places.lock(places.cache() / "simulator.lock", "another build of the NVML simulator"):
        if (folder / "libnvidia-ml.so.1").is_file():
            return folder
        _build_simulator(folder)
        for other in folder.parent.iterdir():
            if other != folder:
                shutil.rmtree(str(other), ignore_errors=True)
    return folder


def _build_simulator(folder: Path) -> None:
    partial = folder.with_name("building-{0}".format(os.getpid()))
    with step("building the NVML simulator"):
        done = subprocess.run(
            ["make", "-s", "-C", str(places.SIMULATOR), "OUT={0}".format(partial)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    if done.returncode != 0:
        shutil.rmtree(str(partial), ignore_errors=True)
        raise VirtualNodeError("NVML simulator: the build failed:\n{0}".format(done.stdout.strip()[-2000:]))
    partial.replace(folder)


def archive(files: Files, generation: str) -> bytes:
    content: Files = {"virtual_node/files/" + path: entry for path, entry in files.items()}
    content["virtual_node/generation"] = (0o644, generation.encode() + b"\n")
    return boot_files.archive(content)
