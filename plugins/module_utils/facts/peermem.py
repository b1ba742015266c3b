# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-peermem, the kernel module by which an RDMA adapter reads and writes the memory of a GPU."""

from __future__ import annotations

import re

from ..core.frozen import frozen
from ..core.host import Host


@frozen
class Peermem:
    """``installed``: the running kernel has a module nvidia-peermem. ``loaded``: it is at work."""

    installed: bool = False
    loaded: bool = False


def peermem(host: Host) -> Peermem:
    release = host.read_line("/proc/sys/kernel/osrelease") or ""
    listed = host.read("/lib/modules/{0}/modules.dep".format(release)) if release else None
    return Peermem(
        installed=re.search(r"(^|/)nvidia[-_]peermem\.ko(\.[a-z]+)?:", listed or "", re.MULTILINE) is not None,
        loaded=host.exists("/sys/module/nvidia_peermem"),
    )
