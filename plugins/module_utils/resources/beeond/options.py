# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the shared scratch of jobs."""

from __future__ import annotations

from ...core.options import option, options, state
from ...slurm.beeond import rules


@options
class Desired(rules.Settings):
    _for_absent = ("mount_point",)

    present: bool = state(
        "V(absent) removes the configuration and the key. The packages of BeeGFS and the kernel module stay. Refused "
        "while a job has a shared scratch on the node."
    )
    auth_secret: str = option(
        "",
        "The shared key of the servers and clients of BeeGFS (C(connAuthFile)), the same on all nodes. Take it from a "
        "vault. Once written it is kept when none is given.",
        key=True,
        form=(r"|[ -~]{16,1024}", "key of 16 to 1024 printable characters", "make one with 'openssl rand -hex 32'"),
    )
