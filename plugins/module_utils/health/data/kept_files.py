# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that a resource of this collection always keeps where its section of the declaration names them.

A section may name more: files that only some machines need, or that a service writes by itself.
"""

from __future__ import annotations

from typing import Tuple

from ...core import systemd
from ...core.frozen import frozen


@frozen
class Kept:
    """``pattern`` is one of shell patterns, of the path."""

    section: str
    pattern: str
    source: str


_PLAN = "this collection, plugins/module_utils/{0}/plan.py: its section names what it writes"

KEPT: Tuple[Kept, ...] = (
    Kept("nccl", "*", _PLAN.format("nccl")),
    Kept("hpcx", "*", _PLAN.format("hpcx")),
    Kept("job_templates", "*", _PLAN.format("job_templates")),
    Kept("rdma", "*", _PLAN.format("rdma")),
    Kept("pyxis", "*", _PLAN.format("pyxis")),
    Kept(
        "enroot",
        "/etc/enroot/enroot.conf.d/*",
        "this collection, plugins/module_utils/resources/enroot/types.py: SETTINGS_FILE",
    ),
    Kept(
        "slurm_hooks",
        "*/00-gpu_node",
        "this collection, plugins/module_utils/slurm/hooks_conf.py: PROLOG_NAMES",
    ),
    Kept(
        "slurm_hooks",
        "*/zz-gpu_node",
        "this collection, plugins/module_utils/slurm/hooks_conf.py: PROLOG_NAMES",
    ),
    Kept(
        "slurm_hooks",
        "*/50-gpu_node",
        "this collection, plugins/module_utils/slurm/hooks_conf.py: EPILOG_NAME",
    ),
    Kept("health_gate", systemd.path("*"), "this collection, docs/architecture.md: its units"),
)
