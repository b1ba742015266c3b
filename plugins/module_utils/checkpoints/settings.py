# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What section ``checkpoint`` of the declaration says, and the defaults of its options. Pure."""

from __future__ import annotations

from typing import Any, Mapping

from ..core.frozen import frozen
from ..pinning.transfer import HEADROOM_PERCENT

SECTION = "checkpoint"
MSI, SPN, WORKLOAD, SAS_FILE = AUTHS = ("msi", "spn", "workload", "sas_file")
# One account of 20 Gb/s, and a file for each of eight GPUs.
INGRESS_GBPS = 20.0
FILES_PER_NODE = 8
GBPS_RANGE = (0.001, 10000.0)
FILES_RANGE = (1, 1024)
NODES_RANGE = (1, 100000)


@frozen
class Settings:
    """As the options of the resource ``checkpoint`` have them."""

    destination: str = ""
    auth: str = MSI
    sas_file: str = ""
    msi_client_id: str = ""
    tenant_id: str = ""
    application_id: str = ""
    secret_file: str = ""
    account_ingress_gbps: float = INGRESS_GBPS
    account_egress_gbps: float = INGRESS_GBPS
    nodes: int = 1
    files_per_node: int = FILES_PER_NODE
    headroom_percent: float = HEADROOM_PERCENT
    keep: int = 0
    work_folder: str = ""
    metrics_folder: str = ""


def read(section: Mapping[str, Any]) -> Settings:
    """Of a section that we wrote. A person may have edited it: a value of another kind is passed over."""
    known = {name: getattr(Settings, name) for name in Settings.__annotations__}
    given = {
        name: type(known[name])(value)
        for name, value in section.items()
        if name in known and isinstance(value, (int, float) if isinstance(known[name], float) else type(known[name]))
    }
    return Settings(**given)
