# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the shared scratch of jobs."""

from __future__ import annotations

from typing import Any, Dict

from ...core.options import option, options, state
from ...slurm.beeond import rules

_USUAL = rules.Settings()


@options
class Desired:
    _for_absent = ("mount_point",)

    present: bool = state(
        "V(absent) removes the configuration and the key. The packages of BeeGFS and the kernel module stay. Refused "
        "while a job has a shared scratch on the node."
    )
    word: str = option(
        _USUAL.word,
        "The word in a job's comment or constraint by which it asks for a shared scratch.",
        form=(r"[A-Za-z0-9_-]{1,32}", "word", "use letters, digits, _ and -"),
    )
    mount_point: str = option(
        _USUAL.mount_point,
        "Folder of the mount points; that of a job is called by its number. It is made where it is not there, and "
        "refused where others than root may write to it or something is mounted.",
        form=(r"/[A-Za-z0-9][A-Za-z0-9._-]*", "folder right below /", "give a path such as /beeond"),
    )
    start_seconds: int = option(
        _USUAL.start_seconds,
        "How long the start may take. The other nodes of the job wait half a minute longer.",
        bounds=(30, 900),
        unit="seconds",
    )
    port_shift: int = option(
        _USUAL.port_shift,
        "Added to the ports of BeeGFS (8003 to 8008), with ten times the last digit of the job's number on top.",
        bounds=(100, 20000),
    )
    auth_secret: str = option(
        "",
        "The shared key of the servers and clients of BeeGFS (C(connAuthFile)), the same on all nodes. Take it from a "
        "vault. Once written it is kept when none is given.",
        key=True,
        form=(r"|[ -~]{16,1024}", "key of 16 to 1024 printable characters", "make one with 'openssl rand -hex 32'"),
    )

    def section(self) -> Dict[str, Any]:
        """What the hooks go by."""
        return {
            "word": self.word,
            "mount_point": self.mount_point,
            "start_seconds": self.start_seconds,
            "port_shift": self.port_shift,
        }
