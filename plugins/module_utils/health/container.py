# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether this is a container: the clock, the kernel log and disks are then those of its host."""

from __future__ import annotations

from ..core.host import Host

# systemd (and who tells it), podman, Docker, Kubernetes.
_SIGNS = (
    "/run/systemd/container",
    "/run/.containerenv",
    "/.dockerenv",
    "/run/secrets/kubernetes.io",
    "/var/run/secrets/kubernetes.io",
)


def contained(host: Host) -> bool:
    return any(host.exists(path) for path in _SIGNS)
