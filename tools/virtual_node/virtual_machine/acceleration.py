# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hardware acceleration only where it was shown to boot this image; a usable-looking /dev/kvm proves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Tuple

from . import places
from .image import Image
from .progress import VirtualNodeError, say, step

_PROBE_SECONDS = 20.0
_BOOTED = b"Run /init as init process"


def qemu_version() -> str:
    try:
        done = subprocess.run(
            ["qemu-system-x86_64", "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
    except FileNotFoundError:
        raise VirtualNodeError("qemu-system-x86_64: not found; install the package qemu-system-x86.") from None
    return done.stdout.splitlines()[0] if done.stdout else ""


def _obvious() -> str:
    """Why KVM cannot work, where that is plain without a probe; empty when only a boot can tell."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "this user cannot open /dev/kvm"
    flags = Path("/proc/cpuinfo").read_text(errors="replace")
    return "" if " vmx" in flags or " svm" in flags else "the CPU shows neither vmx nor svm"


def _boots(image: Image) -> bool:
    """Start the kernel with KVM and see whether it comes as far as its first process."""
    with tempfile.TemporaryDirectory(prefix="virtual-node-probe-") as folder:
        console = Path(folder) / "console"
        command = [
            "qemu-system-x86_64",
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            "-machine",
            "q35",
        ]
        command += [
            "-accel",
            "kvm",
            "-cpu",
            "host",
            "-smp",
            "2",
            "-m",
            "512M",
            "-kernel",
            str(image.kernel),
            "-initrd",
            str(image.initramfs("quick")),
        ]
        command += ["-append", "console=ttyS0 panic=-1", "-serial", "file:{0}".format(console)]
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            end = time.monotonic() + _PROBE_SECONDS
            while time.monotonic() < end and child.poll() is None:
                if console.exists() and _BOOTED in console.read_bytes():
                    return True
                time.sleep(0.2)
            return console.exists() and _BOOTED in console.read_bytes()
        finally:
            child.kill()
            child.wait()


def choose(image: Image) -> Tuple[str, str]:
    """("kvm" or "tcg", why). The probe's outcome is kept until this host, its kernel's boot or QEMU changes."""
    wanted = os.environ.get("VIRTUAL_NODE_ACCELERATOR", "")
    if wanted in ("kvm", "tcg"):
        return wanted, "VIRTUAL_NODE_ACCELERATOR says so"
    reason = _obvious()
    if reason:
        return "tcg", reason
    key = "{0} {1}".format(Path("/proc/sys/kernel/random/boot_id").read_text().strip(), qemu_version())
    kept = places.cache() / "acceleration.json"
    try:
        known = json.loads(kept.read_text())
        if known["key"] == key:
            return known["accelerator"], known["why"]
    except (OSError, ValueError, KeyError):
        pass
    with step("trying hardware acceleration (at most {0:.0f} s)".format(_PROBE_SECONDS)):
        works = _boots(image)
    outcome = ("kvm", "a probe booted with it") if works else ("tcg", "a probe did not boot with KVM")
    say("  {0}: {1}".format(*outcome))
    temporary = kept.with_suffix(".{0}".format(os.getpid()))
    temporary.write_text(json.dumps({"key": key, "accelerator": outcome[0], "why": outcome[1]}))
    temporary.replace(kept)
    return outcome
