# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all nodes have over the files of this machine: an sshd, simulated GPUs, and nothing of what is private here."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Optional

from .places import REPOSITORY, Places, cache
from .settings import FleetError, Settings

SIMULATOR = REPOSITORY / "tools" / "nvml_simulator"
TREES = REPOSITORY / "tests" / "unit" / "data" / "topology"
LIBRARIES = "usr/lib/{0}-linux-gnu".format(platform.machine())
# The folders of the machine that a node has too; all others at the root are empty in it.
SHOWN = ("bin", "etc", "lib", "lib32", "lib64", "libx32", "sbin", "usr", "var")
# What a blank node does not have, whatever this machine is used for.
HIDDEN = ("etc/gpu_node", "etc/nvml_simulator", "etc/slurm", "etc/ssh", "var/lib/gpu_node", "var/log", "var/tmp")
# The program, and the library that nothing else of a small system needs.
PACKAGES = ("openssh-server", "libwrap0")
SSHD_CONFIG = """\
HostKey /etc/ssh/host_key
AuthorizedKeysFile /etc/ssh/authorized_keys
AuthenticationMethods publickey
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
PrintMotd no
PidFile none
LogLevel ERROR
MaxSessions 100
Subsystem sftp internal-sftp
"""


def sshd() -> Optional[Path]:
    """The folder of an unpacked sshd; None where one is installed.

    Installed for this, it would be a service that is open to the network; unpacked into the cache it is not.

    :raises FleetError: when it is neither installed nor to be had from the package manager.
    """
    if os.path.exists("/usr/sbin/sshd"):
        return None
    unpacked = cache() / "openssh-server"
    if unpacked.exists():
        return unpacked
    unpacked.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=str(unpacked.parent)) as folder:
        try:
            subprocess.run(["apt-get", "-q", "download", *PACKAGES], cwd=folder, check=True, capture_output=True)
            for package in Path(folder).glob("*.deb"):
                subprocess.run(["dpkg-deb", "-x", str(package), folder + "/tree"], check=True)
            os.rename(folder + "/tree", str(unpacked))
        except (OSError, subprocess.CalledProcessError):
            text = "sshd: it is not installed, and apt-get does not have {0}; install openssh-server."
            raise FleetError(text.format(" and ".join(PACKAGES))) from None
    return unpacked


def simulator() -> Path:
    """The folder with the compiled simulator of NVML, by the state of its source."""
    digest = hashlib.sha256()
    for path in sorted(path for path in SIMULATOR.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(SIMULATOR)).encode() + b"\0" + path.read_bytes())
    built = cache() / "fleet" / digest.hexdigest()[:16]
    if not built.is_dir():
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=str(built.parent)) as folder:
            out = os.path.join(folder, "out")
            done = subprocess.run(
                ["make", "--silent", "-C", str(SIMULATOR), "OUT=" + out], capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                text = "the NVML simulator: it cannot be compiled ({0}); install gcc, libc6-dev and make."
                raise FleetError(text.format((done.stderr.strip().splitlines() or ["make failed"])[-1]))
            os.rename(out, str(built))
    return built


def build(folder: str, places: Places, settings: Settings, program: Optional[Path], simulated: Path) -> None:
    """Fill ``folder``, a layer of an overlay: an opaque folder in it hides the one of the machine."""
    top = Path(folder)
    for name in os.listdir("/"):
        if name not in SHOWN and os.path.isdir("/" + name):
            _hide(top / name)
    for path in HIDDEN:
        _hide(top / path)
    for name in ("tmp", "var/tmp"):
        os.chmod(str(top / name), 0o1777)  # noqa: S103
    for name in ("root", "etc/ssh"):
        os.chmod(str(top / name), 0o700)

    if program is not None:
        shutil.copytree(str(program / "usr"), str(top / "usr"), symlinks=True)
    (top / "etc/ssh/sshd_config").write_text(SSHD_CONFIG)
    _copy(places.host_key, top / "etc/ssh/host_key", 0o600)
    _copy(places.key.with_suffix(".pub"), top / "etc/ssh/authorized_keys", 0o600)
    _accounts(top)

    for library in ("libnvidia-ml.so.1", "libcuda.so.1"):
        _copy(simulated / library, top / LIBRARIES / library, 0o755)
    _copy(simulated / "nvml-simulator", top / "usr/local/bin/nvml-simulator", 0o755)
    machine = simulated / "machines" / (settings.machine + ".conf")
    if not machine.exists():
        raise FleetError("--machine {0}: there is no such one; see {1}.".format(settings.machine, SIMULATOR))
    _copy(machine, top / "etc/nvml_simulator/machine.conf", 0o644)


def sysfs(folder: str, name: str) -> None:
    """A captured /sys, as the unit tests have them."""
    found = importlib.util.spec_from_file_location("unpack", str(TREES / "unpack.py"))
    if found is None or found.loader is None or not (TREES / (name + ".tree")).exists():
        raise FleetError("--tree {0}: there is no such one; see {1}.".format(name, TREES))
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    module.unpack(name, folder)


def _hide(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    os.setxattr(str(path), "user.overlay.opaque", b"y")


def _copy(source: Path, target: Path, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(str(source), str(target))
    os.chmod(str(target), mode)


def _accounts(top: Path) -> None:
    """sshd wants a user of its own, and root one that is not locked; no password of the machine is shown."""
    accounts = Path("/etc/passwd").read_text()
    if "\nsshd:" not in accounts:
        accounts += "sshd:x:22:65534::/run/sshd:/usr/sbin/nologin\n"
    (top / "etc/passwd").write_text(accounts)
    (top / "etc/shadow").write_text("root:*:20000:0:99999:7:::\n")
    os.chmod(str(top / "etc/shadow"), 0o600)
